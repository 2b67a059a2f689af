package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patientAttack is a connection that is held open.
type patientAttack struct {
	name string
	many int // how many at once
	open func(s *hostileTest) (net.Conn, error)
	// drip, if not nil, is called repeatedly while the connection is open.
	drip func(c net.Conn, turn int)
	// unread says that the client does not read answers.
	unread bool
}

// patientAttacks returns all known ways to hold a connection without being served.
func patientAttacks() []patientAttack {
	// They use several addresses, so that only the time limit ends them.
	var turn atomic.Int64
	host := func() byte { return byte(3 + turn.Add(1)%5) }
	outside := func(part func(hello []byte) []byte) func(s *hostileTest) (net.Conn, error) {
		return func(s *hostileTest) (net.Conn, error) {
			c, err := s.connect(host())
			if err != nil {
				return nil, err
			}
			c.Write(part(s.helloOf(s.t)))
			return c, nil
		}
	}
	inside := func(text string) func(s *hostileTest) (net.Conn, error) {
		return func(s *hostileTest) (net.Conn, error) {
			c, err := s.connectTLS(host(), s.idle.identity)
			if err != nil {
				return nil, err
			}
			_, err = io.WriteString(c, text)
			return c, err
		}
	}
	// Unread answers fill all buffers of the connection.
	unread := func(s *hostileTest) (net.Conn, error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host())}}
		raw, err := d.Dial("tcp", s.address())
		if err != nil {
			return nil, err
		}
		raw.(*net.TCPConn).SetReadBuffer(4 << 10)
		c := tls.Client(raw, &tls.Config{Certificates: []tls.Certificate{s.idle.identity}, InsecureSkipVerify: true})
		raw.SetReadDeadline(time.Now().Add(time.Minute))
		if err := c.Handshake(); err != nil {
			raw.Close()
			return nil, err
		}
		call := post("/am/3.0", encoded(s.t, "ListResources", s.idle.creds(string(s.idle.Credential)), rspec3("GENI")))
		c.SetWriteDeadline(time.Now().Add(2 * time.Minute))
		go func() {
			for range 5000 {
				if _, err := io.WriteString(c, call); err != nil {
					return
				}
			}
		}()
		return c, nil
	}
	const head = "POST /am/3.0 HTTP/1.1\r\nHost: x\r\n"
	byteByByte := func(text string) func(c net.Conn, turn int) {
		return func(c net.Conn, turn int) { io.WriteString(c, text[turn%len(text):turn%len(text)+1]) }
	}
	const crowd, some, few = 60, 8, 3
	return []patientAttack{
		{"silent", crowd, outside(func([]byte) []byte { return nil }), nil, false},
		{"one byte of a greeting", crowd, outside(func(h []byte) []byte { return h[:1] }), nil, false},
		{"half a greeting", crowd, outside(func(h []byte) []byte { return h[:len(h)/2] }), nil, false},
		{"a greeting and no more", crowd, outside(func(h []byte) []byte { return h }), nil, false},
		{"a greeting that drips", crowd, outside(func(h []byte) []byte { return []byte("\x16\x03\x01\x04\x00\x01\x00\x03\xfc\x03\x03") }), byteByByte("a"), false},
		{"silent after the handshake", some, inside(""), nil, false},
		{"half a header", some, inside(head + "X: "), nil, false},
		{"a header that drips", some, inside(head + "X: "), byteByByte("a"), false},
		{"headers that drip", some, inside(head), byteByByte("X: y\r\n"), false},
		{"a body that does not come", some, inside(head + "Content-Length: 100\r\n\r\n"), nil, false},
		{"a body that drips", some, inside(head + "Content-Length: 100000\r\n\r\n"), byteByByte("<"), false},
		{"half a chunk", some, inside(head + "Transfer-Encoding: chunked\r\n\r\n400\r\nabc"), nil, false},
		{"chunks that drip", some, inside(head + "Transfer-Encoding: chunked\r\n\r\n"), byteByByte("1\r\na\r\n"), false},
		{"a body that drips where none is read", some, inside("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"), byteByByte("<"), false},
		{"a body that waits to be asked for, and stays away", some, inside(head + "Expect: 100-continue\r\nContent-Length: 100\r\n\r\n"), nil, false},
		{"silent after a call", some, inside(post("/am/3.0", "")), nil, false},
		{"never reads", few, unread, nil, true},
		{"reads a byte now and then", few, unread, func(c net.Conn, _ int) {
			c.(*tls.Conn).NetConn().Read(make([]byte, 1))
		}, true},
	}
}

// startPatientAttacks opens many connections of each kind. The returned function waits
// until the server has closed all.
func (s *hostileTest) startPatientAttacks(t *testing.T) (gone func()) {
	t.Helper()
	type one struct {
		patientAttack
		c net.Conn
	}
	var mu sync.Mutex
	var all []one
	var opening sync.WaitGroup
	for _, p := range patientAttacks() {
		opening.Go(func() {
			for range p.many {
				c, err := p.open(s)
				if err != nil {
					t.Errorf("%s: %v", p.name, err)
					return
				}
				mu.Lock()
				all = append(all, one{p, c})
				mu.Unlock()
			}
		})
	}
	opening.Wait()
	t.Logf("%d connections stand", len(all))
	s.wantWorking(t)
	stop := make(chan bool)
	var dripping, ending sync.WaitGroup
	for _, x := range all {
		if x.drip != nil {
			dripping.Go(func() {
				for turn := 0; ; turn++ {
					select {
					case <-stop:
						return
					case <-time.After(100 * time.Millisecond):
						x.drip(x.c, turn)
					}
				}
			})
		}
		ending.Go(func() {
			defer x.c.Close()
			if x.unread { // a read would end the attack
				s.wantClosed(t, x.name, x.c)
			} else {
				wantEnd(t, x.name, x.c)
			}
		})
	}
	return func() {
		ending.Wait()
		close(stop)
		dripping.Wait()
	}
}

// wantClosed fails unless the server has closed its end of a connection. It asks the
// kernel, since a client that does not read would not notice.
func (s *hostileTest) wantClosed(t *testing.T, what string, c net.Conn) {
	t.Helper()
	tell := func(a net.Addr) string {
		x := a.(*net.TCPAddr)
		ip := x.IP.To4()
		return fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], x.Port)
	}
	const established = "01"
	line := tell(c.RemoteAddr()) + " " + tell(c.LocalAddr()) + " " + established
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if !strings.Contains(readFile(t, "/proc/net/tcp"), line) {
			return
		}
	}
	t.Errorf("%s: the server does not close", what)
}
