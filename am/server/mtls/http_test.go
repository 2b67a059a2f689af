package mtls_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// sumHandler answers with the length and digest of the request's body.
var sumHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	h := sha256.New()
	n, err := io.Copy(h, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "%d %x", n, h.Sum(nil))
})

// After a request's body net/http reads one byte in the background, into a field of a struct
// with pointers. cgo's pointer check must permit this, and the byte must not be lost.
func TestBackgroundReadBetweenRequests(t *testing.T) {
	inHandler, goOn := make(chan bool), make(chan bool)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sumHandler(w, r)
		inHandler <- true
		<-goOn
	}), nil)
	c := s.dial(t, tlsConfig(identity(t, "rsa", "alice"), tls.VersionTLS13))
	br := bufio.NewReader(c)
	for i := range 3 {
		if i == 0 {
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
		}
		<-inHandler
		// The next request arrives while the handler is at work.
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
		time.Sleep(20 * time.Millisecond) // lets the background read take its byte
		goOn <- true
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if want := fmt.Sprintf("5 %x", sha256.Sum256([]byte("hello"))); string(body) != want {
			t.Fatalf("request %d: got %q, want %q", i, body, want)
		}
	}
	<-inHandler
	goOn <- true
}

func TestKeepAliveWithBodies(t *testing.T) {
	for name, v := range versions {
		t.Run(name, func(t *testing.T) {
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				w.Write(body)
			}), nil)
			c := client(t, tlsConfig(identity(t, "rsa", "alice"), v))
			for _, n := range []int{0, 1, 16383, 16384, 16385, 50_000, 5 << 20} {
				body := make([]byte, n)
				rand.Read(body)
				resp, err := c.Post("https://"+s.addr+"/", "text/xml", bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				got, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if live := s.ctx.Live(); !bytes.Equal(got, body) || live != 1 {
					t.Errorf("a body of %d bytes came back with %d, over %d connections", n, len(got), live)
				}
			}
		})
	}
}

// The server ends a connection with close_notify, so that a client can detect truncation.
func TestServerSendsCloseNotify(t *testing.T) {
	s := serve(t, chainHandler, nil)
	tcp := s.dialTCP(t)
	var wire bytes.Buffer
	c := tls.Client(slowConn{tcp, io.TeeReader(tcp, &wire)}, tlsConfig(identity(t, "rsa", "alice"), tls.VersionTLS12))
	io.WriteString(c, "GET / HTTP/1.0\r\n\r\n")
	if _, err := io.ReadAll(c); err != nil {
		t.Fatal(err)
	}
	last := byte(0) // the type of the last record, which TLS 1.2 does not hide
	for b := wire.Bytes(); len(b) > 5; b = b[5+(int(b[3])<<8|int(b[4])):] {
		last = b[0]
	}
	if last != 21 {
		t.Errorf("the last record has type %d, want 21, an alert", last)
	}
}

// An answer to a request with an unread body must arrive before the reset.
func TestAnswerBeforeTheBodyIsRead(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	}), nil)
	c := s.dial(t, tlsConfig(identity(t, "rsa", "alice"), tls.VersionTLS13))
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Fatalf("%v, %v", resp, err)
	}
	resp.Body.Close()
}

// A body that is cut short is an error for the handler, with a close_notify or without.
func TestBodyCutShort(t *testing.T) {
	for name, hangUp := range map[string]func(*tls.Conn){
		"CloseNotify": func(c *tls.Conn) { c.Close() },
		"BareEOF":     func(c *tls.Conn) { c.NetConn().(*net.TCPConn).CloseWrite() },
		"Reset":       func(c *tls.Conn) { c.NetConn().(*net.TCPConn).SetLinger(0); c.NetConn().Close() },
	} {
		t.Run(name, func(t *testing.T) {
			began, ended := make(chan bool, 1), make(chan error, 1)
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.ReadFull(r.Body, make([]byte, 3))
				began <- true
				_, err := io.ReadAll(r.Body)
				ended <- err
			}), nil)
			c := s.dial(t, tlsConfig(identity(t, "rsa", "alice"), tls.VersionTLS13))
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
			<-began
			hangUp(c)
			err := <-ended
			if err == nil || name != "Reset" && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the handler saw %v", err)
			}
			s.mustFreeAll(t)
		})
	}
}

// slowConn is a client's side that sends every byte by itself, and reads so.
type slowConn struct {
	net.Conn
	in io.Reader
}

func (c slowConn) Read(p []byte) (int, error) { return c.in.Read(p) }
func (c slowConn) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := c.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

func TestRecordsInSingleBytes(t *testing.T) {
	s := serve(t, sumHandler, nil)
	for name, v := range versions {
		t.Run(name, func(t *testing.T) {
			tcp := s.dialTCP(t)
			tcp.SetNoDelay(true)
			c := tls.Client(slowConn{tcp, iotest.OneByteReader(tcp)}, tlsConfig(identity(t, "rsa", "alice", "authority"), v))
			body := strings.Repeat("x", 2000)
			got, err := roundTrip(c, bufio.NewReader(c), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n"+body)
			if want := fmt.Sprintf("2000 %x", sha256.Sum256([]byte(body))); err != nil || got != want {
				t.Errorf("got %q (%v), want %q", got, err, want)
			}
		})
	}
}
