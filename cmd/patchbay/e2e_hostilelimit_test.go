package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"patchbay/am/testkit/wait"
)

// limitAttacks returns the cases that use up the limit of a caller, a certificate, an
// address or the server. Others must still be served, and the caller too after closing
// connections.
func limitAttacks() []attack {
	return []attack{
		{"calls of one caller that do not end", func(t *testing.T, s *hostileTest) {
			s.startUnfinishedCalls(t, "max_calls_per_caller", s.idle.identity, s.idle.identity, 90)
		}},
		{"calls of strangers that do not end", func(t *testing.T, s *hostileTest) {
			strangers := func() tls.Certificate { return s.forged.newCertificate(s.forged.newECKey(), nil, nil, nil) }
			s.startUnfinishedCalls(t, "max_calls_per_caller", strangers(), strangers(), 90)
		}},
		{"large bodies of one caller that do not end", checkLargeBodies},
		{"200 connections of one certificate", func(t *testing.T, s *hostileTest) {
			s.wantConnectionLimit(t, "max_connections_per_certificate", 200, 1, func(host byte) (net.Conn, error) {
				c, err := s.connectTLS(host, s.idle.identity)
				if err != nil {
					return nil, err
				}
				_, _, err = exchange(c, post("/am/3.0", ""))
				return c, err
			})
		}},
		{"400 connections of one address", func(t *testing.T, s *hostileTest) {
			s.wantConnectionLimit(t, "max_connections_per_address", 400, 1, func(host byte) (net.Conn, error) { return s.connect(host) })
		}},
		{"3,000 connections of 20 addresses", func(t *testing.T, s *hostileTest) {
			s.wantConnectionLimit(t, "max_connections", 3000, 20, func(host byte) (net.Conn, error) { return s.connect(host) })
		}},
	}
}

// limitCount returns how often the server has logged that it enforced a limit.
func (s *hostileTest) limitCount(t *testing.T, limit string) int {
	t.Helper()
	_, metrics := get(t, s.admin+"/metrics")
	_, rest, ok := strings.Cut(metrics, "\npatchbay_limited_total{limit=\""+limit+"\"} ")
	if !ok {
		return 0
	}
	number, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// callOutcome returns the outcome of a call with a certificate.
func (s *hostileTest) callOutcome(t *testing.T, id tls.Certificate) string {
	t.Helper()
	h := s.httpClientOf(t, id)
	defer h.CloseIdleConnections()
	got, output := s.outcome(h, strings.NewReader(encoded(t, "GetVersion")))
	if got == "code -32001" && !strings.Contains(output, "again") {
		t.Errorf("SERVERBUSY without a word about trying again: %s", output)
	}
	return got
}

// startUnfinishedCalls begins n calls with the certificate by that are never complete.
// The next call, with the certificate as, must get SERVERBUSY.
func (s *hostileTest) startUnfinishedCalls(t *testing.T, limit string, by, as tls.Certificate, n int) {
	t.Helper()
	before := s.limitCount(t, limit)
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	// The calls that the server has ended are started again.
	begin := func() {
		c, err := s.connectTLS(8, by)
		if err == nil {
			_, err = io.WriteString(c, "POST /am/3.0 HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n<")
			held = append(held, c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		begin()
	}
	wait.Until(t, "SERVERBUSY", func() bool {
		if s.callOutcome(t, as) == "code -32001" {
			return true
		}
		for range 10 { // faster than the server ends them, also on a slow host
			begin()
		}
		return false
	})
	if s.limitCount(t, limit) == before {
		t.Errorf("the metrics do not tell of %s", limit)
	}
	s.wantWorking(t)
	if got := s.callOutcome(t, s.bad.identity); got != "code 0" {
		t.Errorf("another caller: %s", got)
	}
	for _, c := range held {
		c.Close()
	}
	wait.Until(t, "served again", func() bool { return s.callOutcome(t, as) == "code 0" })
}

// checkLargeBodies has one user send almost complete calls; that must not reduce what
// others may send.
func checkLargeBodies(t *testing.T, s *hostileTest) {
	const size, calls = 12 << 20, 8
	text := strings.Repeat(" ", size)
	var sending sync.WaitGroup
	for range calls {
		c, err := s.connectTLS(8, s.idle.identity)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		sending.Go(func() {
			io.WriteString(c, fmt.Sprintf("POST /am/3.0 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size+1)+text) // the server may close it
		})
	}
	s.wantWorking(t)
	sending.Wait()
	s.wantWorking(t)
	for range 2 {
		if got, output := s.outcome(s.bad.http, strings.NewReader(strings.Repeat(" ", 4<<20)+encoded(t, "GetVersion"))); got != "code 0" {
			t.Errorf("a call of 4 MB of another: %s %s", got, output)
		}
	}
}

// wantConnectionLimit opens n connections from several addresses and keeps them: the
// server enforces the limit, and serves one more from the same address.
func (s *hostileTest) wantConnectionLimit(t *testing.T, limit string, n, addresses int, open func(host byte) (net.Conn, error)) {
	t.Helper()
	before := s.limitCount(t, limit)
	const first = 20
	held := make([]net.Conn, n)
	defer func() {
		for _, c := range held {
			if c != nil {
				c.Close()
			}
		}
	}()
	turns := make(chan int)
	var opening sync.WaitGroup
	for range 16 {
		opening.Go(func() {
			for i := range turns {
				c, err := open(byte(first + i%addresses))
				if err != nil {
					continue // the server has closed it
				}
				held[i] = c
			}
		})
	}
	for i := range n {
		turns <- i
	}
	close(turns)
	opening.Wait()
	s.wantWorking(t)
	wait.Until(t, "the metrics tell of "+limit, func() bool { return s.limitCount(t, limit) > before })
	c, err := s.connectTLS(first, s.bad.identity)
	if err != nil {
		t.Fatalf("one more of the same address: %v", err)
	}
	defer c.Close()
	if status, _, err := exchange(c, post("/am/3.0", encoded(t, "GetVersion"))); err != nil || status != http.StatusOK {
		t.Errorf("one more of the same address: status %d, %v", status, err)
	}
}
