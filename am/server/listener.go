package server

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// Limit bounds the connections of l. It belongs inside a TLS listener, whose
// connections must give it back as NetConn. Its Accept never blocks for a
// limit, and ends only when l does: a lack of descriptors or memory passes.
func (s *Server) Limit(l net.Listener) net.Listener {
	return s.limit(l, s.gate)
}

func (s *Server) limit(l net.Listener, g *gate) net.Listener {
	return &limited{Listener: l, server: s, gate: g, closed: make(chan struct{})}
}

// unsentBytes is how much of an answer the kernel takes before the peer makes
// room for it. Without that bound it takes megabytes for each peer that does not
// read, and resets good connections when there are many.
const unsentBytes = 256 << 10

// tcpNotSentLowat is the option for that bound, TCP_NOTSENT_LOWAT (tcp(7)).
const tcpNotSentLowat = 25

// boundUnsent sets the bound. Where it cannot be set, the times still bound how
// long a peer may not read.
func boundUnsent(c net.Conn) {
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
	server *Server
	gate   *gate
	once   sync.Once
	closed chan struct{}
}

// maxPause is the longest pause after a connection could not be accepted.
const maxPause = time.Second

func (l *limited) Accept() (net.Conn, error) {
	var pause time.Duration
	for {
		nc, err := l.Listener.Accept()
		if err == nil {
			pause = 0
			if in := l.gate.enter(nc); in != nil {
				boundUnsent(nc)
				return in, nil
			}
			nc.Close()
			continue
		}
		if !passes(err) {
			return nil, err
		}
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			l.gate.relieve()
		}
		l.server.seldom.count("accept", "", func(_ string, times int) {
			l.server.opt.Log.Error("connections cannot be accepted for the moment", "error", err, slog.Int("times", times))
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

// passes tells of an error of accept whether the next may succeed: it was that
// of one connection, or something is short (accept(2)).
func passes(err error) bool {
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

// guestOf finds the guest under the layers of a connection; nil when its
// listener is not limited.
func guestOf(c net.Conn) *guest {
	for {
		switch x := c.(type) {
		case *guest:
			return x
		case interface{ NetConn() net.Conn }:
			c = x.NetConn()
		default:
			return nil
		}
	}
}

// Descriptors that are kept for the store, providers and all else.
const (
	keptDescriptors  = 512
	leastConnections = 16
)

// affordable is how many of most connections the process has descriptors for.
// The runtime has raised the limit as far as it may.
func affordable(most int) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return most
	}
	files := int(min(limit.Cur, 1<<30))
	return min(most, max(files-keptDescriptors, files/2, leastConnections))
}
