package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// post returns an HTTP 1.1 request with this body.
func post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: am.example.org\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// exchange writes a request and reads one answer, which may come before the whole request
// is sent.
func exchange(c net.Conn, request string) (status int, body []byte, err error) {
	c.SetDeadline(time.Now().Add(time.Minute))
	go io.WriteString(c, request)
	return nextAnswer(bufio.NewReader(c))
}

func nextAnswer(in *bufio.Reader) (status int, body []byte, err error) {
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// httpAttacks returns the cases in HTTP, with a valid certificate.
func httpAttacks() []attack {
	var all []attack
	version := `<methodCall><methodName>GetVersion</methodName></methodCall>`
	const host = "Host: am.example.org\r\n"
	for _, x := range []struct {
		name, request string
		want          string // the status, "cut", or both
	}{
		{"nothing but blank lines", strings.Repeat("\r\n", 1000), "400 cut"},
		{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\x00", 64), "400 404 405 505 cut"},
		{"an upgrade to HTTP/2", "POST /am/3.0 HTTP/1.1\r\n" + host + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nContent-Length: " + fmt.Sprint(len(version)) + "\r\n\r\n" + version, "200"},
		{"CONNECT", "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n", "404 405"},
		{"an absolute URI", "POST http://other.example.org/am/3.0 HTTP/1.1\r\nHost: other.example.org\r\nContent-Length: " + fmt.Sprint(len(version)) + "\r\n\r\n" + version, "200 400 404"},
		{"a URI of another kind", "POST file:///etc/passwd HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n", "400 404"},
		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\n" + host + "\r\n", "200 404 405"},
		{"TRACE", "TRACE /am/3.0 HTTP/1.1\r\n" + host + "\r\n", "405"},
		{"GET with a body", "GET /am/3.0 HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello", "405"},
		{"a method of 1 MB", strings.Repeat("X", 1<<20) + " / HTTP/1.1\r\n" + host + "\r\n", "400 431 cut"},
		{"a path that climbs", "POST /am/3.0/../../../../etc/passwd HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n", "404"},
		{"a path with NUL and lines", "POST /am/3.0%00%0d%0aX:%20y HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n", "404"},
		{"a path that is no URI", "POST /%zz HTTP/1.1\r\n" + host + "\r\n", "400"},
		{"a path of 12 kB", "POST /" + strings.Repeat("a/", 6000) + " HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n", "404"},
		{"HTTP 0.9", "GET /\r\n\r\n", "400"},
		{"HTTP 9.9", "POST /am/3.0 HTTP/9.9\r\n" + host + "Content-Length: 0\r\n\r\n", "400 505"},
		{"no host", "POST /am/3.0 HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "400"},
		{"two hosts", "POST /am/3.0 HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n", "400"},
		{"NUL in a header", "POST /am/3.0 HTTP/1.1\r\n" + host + "X: a\x00b\r\nContent-Length: 0\r\n\r\n", "400"},
		{"a header without name", "POST /am/3.0 HTTP/1.1\r\n" + host + ": x\r\nContent-Length: 0\r\n\r\n", "400"},
		{"a header of 1 MB", "POST /am/3.0 HTTP/1.1\r\n" + host + "X: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", "431 cut"},
		{"100,000 headers", "POST /am/3.0 HTTP/1.1\r\n" + host + strings.Repeat("X: y\r\n", 100000) + "\r\n", "431 cut"},
		{"a length that is none", "POST /am/3.0 HTTP/1.1\r\n" + host + "Content-Length: many\r\n\r\n", "400"},
		{"a length below zero", "POST /am/3.0 HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n", "400"},
		{"a length that overflows", "POST /am/3.0 HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999\r\n\r\n", "400"},
		{"two lengths", "POST /am/3.0 HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "400"},
		{"1 TB announced", "POST /am/3.0 HTTP/1.1\r\n" + host + "Content-Length: 1099511627776\r\n\r\n", "413"},
		{"one byte too much announced", "POST /am/3.0 HTTP/1.1\r\n" + host + "Content-Length: 16777217\r\n\r\n", "413"},
		{"one byte too much sent in chunks", "POST /am/3.0 HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n" + chunks(strings.Repeat(" ", 16<<20+1), 1<<20), "413 cut"},
		{"a chunk that overflows", "POST /am/3.0 HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "400"},
		{"a chunk below zero", "POST /am/3.0 HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", "400"},
		{"chunks whose extensions outweigh them", "POST /am/3.0 HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 2000)+"\r\na\r\n", 1000), "400 cut"},
		{"a trailer of 1 MB", "POST /am/3.0 HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", "200 400 cut"},
		{"an encoding that does not exist", "POST /am/3.0 HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "400 501"},
		{"a compressed call", "POST /am/3.0 HTTP/1.1\r\n" + host + "Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n\x1f\x8b\x08\x00" + strings.Repeat("\x00", 16), "415"},
		{"something else expected", "POST /am/3.0 HTTP/1.1\r\n" + host + "Expect: a-miracle\r\nContent-Length: 0\r\n\r\n", "417"},
		{"a body that ends too early", "POST /am/3.0 HTTP/1.0\r\nContent-Length: 100\r\n\r\nabc", "400"},
	} {
		all = append(all, attack{x.name, func(t *testing.T, s *hostileTest) {
			c, err := s.connectTLS(2, s.bad.identity)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(time.Minute))
			go func() {
				io.WriteString(c, x.request)
				c.CloseWrite()
			}()
			status, body, err := nextAnswer(bufio.NewReader(c))
			got := "cut"
			if err == nil {
				got = fmt.Sprint(status)
			}
			if !strings.Contains(" "+x.want+" ", " "+got+" ") {
				t.Errorf("%s (%v) %.200q; want %s", got, err, body, x.want)
			}
			if len(body) > 6<<10 { // GetVersion takes more than 4 KiB
				t.Errorf("%d bytes to tell of status %s", len(body), got)
			}
		}})
	}
	return append(all,
		attack{"two lengths in two ways", checkRequestSmuggling},
		attack{"200 calls before the first answer", checkPipelining},
	)
}

// checkRequestSmuggling sends a body with two lengths. The chunks count, and the
// connection ends after the call, so the rest is no request.
func checkRequestSmuggling(t *testing.T, s *hostileTest) {
	c, err := s.connectTLS(2, s.bad.identity)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	inner := post("/nowhere", "")
	request := fmt.Sprintf("POST /am/3.0 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", 5+len(inner), inner)
	c.SetDeadline(time.Now().Add(time.Minute))
	go func() {
		io.WriteString(c, request)
		c.CloseWrite()
	}()
	in := bufio.NewReader(c)
	status, _, err := nextAnswer(in)
	if err != nil {
		return // closed without an answer
	}
	if status != http.StatusOK && status != http.StatusBadRequest {
		t.Errorf("a request with two lengths: status %d", status)
	}
	if status, _, err := nextAnswer(in); err == nil {
		t.Errorf("what followed a request with two lengths was answered with status %d", status)
	}
}

// checkPipelining proves that many calls on one connection are answered in order.
func checkPipelining(t *testing.T, s *hostileTest) {
	c, err := s.connectTLS(2, s.bad.identity)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const calls = 200
	var all strings.Builder
	for i := range calls {
		path := "/am/3.0"
		if i%3 == 2 {
			path = "/nowhere"
		}
		all.WriteString(post(path, `<methodCall><methodName>GetVersion</methodName></methodCall>`))
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	go io.WriteString(c, all.String())
	in := bufio.NewReader(c)
	for i := range calls {
		status, _, err := nextAnswer(in)
		if want := map[bool]int{true: http.StatusNotFound, false: http.StatusOK}[i%3 == 2]; err != nil || status != want {
			t.Fatalf("answer %d: status %d, %v; want %d", i, status, err, want)
		}
	}
}
