package mtls

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxRecord is the largest number of bytes in one TLS record.
	maxRecord = 16 << 10
	// maxWrite is the largest number of bytes that are encrypted at once.
	maxWrite = maxRecord
	// maxReplies limits the bytes that the server sends on one connection in reply to key
	// updates and offers of a renegotiation. Honest peers cause a few dozen bytes.
	maxReplies = 4 << 10
	// closeNotifyTimeout limits the time in which Close tries to send its close_notify.
	closeNotifyTimeout = 5 * time.Second
)

// inBuffer is the buffer for one read of the inner connection. outBuffer is the buffer for the
// records of one write, with room for all replies that may wait to be sent before them.
type (
	inBuffer  [8 << 10]byte
	outBuffer [maxWrite + maxReplies + 512]byte
)

var (
	inBuffers  = sync.Pool{New: func() any { return new(inBuffer) }}
	outBuffers = sync.Pool{New: func() any { return new(outBuffer) }}
)

// Conn is the server's side of one TLS connection. It is a net.Conn. The first Read or Write
// performs the handshake, under the deadlines set at that time. After a failed handshake, all
// later calls of Read and Write fail; after a failed write, all later writes fail.
//
// Locks are taken in the order of the fields.
type Conn struct {
	raw net.Conn
	ctx *Context

	hsMu   sync.Mutex // held during the handshake
	hsDone bool
	hsErr  error
	source netip.Addr // address of the peer, for its turn in the line
	dates  deadlines

	inMu sync.Mutex // held by the reader, so that bytes are fed in their order

	outMu  sync.Mutex // held from encryption to sending, so that records keep their order
	outErr error      // why nothing more is sent: a write failed, or close_notify was sent

	mu      sync.Mutex // never held over network I/O
	ssl     session
	freed   bool     // ssl is freed
	broken  error    // a failure of ssl; after it ssl can only be drained
	chain   [][]byte // the peer's certificates; nil before the handshake is done
	waiting int      // bytes in ssl that must be sent
	replies int      // bytes that reads have caused, see maxReplies
}

// PeerChain returns the certificates that the peer sent, in DER, its own first; nil before
// the handshake is done. The peer has proven that it has the key of the first certificate;
// nothing else about the certificates is verified. The caller must not change them.
func (c *Conn) PeerChain() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chain
}

// Read reads decrypted bytes. It returns io.EOF after the peer's close_notify,
// and also when the peer ends the connection without one, as many clients do:
// HTTP itself detects whether a message was cut short.
func (c *Conn) Read(p []byte) (int, error) {
	if err := c.handshake(); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	c.inMu.Lock()
	defer c.inMu.Unlock()
	return c.pump(func(s session, in []byte) (result, error) {
		before := c.waiting
		r, err := s.read(p, in)
		if c.replies += r.pending - before; err == nil && c.replies > maxReplies {
			err = &Error{Op: "read", Reason: "the peer requests too many key updates"}
		}
		return r, err
	}, nil)
}

// Write encrypts p and sends it.
func (c *Conn) Write(p []byte) (int, error) {
	if err := c.handshake(); err != nil {
		return 0, err
	}
	buf := outBuffers.Get().(*outBuffer)
	defer outBuffers.Put(buf)
	c.outMu.Lock()
	defer c.outMu.Unlock()
	sent := 0
	for sent < len(p) {
		if c.outErr != nil {
			return sent, c.outErr
		}
		r, err := c.do(func(s session) (result, error) { return s.write(p[sent:], buf[:]) })
		if err == nil && r.state != done {
			err = &Error{Op: "write", Reason: "OpenSSL wants to read first"}
		}
		if err != nil {
			return sent, err
		}
		if err = c.send(buf[:r.out]); err == nil && r.pending > 0 {
			err = c.drain(session.drain)
		}
		if err != nil {
			return sent, err
		}
		sent += r.n
	}
	return sent, nil
}

// CloseWrite sends a close_notify. Afterwards, Read continues and Write returns net.ErrClosed.
// net/http calls CloseWrite so that the client gets an answer before net/http drops the rest
// of the request.
func (c *Conn) CloseWrite() error { return c.sendCloseNotify() }

// Close sends a close_notify, unless a writer is active. It tries this for at most
// closeNotifyTimeout. Then it closes the inner connection, which ends every Read and Write, and
// frees the memory in OpenSSL. A second Close returns net.ErrClosed.
func (c *Conn) Close() error {
	c.sendCloseNotify() // best effort: the peer may be gone
	err := c.raw.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.freed {
		return net.ErrClosed
	}
	c.freed = true
	c.ctx.free(c.ssl)
	return err
}

