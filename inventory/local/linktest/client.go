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
	"time"
)

// Port is the default TCP and UDP port of servers.
const Port = 7373

type client struct {
	address string // host:port
	peer    netip.AddrPort
	boot    string // the server's answer.Boot
}

// connect reads the server's first answer before it calls f. It closes the connection when
// f returns or ctx ends.
func (c *client) connect(ctx context.Context, r request, f func(*session) error) error {
	d := net.Dialer{Timeout: lineTime}
	conn, err := d.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return fmt.Errorf("no answer: %w; start \"patchbay-linktest serve\" on that machine", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	s := &session{TCPConn: conn.(*net.TCPConn), in: bufio.NewReaderSize(conn, maxLine)}
	if err := writeLine(s, r); err != nil {
		return err
	}
	if s.first, err = s.listen(lineTime); err != nil {
		return err
	}
	c.peer, c.boot = s.RemoteAddr().(*net.TCPAddr).AddrPort(), s.first.Boot
	return f(s)
}

// session is a connection on which the server has answered.
type session struct {
	*net.TCPConn
	in    *bufio.Reader
	first answer
}

// listen reads an answer that arrives within d.
func (s *session) listen(d time.Duration) (answer, error) {
	var a answer
	if err := s.SetReadDeadline(time.Now().Add(d)); err != nil {
		return answer{}, err
	}
	if err := readLine(s.in, &a); err != nil {
		return answer{}, fmt.Errorf("cannot read the server's answer: %w", err)
	}
	if a.Error != "" {
		return answer{}, fmt.Errorf("the server says: %s", clip(a.Error))
	}
	return a, nil
}

func (c *client) send(ctx context.Context, d time.Duration) (r Stream, err error) {
	err = c.connect(ctx, request{Kind: kindSend, Time: d}, func(s *session) error {
		defer s.reset()
		go sendStream(s.TCPConn, d) // ends when the connection is closed
		a, err := s.listen(d + 2*lineTime)
		switch {
		case err != nil:
			return err
		case a.Stream == nil:
			return errors.New("the server's answer lacks the result")
		}
		r, err = c.stream(*a.Stream)
		return err
	})
	return r, err
}

func (c *client) receive(ctx context.Context, d time.Duration) (r Stream, err error) {
	err = c.connect(ctx, request{Kind: kindReceive, Time: d}, func(s *session) error {
		defer s.reset()
		got, err := receiveStream(s.TCPConn, d)
		if err != nil {
			return err
		}
		r, err = c.stream(got)
		return err
	})
	return r, err
}

// reset discards unsent data.
func (s *session) reset() {
	_ = s.SetLinger(0)
	s.Close()
}

func (c *client) stream(s stream) (Stream, error) {
	if err := s.check(); err != nil {
		return Stream{}, err
	}
	goodput, line := s.rates(c.peer.Addr())
	return Stream{Goodput: goodput, Line: line}, nil
}

func (c *client) sendDatagrams(ctx context.Context, p pace) (t DatagramStats, err error) {
	err = c.connect(ctx, p.request(kindCount), func(s *session) error {
		if s.first.Port < 1 || s.first.Port > 65535 {
			return errInvalidResult
		}
		out, err := net.ListenUDP("udp", nil)
		if err != nil {
			return err
		}
		defer out.Close()
		p.token = s.first.Token
		sent, err := p.send(ctx, out, netip.AddrPortFrom(c.peer.Addr(), uint16(s.first.Port)))
		if err != nil {
			return err
		}
		if err := writeLine(s, answer{Sent: sent}); err != nil {
			return err
		}
		a, err := s.listen(patience + lineTime)
		switch {
		case err != nil:
			return err
		case a.Tally == nil || a.Tally.Received < 0 || a.Tally.Received > sent:
			return errInvalidResult
		}
		t = *a.Tally
		return nil
	})
	return t, err
}

func (c *client) receiveDatagrams(ctx context.Context, p pace) (t DatagramStats, err error) {
	u, err := listenUDP(nil)
	if err != nil {
		return DatagramStats{}, err
	}
	defer u.Close()
	if p.token, err = newToken(); err != nil {
		return DatagramStats{}, err
	}
	r := p.request(kindDatagram)
	r.Port, r.Token = u.port(), p.token
	err = c.connect(ctx, r, func(s *session) error {
		defer context.AfterFunc(ctx, func() { u.Close() })()
		t, err = p.collect(u, c.peer.Addr(), func() (int, error) {
			a, err := s.listen(2*p.time + 2*lineTime)
			return a.Sent, err
		})
		return err
	})
	return t, err
}

var errInvalidResult = errors.New("the other side sent an invalid result")

func (p pace) request(kind string) request {
	return request{Kind: kind, Time: p.time, Packets: p.packets, Size: p.size, Burst: p.burst, Rate: p.rate}
}

// withPort adds the default port if addr has none.
func withPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(strings.Trim(addr, "[]"), strconv.Itoa(Port))
}
