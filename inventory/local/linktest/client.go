package linktest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Port is where servers listen unless they are told otherwise, with TCP and UDP.
const Port = 7373

// client measures one server.
type client struct {
	address string // with the port
	peer    netip.AddrPort
	boot    string // the server's
}

// connect opens a connection and sends what is asked for. The server's first
// answer is in the result.
func (c *client) connect(ctx context.Context, r request) (*net.TCPConn, *bufio.Reader, answer, error) {
	d := net.Dialer{Timeout: lineTime}
	conn, err := d.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return nil, nil, answer{}, fmt.Errorf("nobody answers: %w; start \"patchbay-gauge serve\" there", err)
	}
	t := conn.(*net.TCPConn)
	if err := writeLine(t, r); err != nil {
		t.Close()
		return nil, nil, answer{}, err
	}
	in := bufio.NewReaderSize(t, maxLine)
	a, err := listen(t, in, lineTime)
	if err != nil {
		t.Close()
		return nil, nil, answer{}, err
	}
	c.peer, c.boot = t.RemoteAddr().(*net.TCPAddr).AddrPort(), a.Boot
	return t, in, a, nil
}

// listen reads an answer that comes within a time.
func listen(c *net.TCPConn, in *bufio.Reader, d time.Duration) (answer, error) {
	var a answer
	if err := c.SetReadDeadline(time.Now().Add(d)); err != nil {
		return answer{}, err
	}
	if err := readLine(in, &a); err != nil {
		return answer{}, fmt.Errorf("the server has no answer: %w", err)
	}
	if a.Error != "" {
		return answer{}, fmt.Errorf("the server says: %s", clip(a.Error))
	}
	return a, nil
}

// drop closes a connection at once, with all that waits in it.
func drop(c *net.TCPConn) {
	_ = c.SetLinger(0)
	c.Close()
}

// send measures a TCP stream to the server.
func (c *client) send(ctx context.Context, d time.Duration) (Stream, error) {
	conn, in, _, err := c.connect(ctx, request{Kind: kindSend, Time: d})
	if err != nil {
		return Stream{}, err
	}
	defer drop(conn)
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	go sendStream(conn, d) // ends when conn is closed
	a, err := listen(conn, in, d+2*lineTime)
	switch {
	case err != nil:
		return Stream{}, err
	case a.Stream == nil:
		return Stream{}, errors.New("the server's answer lacks the result")
	}
	return c.stream(*a.Stream)
}

// receive measures a TCP stream from the server.
func (c *client) receive(ctx context.Context, d time.Duration) (Stream, error) {
	conn, _, _, err := c.connect(ctx, request{Kind: kindReceive, Time: d})
	if err != nil {
		return Stream{}, err
	}
	defer drop(conn)
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	s, err := receiveStream(conn, d)
	if err != nil {
		return Stream{}, err
	}
	return c.stream(s)
}

func (c *client) stream(s stream) (Stream, error) {
	if err := s.check(); err != nil {
		return Stream{}, err
	}
	goodput, line := s.rates(c.peer.Addr())
	return Stream{Goodput: goodput, Line: line}, nil
}

// count measures datagrams to the server.
func (c *client) count(ctx context.Context, p pace) (Tally, error) {
	conn, in, a, err := c.connect(ctx, p.request(kindCount))
	if err != nil {
		return Tally{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	out, err := net.ListenUDP("udp", nil)
	if err != nil {
		return Tally{}, err
	}
	defer out.Close()
	p.token = a.Token
	sent, err := p.send(ctx, out, c.peer)
	if err != nil {
		return Tally{}, err
	}
	if err := writeLine(conn, answer{Sent: sent}); err != nil {
		return Tally{}, err
	}
	if a, err = listen(conn, in, patience+lineTime); err != nil {
		return Tally{}, err
	}
	if a.Tally == nil || a.Tally.Received < 0 || a.Tally.Received > sent {
		return Tally{}, errors.New("the server's result makes no sense")
	}
	return *a.Tally, nil
}

// datagrams measures datagrams from the server.
func (c *client) datagrams(ctx context.Context, p pace) (Tally, error) {
	s, err := listenUDP(nil)
	if err != nil {
		return Tally{}, err
	}
	defer s.Close()
	if p.token, err = newToken(); err != nil {
		return Tally{}, err
	}
	r := p.request(kindDatagram)
	r.Port, r.Token = s.LocalAddr().(*net.UDPAddr).Port, p.token
	conn, in, _, err := c.connect(ctx, r)
	if err != nil {
		return Tally{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close(); s.Close() })()
	type end struct {
		answer
		error
	}
	if err := s.SetReadDeadline(time.Now().Add(2*p.time + 2*lineTime)); err != nil {
		return Tally{}, err
	}
	ended := make(chan end, 1)
	var over atomic.Bool
	go func() {
		a, err := listen(conn, in, 2*p.time+2*lineTime)
		ended <- end{a, err}
		over.Store(true)
		// What is still on the way comes before there is quiet.
		_ = s.SetReadDeadline(time.Now().Add(quiet))
	}()
	got := newCounter(p.packets, p.time/3)
	buffer := make([]byte, 64<<10)
	var last time.Time
	for {
		n, from, at, err := s.receive(buffer)
		if err != nil {
			break
		}
		if h, ok := parseHeader(buffer[:n]); ok && h.kind == typeNumbered && h.token == p.token && from.Addr().Unmap() == c.peer.Addr().Unmap() {
			got.add(h.number, at)
		}
		if !over.Load() {
			continue
		}
		if last.IsZero() {
			last = time.Now().Add(patience)
		}
		if next := time.Now().Add(quiet); next.Before(last) { // each one starts the wait anew
			_ = s.SetReadDeadline(next)
		}
	}
	e := <-ended
	if e.error != nil {
		return Tally{}, e.error
	}
	if e.Sent < got.received || e.Sent > p.packets {
		return Tally{}, errors.New("the server's result makes no sense")
	}
	t := got.tally(e.Sent, frameSize(p.size, c.peer.Addr()))
	t.Overflow = int(s.overflow.Load())
	return t, nil
}

func (p pace) request(kind string) request {
	return request{Kind: kind, Time: p.time, Packets: p.packets, Size: p.size, Burst: p.burst, Rate: p.rate}
}

// withPort is host:port, with what addr does not say.
func withPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(strings.Trim(addr, "[]"), strconv.Itoa(Port))
}