// LocalAddr returns the address of the inner connection.
func (c *Conn) LocalAddr() net.Addr { return c.raw.LocalAddr() }

// RemoteAddr returns the remote address of the inner connection.
func (c *Conn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// NetConn returns the inner connection, for the listener that created it. Reading from
// it or writing to it breaks the session.
func (c *Conn) NetConn() net.Conn { return c.raw }

// handshake runs the handshake once. After the handshake, the deadlines that were set on
// the connection apply.
func (c *Conn) handshake() error {
	c.hsMu.Lock()
	defer c.hsMu.Unlock()
	if c.hsDone {
		return c.hsErr
	}
	_, err := c.pump(func(s session, in []byte) (result, error) {
		r, err := s.handshake(in)
		if err == nil && r.state == done {
			c.chain = s.peers()
		}
		return r, err
	}, &c.ctx.line)
	c.dates.lift(c.raw)
	c.hsDone, c.hsErr = true, err
	if err != nil {
		c.ctx.report(c.RemoteAddr(), err)
	}
	return err
}

// pump repeats op until op is done. It passes the peer's bytes to op, and sends the bytes that
// op has for the peer. It returns result.n of the last op. If line is not nil, each op with
// bytes of the peer waits for a turn in the line.
func (c *Conn) pump(op func(s session, in []byte) (result, error), line *line) (int, error) {
	var in []byte
	var buf *inBuffer
	defer func() {
		if buf != nil {
			inBuffers.Put(buf)
		}
	}()
	for {
		step := func(s session) (result, error) { return op(s, in) }
		var r result
		var err error
		if line != nil && len(in) > 0 {
			r, err = c.inTurn(line, step)
		} else {
			r, err = c.do(step)
		}
		if r.pending > 0 {
			// Alerts go out even when the operation has failed.
			if e := c.flush(); err == nil && r.state == more {
				err = e
			}
		}
		if err != nil {
			return 0, err
		}
		switch r.state {
		case done:
			return r.n, nil
		case eof:
			return 0, io.EOF
		}
		if buf == nil {
			buf = inBuffers.Get().(*inBuffer)
		}
		n, err := c.raw.Read(buf[:])
		if n == 0 && err != nil {
			return 0, err
		}
		// An error that came with bytes is returned again by the next Read.
		in = buf[:n]
	}
}

func (c *Conn) inTurn(l *line, op func(session) (result, error)) (result, error) {
	l.enter(c.source)
	defer l.leave()
	return c.do(op)
}

// do runs op on the session, unless the session is freed or broken. A failure of op breaks it.
func (c *Conn) do(op func(session) (result, error)) (result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.freed {
		return result{}, net.ErrClosed
	}
	if c.broken != nil {
		return result{}, c.broken
	}
	r, err := op(c.ssl)
	c.waiting, c.broken = r.pending, err
	return r, err
}

// flush sends the bytes that wait in the session. It does nothing while a writer is active, because the writer sends the waiting bytes
// with its next record.
func (c *Conn) flush() error {
	if !c.outMu.TryLock() {
		return nil
	}
	defer c.outMu.Unlock()
	return c.drain(session.drain)
}

// sendCloseNotify sends waiting bytes, such as an alert, and a close_notify if the handshake
// succeeded and the session is not broken. It does nothing while a writer is active.
func (c *Conn) sendCloseNotify() error {
	if !c.outMu.TryLock() {
		return nil
	}
	defer c.outMu.Unlock()
	if c.outErr != nil {
		return c.outErr
	}
	last := session.drain
	c.mu.Lock()
	if c.chain != nil && c.broken == nil {
		last = session.shutdown
	} else if c.waiting == 0 {
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()
	c.raw.SetWriteDeadline(time.Now().Add(closeNotifyTimeout))
	err := c.drain(last)
	c.outErr = net.ErrClosed
	return err
}

// drain runs step, which may add bytes to the session, and sends all bytes that wait in the
// session. The caller holds outMu.
func (c *Conn) drain(step func(s session, out []byte) result) error {
	buf := outBuffers.Get().(*outBuffer)
	defer outBuffers.Put(buf)
	for {
		c.mu.Lock()
		if c.freed {
			c.mu.Unlock()
			return net.ErrClosed
		}
		r := step(c.ssl, buf[:])
		c.waiting = r.pending
		c.mu.Unlock()
		if r.out == 0 {
			return nil
		}
		if err := c.send(buf[:r.out]); err != nil {
			return err
		}
		step = session.drain
	}
}

// send writes b to the inner connection, unless a write has failed before. The caller holds outMu.
func (c *Conn) send(b []byte) error {
	if c.outErr == nil {
		_, c.outErr = c.raw.Write(b)
	}
	return c.outErr
}
