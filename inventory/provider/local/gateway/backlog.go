package gateway

import (
	"io"
	"sync"
)

// Received data stays in the heap until its receiver takes it. The SSH library accepts
// 2 MB on each channel and stores them as messages; a small message needs more memory than
// its data. The limits count bytes on the wire: maxSliceUnread for all connections of a
// share (see shareFor), maxUnread for all connections.
const (
	maxUnread      = 128 << 20
	maxSliceUnread = 48 << 20
)

// leastMessage is the smallest overhead of a message on the wire, in bytes.
const leastMessage = 32

// backlogs counts the unread data of all connections. The zero value is ready.
type backlogs struct {
	mu      sync.Mutex            // also guards each backlog and flow
	total   int                   // bytes of all connections
	byShare map[string]int        // bytes of each share
	waiting map[*backlog]struct{} // the connections with a waiting flow
}

// backlog is the data that a connection has received and that its receivers have not yet
// taken. It is counted only while a flow waits for its receiver. Without a waiting flow,
// data is delivered at once.
type backlog struct {
	parent *backlogs
	c      *login
	flows  map[*flow]struct{}
	bytes  int
	closed bool // the connection is ended and no longer counted
}

// flow is the incoming data of one channel.
type flow struct {
	b     *backlog
	c     *login
	n     int       // bytes that were read and wait to be written
	empty bool      // no more bytes had arrived
	to    io.Closer // the writer; nil until it is known
}

func (c *login) flow() *flow { return &flow{b: c.transport.backlog, c: c} }

// received counts n received bytes. If the connection's share exceeds maxSliceUnread,
// received ends the connection with the largest backlog in this share. If all shares
// together exceed maxUnread, received does the same in the share with the most bytes.
func (b *backlog) received(n int) {
	s := b.parent
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b.flows) == 0 || b.closed {
		return
	}
	b.add(n)
	share := b.c.share
	if s.byShare[share] <= maxSliceUnread {
		if s.total <= maxUnread {
			return
		}
		for other, bytes := range s.byShare {
			if bytes > s.byShare[share] {
				share = other
			}
		}
	}
	var worst *backlog
	for o := range s.waiting {
		if !o.closed && o.c.share == share && (worst == nil || o.bytes > worst.bytes) {
			worst = o
		}
	}
	worst.drop()
}

// add adds n bytes, which may be negative. No counter goes below zero, because a caller
// may subtract data that arrived before the counting started. The lock is held.
func (b *backlog) add(n int) {
	n = max(n, -b.bytes)
	if n == 0 || b.closed {
		return
	}
	s, share := b.parent, b.c.share
	if s.byShare == nil {
		s.byShare = make(map[string]int)
	}
	b.bytes += n
	s.total += n
	if s.byShare[share] += n; s.byShare[share] == 0 {
		delete(s.byShare, share)
	}
}

// drop ends the connection and discards undelivered data at once. The lock is held.
func (b *backlog) drop() {
	b.c.g.log.Warn("connection closed: the receiver left too much data unread", "node", b.c.node, "user", b.c.user, "bytes", b.bytes)
	b.add(-b.bytes)
	b.closed = true
	go b.c.end()
	for f := range b.flows {
		if f.to != nil {
			go f.to.Close()
		}
	}
}

// begin records that n bytes of f were read and wait to be written. empty means that no
// more bytes had arrived.
func (f *flow) begin(n int, empty bool) {
	b, s := f.b, f.b.parent
	s.mu.Lock()
	defer s.mu.Unlock()
	f.n, f.empty = n, empty
	if b.flows == nil {
		b.flows = make(map[*flow]struct{})
	}
	b.flows[f] = struct{}{}
	b.c = f.c
	if s.waiting == nil {
		s.waiting = make(map[*backlog]struct{})
	}
	s.waiting[b] = struct{}{}
}

// end records that the data of begin was written.
func (f *flow) end() {
	s := f.b.parent
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, waits := f.b.flows[f]; !waits {
		return
	}
	f.b.add(-f.n)
	f.n = 0
	if f.empty {
		f.b.add(-leastMessage) // data since the flow was empty came in at least one message
		f.leave()
	}
}

// close records that f has no more data.
func (f *flow) close() {
	s := f.b.parent
	s.mu.Lock()
	defer s.mu.Unlock()
	f.leave()
}

// leave records that f does not wait. Without a waiting flow, the backlog is empty. The
// lock is held.
func (f *flow) leave() {
	if delete(f.b.flows, f); len(f.b.flows) == 0 && f.b.c != nil {
		f.b.add(-f.b.bytes)
		delete(f.b.parent.waiting, f.b)
	}
}

// setWriter sets the writer that drop closes.
func (f *flow) setWriter(w io.Writer) {
	s := f.b.parent
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.to, _ = w.(io.Closer); f.to != nil && f.b.closed {
		go f.to.Close()
	}
}
