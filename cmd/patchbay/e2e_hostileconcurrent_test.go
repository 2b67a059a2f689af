package main

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// httpClientOf returns an HTTP client with this certificate.
func (s *hostileTest) httpClientOf(t *testing.T, id tls.Certificate) *http.Client {
	return s.httpClient(t, func(c *tls.Config) { c.Certificates = []tls.Certificate{id} })
}

// postConcurrently posts a body n times at once over separate connections, while the
// working user makes calls. Each answer must be one of the outcomes in want.
func (s *hostileTest) postConcurrently(t *testing.T, n int, body, want string) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	count := map[string]int{}
	for range n {
		wg.Go(func() {
			h := s.httpClientOf(t, s.bad.identity)
			defer h.CloseIdleConnections()
			got, output := s.outcome(h, strings.NewReader(body))
			mu.Lock()
			defer mu.Unlock()
			if count[got]++; !strings.Contains(", "+want+", ", ", "+got+", ") {
				t.Errorf("%s: %.300s; want %s", got, output, want)
			}
		})
	}
	s.wantWorking(t)
	wg.Wait()
	t.Logf("%v", count)
}

// flood opens n connections, a few at a time and of every kind; most of them end badly.
func (s *hostileTest) flood(t *testing.T, n int) {
	t.Helper()
	const atOnce = 16
	hello := s.helloOf(t)
	version := post("/am/3.0", encoded(t, "GetVersion"))
	nobody := s.forged.newCertificate(s.forged.newECKey(), nil, nil, nil)
	var served, refused atomic.Int64
	call := func(host byte, id tls.Certificate, read bool) {
		c, err := s.connectTLS(host, id)
		if err != nil {
			refused.Add(1)
			return
		}
		defer c.Close()
		if !read {
			io.WriteString(c, version[:len(version)-1])
			return
		}
		if status, _, err := exchange(c, version); err != nil || status != http.StatusOK {
			refused.Add(1)
			return
		}
		served.Add(1)
	}
	send := func(host byte, b []byte, end func(*net.TCPConn)) {
		if c, err := s.connect(host); err == nil {
			c.Write(b)
			end(c)
		}
	}
	leave := func(c *net.TCPConn) { c.Close() }
	kinds := []func(host byte){
		func(host byte) { call(host, s.bad.identity, true) },
		func(host byte) { call(host, nobody, true) },
		func(host byte) { call(host, s.bad.identity, false) },
		func(host byte) { send(host, nil, leave) },
		func(host byte) { send(host, hello, reset) },
		func(host byte) { send(host, hello[:50], leave) },
		func(host byte) { send(host, []byte("GET / HTTP/1.1\r\n\r\n"), leave) },
		func(host byte) { send(host, hello, leave) },
	}
	turns := make(chan int)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for i := range turns {
				kinds[i%len(kinds)](byte(2 + i/len(kinds)%100))
			}
		})
	}
	for i := range n {
		if i == n/2 {
			s.wantWorking(t)
		}
		turns <- i
	}
	close(turns)
	wg.Wait()
	t.Logf("%d calls served, %d not", served.Load(), refused.Load())
	if served.Load() == 0 {
		t.Error("nobody was served: the test proves nothing")
	}
}
