package server

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// Limit returns a listener that limits the connections of l. A TLS listener may wrap it, if
// NetConn of the TLS connections returns the limited connection. Accept closes connections above
// a limit at once. If descriptors or memory are short, it waits and tries again.
func (s *Server) Limit(l net.Listener) net.Listener {
	return s.limit(l, s.limiter)
}

func (s *Server) limit(l net.Listener, g *connLimiter) net.Listener {
	return &limited{Listener: l, server: s, limiter: g, closed: make(chan struct{})}
}

// unsentBytes limits the bytes of an answer that the kernel buffers for a peer. Without the
// limit, the kernel buffers megabytes for each peer that does not read. Many such peers use up
// the kernel's memory, and then the kernel resets other connections.
const unsentBytes = 256 << 10

// tcpNotSentLowat is TCP_NOTSENT_LOWAT (tcp(7)).
const tcpNotSentLowat = 25

// limitUnsent applies unsentBytes to a connection. It ignores errors, because the timeouts also limit a peer that does not read.
func limitUnsent(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat, unsentBytes)
		})
	}
}

type limited struct {
	net.Listener
	server  *Server
	limiter *connLimiter
	once    sync.Once
	closed  chan struct{}
}

const maxPause = time.Second

// Accept returns the next connection within the limits. After an error of one connection, or for lack of descriptors or
// memory, it waits and tries again.
func (l *limited) Accept() (net.Conn, error) {
	var pause time.Duration
	for {
		nc, err := l.Listener.Accept()
		if err == nil {
			pause = 0
			if in := l.limiter.add(nc); in != nil {
				limitUnsent(nc)
				return in, nil
			}
			nc.Close()
			continue
		}
		if !isTemporary(err) {
			return nil, err
		}
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			l.limiter.closeOne()
		}
		l.server.throttle.count("accept", "", func(_ string, times int) {
			l.server.opt.Log.Error("connections cannot be accepted; the server tries again", "error", err, slog.Int("times", times))
		})
		pause = min(max(5*time.Millisecond, 2*pause), maxPause)
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		case <-time.After(pause):
		}
	}
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// isTemporary reports whether accept can succeed after err (accept(2)). Such an error concerns
// one connection, or a lack of descriptors or memory.
func isTemporary(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return false
	}
	switch errno {
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.EINTR, syscall.EAGAIN, syscall.ECONNABORTED, syscall.EPROTO, syscall.EPERM,
		syscall.ENETDOWN, syscall.ENOPROTOOPT, syscall.EHOSTDOWN, syscall.ENONET,
		syscall.EHOSTUNREACH, syscall.EOPNOTSUPP, syscall.ENETUNREACH:
		return true
	}
	return false
}

// trackedConnOf unwraps c, which may have several layers. It returns nil if the listener of c is
// not limited.
func trackedConnOf(c net.Conn) *trackedConn {
	for {
		switch x := c.(type) {
		case *trackedConn:
			return x
		case interface{ NetConn() net.Conn }:
			c = x.NetConn()
		default:
			return nil
		}
	}
}

const (
	// reservedDescriptors are for other uses than connections.
	reservedDescriptors = 512
	leastConnections    = 16
)

// affordableConnections returns the number of connections that the process has descriptors for,
// but not more than most. It leaves reservedDescriptors free, but at most half of the
// descriptors. The Go runtime has raised the soft limit of descriptors to the hard limit.
func affordableConnections(most int) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return most
	}
	files := int(min(limit.Cur, 1<<30))
	return min(most, max(files-reservedDescriptors, files/2, leastConnections))
}
