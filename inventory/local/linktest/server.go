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

// Limits of a server.
const (
	maxClients = 32
	quiet      = 250 * time.Millisecond // no more datagrams are on the way after that
	patience   = 3 * time.Second        // but at most so long
)

// server answers clients. Echoes and counted datagrams come to one socket, and
// each connection has a goroutine.
type server struct {
	listener *net.TCPListener
	udp      *socket
	boot     string
	clients  chan struct{} // has room for as many as may be there
	work     sync.WaitGroup

	mu     sync.Mutex
	counts map[uint64]*counting // by token
}

// counting is a measurement whose datagrams are arriving.
type counting struct {
	mu      sync.Mutex
	counter *counter
	changed time.Time // when the last came
}

// Serve answers those who measure at a TCP and a UDP port until ctx ends. addr
// is host:port, or what of that is not the default: all addresses and Port.
// ready is told the address, if it is not nil.
func Serve(ctx context.Context, addr string, ready func(net.Addr)) error {
	at, err := net.ResolveTCPAddr("tcp", withPort(addr))
	if err != nil {
		return fmt.Errorf("cannot serve at %s: %w", clip(addr), err)
	}
	s := &server{boot: boot(), clients: make(chan struct{}, maxClients), counts: make(map[uint64]*counting)}
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
	s.work.Go(s.datagrams)
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
			_ = writeLine(c, answer{Error: fmt.Sprintf("%d others measure here now; try again later", maxClients)})
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

// serve does what one connection asks for.
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
		return s.count(c, in, r)
	case kindDatagram:
		return s.send(ctx, c, r)
	}
	return writeLine(c, answer{Boot: s.boot})
}

// send sends datagrams to where the connection comes from.
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
	s.work.Go(func() { // a client that goes away wants no more
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

// count counts datagrams until the client says, by a line, that all are sent.
func (s *server) count(c *net.TCPConn, in *bufio.Reader, r request) error {
	n := &counting{counter: newCounter(r.Packets, r.Time/3)}
	token, err := newToken()
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.counts[token] = n
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.counts, token)
		s.mu.Unlock()
	}()
	before := s.udp.overflow.Load()
	if err := writeLine(c, answer{Boot: s.boot, Token: token}); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(2*r.Time + lineTime)); err != nil {
		return err
	}
	var done answer
	if err := readLine(in, &done); err != nil {
		return err
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(quiet / 5) {
		n.mu.Lock()
		still := n.changed
		n.mu.Unlock()
		if time.Since(still) > quiet {
			break
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	peer := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
	t := n.counter.tally(max(done.Sent, 0), frameSize(r.Size, peer))
	t.Overflow = int(s.udp.overflow.Load() - before)
	return writeLine(c, answer{Tally: &t})
}

// datagrams answers echoes and hands what is counted to whom it is for.
func (s *server) datagrams() {
	buffer := make([]byte, 64<<10)
	for {
		n, from, at, err := s.udp.receive(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		h, ok := parseHeader(buffer[:n])
		switch {
		case err != nil: // of one datagram, or for a while
			time.Sleep(time.Millisecond)
		case !ok:
		case h.kind == typeEcho:
			h.kind, h.arrived, h.left = typeAnswer, at.UnixNano(), time.Now().UnixNano()
			h.put(buffer[:n])
			_, _ = s.udp.WriteToUDPAddrPort(buffer[:n], from)
		case h.kind == typeNumbered:
			s.mu.Lock()
			c := s.counts[h.token]
			s.mu.Unlock()
			if c != nil {
				c.mu.Lock()
				c.counter.add(h.number, at)
				c.changed = time.Now()
				c.mu.Unlock()
			}
		}
	}
}

func newToken() (uint64, error) {
	var b [8]byte
	_, err := rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:]), err
}
