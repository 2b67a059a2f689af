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

// Port is where servers listen unless they are told otherwise, with TCP and UDP.
const Port = 7373

// client measures one server.
type client struct {
	address string // with the port
	peer    netip.AddrPort
	boot    string // the server's
}

// ask opens a connection, sends what is asked for, and calls f with the server's
// first answer. The connection ends with f, and with ctx.
func (c *client) ask(ctx context.Context, r request, f func(*session) error) error {
	d := net.Dialer{Timeout: lineTime}
	conn, err := d.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return fmt.Errorf("nobody answers: %w; start \"patchbay-linktest serve\" there", err)
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

// listen reads an answer that comes within a time.
func (s *session) listen(d time.Duration) (answer, error) {
	var a answer
	if err := s.SetReadDeadline(time.Now().Add(d)); err != nil {
		return answer{}, err
	}
	if err := readLine(s.in, &a); err != nil {
		return answer{}, fmt.Errorf("the server has no answer: %w", err)
	}
	if a.Error != "" {
		return answer{}, fmt.Errorf("the server says: %s", clip(a.Error))
	}
	return a, nil
}

// send measures a TCP stream to the server.
func (c *client) send(ctx context.Context, d time.Duration) (r Stream, err error) {
	err = c.ask(ctx, request{Kind: kindSend, Time: d}, func(s *session) error {
		defer s.drop()
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

// receive measures a TCP stream from the server.
func (c *client) receive(ctx context.Context, d time.Duration) (r Stream, err error) {
	err = c.ask(ctx, request{Kind: kindReceive, Time: d}, func(s *session) error {
		defer s.drop()
		got, err := receiveStream(s.TCPConn, d)
		if err != nil {
			return err
		}
		r, err = c.stream(got)
		return err
	})
	return r, err
}

// drop closes the connection at once, with all that waits in it.
func (s *session) drop() {
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

// count measures datagrams to the server.
func (c *client) count(ctx context.Context, p pace) (t DatagramStats, err error) {
	err = c.ask(ctx, p.request(kindCount), func(s *session) error {
		if s.first.Port < 1 || s.first.Port > 65535 {
			return errNonsense
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
			return errNonsense
		}
		t = *a.Tally
		return nil
	})
	return t, err
}

// datagrams measures datagrams from the server.
func (c *client) datagrams(ctx context.Context, p pace) (t DatagramStats, err error) {
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
	err = c.ask(ctx, r, func(s *session) error {
		defer context.AfterFunc(ctx, func() { u.Close() })()
		t, err = p.collect(u, c.peer.Addr(), func() (int, error) {
			a, err := s.listen(2*p.time + 2*lineTime)
			return a.Sent, err
		})
		return err
	})
	return t, err
}

var errNonsense = errors.New("the other side's result makes no sense")

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
