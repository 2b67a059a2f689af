package linktest

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	maxClients = 32
	quiet      = 250 * time.Millisecond // if no datagram arrives for this duration, none is still on the way
	patience   = 3 * time.Second        // longest wait for datagrams that are still on the way
)

// server answers clients. One socket receives the echoes of all clients, and each
// connection has a goroutine.
type server struct {
	listener *net.TCPListener
	udp      *socket
	boot     string
	clients  chan struct{} // a semaphore for maxClients
	work     sync.WaitGroup
}

// Serve answers clients at a TCP and a UDP port until ctx ends. addr is host:port; the
// defaults are all addresses and Port. When Serve listens, it calls ready, if not nil, with
// the address.
func Serve(ctx context.Context, addr string, ready func(net.Addr)) error {
	at, err := net.ResolveTCPAddr("tcp", withPort(addr))
	if err != nil {
		return fmt.Errorf("cannot serve at %s: %w", clip(addr), err)
	}
	s := &server{boot: bootID(), clients: make(chan struct{}, maxClients)}
	if s.listener, err = net.ListenTCP("tcp", at); err != nil {
		return fmt.Errorf("cannot serve: %w", err)
	}
	defer s.listener.Close()
	port := s.listener.Addr().(*net.TCPAddr).Port
	if s.udp, err = listenUDP(&net.UDPAddr{IP: at.IP, Port: port, Zone: at.Zone}); err != nil {
		return fmt.Errorf("cannot serve: %w", err)
	}
	defer s.udp.Close()
	if ready != nil {
		ready(s.listener.Addr())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer s.work.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		s.listener.Close()
		s.udp.Close()
	})
	defer stop()
	s.work.Go(s.echo)
	for {
		c, err := s.listener.AcceptTCP()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // such as too many open files
			time.Sleep(10 * time.Millisecond)
			continue
		}
		select {
		case s.clients <- struct{}{}:
		default:
			_ = writeLine(c, answer{Error: fmt.Sprintf("%d other clients are measuring now; try again later", maxClients)})
			c.Close()
			continue
		}
		s.work.Go(func() {
			defer func() { <-s.clients }()
			stop := context.AfterFunc(ctx, func() { c.Close() })
			defer stop()
			defer c.Close()
			if err := s.serve(ctx, c); err != nil {
				_ = writeLine(c, answer{Error: err.Error()})
			}
		})
	}
}

func (s *server) serve(ctx context.Context, c *net.TCPConn) error {
	if err := c.SetReadDeadline(time.Now().Add(lineTime)); err != nil {
		return err
	}
	in := bufio.NewReaderSize(c, maxLine)
	var r request
	if err := readLine(in, &r); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	switch r.Kind {
	case kindSend:
		if err := writeLine(c, answer{Boot: s.boot}); err != nil {
			return err
		}
		got, err := receiveStream(c, r.Time)
		if err != nil {
			return err
		}
		return writeLine(c, answer{Stream: &got})
	case kindReceive:
		if err := writeLine(c, answer{Boot: s.boot}); err != nil {
			return err
		}
		sendStream(c, r.Time)
		return nil
	case kindCount:
		return s.count(ctx, c, in, r)
	case kindDatagram:
		return s.send(ctx, c, r)
	}
	return writeLine(c, answer{Boot: s.boot})
}

// send sends datagrams to the address of the client's connection.
func (s *server) send(ctx context.Context, c *net.TCPConn, r request) error {
	if r.Port < 1 || r.Port > 65535 {
		return errors.New("the port for datagrams is not between 1 and 65535")
	}
	out, err := net.ListenUDP("udp", nil)
	if err != nil {
		return fmt.Errorf("cannot send datagrams: %w", err)
	}
	defer out.Close()
	if err := writeLine(c, answer{Boot: s.boot}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.work.Go(func() { // stop when the client closes the connection
		_ = c.SetReadDeadline(time.Now().Add(2*r.Time + lineTime))
		_, _ = c.Read(make([]byte, 1))
		cancel()
	})
	peer := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
	sent, err := paceOf(r).send(ctx, out, netip.AddrPortFrom(peer, uint16(r.Port)))
	if err != nil {
		return err
	}
	return writeLine(c, answer{Sent: sent})
}

// count counts datagrams at a new port until the client has reported how many it sent. lines
// reads the client's lines from c.
func (s *server) count(ctx context.Context, c *net.TCPConn, lines *bufio.Reader, r request) error {
	u, err := listenUDP(nil)
	if err != nil {
		return fmt.Errorf("cannot receive datagrams: %w", err)
	}
	defer u.Close()
	defer context.AfterFunc(ctx, func() { u.Close() })()
	p := paceOf(r)
	if p.token, err = newToken(); err != nil {
		return err
	}
	if err := writeLine(c, answer{Boot: s.boot, Port: u.port(), Token: p.token}); err != nil {
		return err
	}
	from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
	t, err := p.collect(u, from, func() (int, error) {
		var done answer
		err := c.SetReadDeadline(time.Now().Add(2*r.Time + lineTime))
		if err == nil {
			err = readLine(lines, &done)
		}
		return done.Sent, err
	})
	if err != nil {
		return err
	}
	return writeLine(c, answer{Tally: &t})
}

// echo returns when the socket is closed.
func (s *server) echo() {
	buffer := make([]byte, 64<<10)
	for {
		n, from, at, err := s.udp.receive(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		h, ok := parseHeader(buffer[:n])
		switch {
		case err != nil: // an error of one datagram, or a temporary one
			time.Sleep(time.Millisecond)
		case ok && h.kind == typeEcho:
			h.kind, h.arrived, h.left = typeAnswer, at.UnixNano(), time.Now().UnixNano()
			h.marshal(buffer[:n])
			_, _ = s.udp.WriteToUDPAddrPort(buffer[:n], from)
		}
	}
}

func newToken() (uint64, error) {
	var b [8]byte
	_, err := rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:]), err
}
