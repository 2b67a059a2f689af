package gateway

import (
	"io"
	"sync"
)

// What came in and is not taken stays in the heap: the protocol library lets a
// peer send two megabytes on each channel, and has them as messages, of which
// small ones need more than they carry. So many bytes, as they were on the wire,
// may wait on all connections of a share, and on all together. What the collector has not found yet comes on
// top: as much as half of it.
const (
	maxUnread      = 128 << 20
	maxSliceUnread = 48 << 20
)

// leastMessage is what a message needs on the wire beside its data, at least.
const leastMessage = 32

// stalls are the backlogs with flows that wait. The zero value is ready.
type stalls struct {
	mu  sync.Mutex // guards the backlogs and flows, too
	all int
	by  map[string]int // by whose they are
	of  map[*backlog]struct{}
}

// backlog is what a connection has sent and nobody has taken. It is only counted
// while there is a flow that waits: all else is read at once.
type backlog struct {
	of    *stalls
	c     *login
	flows map[*flow]struct{}
	bytes int
	over  bool // the connection is ended and not counted any more
}

// flow is what comes in on a channel.
type flow struct {
	b     *backlog
	c     *login
	n     int
	empty bool
	to    io.Closer
}

func (c *login) flow() *flow { return &flow{b: c.line.backlog, c: c} }

// came says that n bytes came in. If now too much waits, the connection that has
// most of it is ended.
func (b *backlog) came(n int) {
	s := b.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b.flows) == 0 || b.over {
		return
	}
	b.add(n)
	whose := b.c.share
	if s.by[whose] <= maxSliceUnread {
		if s.all <= maxUnread {
			return
		}
		for other, bytes := range s.by {
			if bytes > s.by[whose] {
				whose = other
			}
		}
	}
	var worst *backlog
	for o := range s.of {
		if !o.over && o.c.share == whose && (worst == nil || o.bytes > worst.bytes) {
			worst = o
		}
	}
	worst.drop()
}

// add counts n bytes more. What was sent before anything was counted may be
// taken now. The lock is held.
func (b *backlog) add(n int) {
	n = max(n, -b.bytes)
	if n == 0 || b.over {
		return
	}
	s, whose := b.of, b.c.share
	if s.by == nil {
		s.by = make(map[string]int)
	}
	b.bytes += n
	s.all += n
	if s.by[whose] += n; s.by[whose] == 0 {
		delete(s.by, whose)
	}
}

// drop ends the connection, and lets go at once of what still could be
// delivered. The lock is held.
func (b *backlog) drop() {
	b.c.g.log.Warn("a connection is ended: it sends what nobody reads", "node", b.c.node, "user", b.c.user, "bytes", b.bytes)
	b.add(-b.bytes)
	b.over = true
	go b.c.end()
	for f := range b.flows {
		if f.to != nil {
			go f.to.Close()
		}
	}
}

// begin says that n bytes of f were read and wait to be taken, and whether that
// was all that there was.
func (f *flow) begin(n int, empty bool) {
	b, s := f.b, f.b.of
	s.mu.Lock()
	defer s.mu.Unlock()
	f.n, f.empty = n, empty
	if b.flows == nil {
		b.flows = make(map[*flow]struct{})
	}
	b.flows[f] = struct{}{}
	b.c = f.c
	if s.of == nil {
		s.of = make(map[*backlog]struct{})
	}
	s.of[b] = struct{}{}
}

// end says that what was read is taken.
func (f *flow) end() {
	s := f.b.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, waits := f.b.flows[f]; !waits {
		return
	}
	f.b.add(-f.n)
	f.n = 0
	if f.empty {
		f.b.add(-leastMessage) // at least one came since it was empty before
		f.leave()
	}
}

// close says that nothing of f waits, nor ever will.
func (f *flow) close() {
	s := f.b.of
	s.mu.Lock()
	defer s.mu.Unlock()
	f.leave()
}

func (f *flow) leave() {
	if delete(f.b.flows, f); len(f.b.flows) == 0 && f.b.c != nil {
		f.b.add(-f.b.bytes)
		delete(f.b.of.of, f.b)
	}
}

// into says what takes f, which is closed when the connection is ended for it.
func (f *flow) into(w io.Writer) {
	s := f.b.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.to, _ = w.(io.Closer); f.to != nil && f.b.over {
		go f.to.Close()
	}
}
