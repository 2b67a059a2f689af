package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am/api"
	"patchbay/am/server"
)

// party is a server that identifies peers by their address: 127.0.0.2 to 127.0.0.9 are known
// callers, each named by its address, and all others are unknown.
type party struct {
	*server.Server
	t    *testing.T
	addr string
	log  *lines
}

func newParty(t *testing.T, c server.Config, d double) *party {
	t.Helper()
	p := &party{t: t, log: new(lines)}
	p.Server = server.New(c, server.Options{
		API: d,
		Log: slog.New(slog.NewJSONHandler(p.log, nil)),
		Chain: func(c net.Conn) [][]byte {
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			return [][]byte{[]byte(host)}
		},
		CallerName: func(remote net.Addr, chain [][]byte) string {
			if host, _, _ := net.SplitHostPort(remote.String()); host != string(chain[0]) {
				t.Errorf("the chain of %s is said to come from %s", chain[0], host)
			}
			if host := string(chain[0]); host >= "127.0.0.2" && host <= "127.0.0.9" {
				return host
			}
			return ""
		},
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.addr = l.Addr().String()
	ended := make(chan error)
	go func() { ended <- p.Serve(p.Limit(l)) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // at once
		p.Shutdown(ctx)
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return p
}

// dial connects from an address of this host.
func (p *party) dial(from string) *net.TCPConn {
	p.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c.(*net.TCPConn)
}

const head = "POST /am/3.0 HTTP/1.1\r\nHost: x\r\n"

// ask sends a call and returns the body of the answer.
func ask(t *testing.T, c net.Conn, body string) string {
	t.Helper()
	if _, err := fmt.Fprintf(c, head+"Content-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	return answer(t, c)
}

func answer(t *testing.T, c net.Conn) string {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// soon waits for a condition.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// metric reads a line of /metrics.
func (p *party) metric(name string) string {
	w := httptest.NewRecorder()
	p.AdminHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

func (p *party) awaits(name, value string) {
	p.t.Helper()
	soon(p.t, name+" is "+p.metric(name)+", not "+value, func() bool { return p.metric(name) == value })
}

func TestCallsAtOnceAreCountedByCaller(t *testing.T) {
	leave := make(chan bool)
	p := newParty(t, server.Config{MaxCallsPerCaller: 2}, double{func(_ context.Context, _ int, r api.Request) api.Response {
		if string(r.Body) == "stay" {
			<-leave
		}
		return api.Response{Body: []byte("done")}
	}})
	for _, from := range []string{"127.0.0.2", "127.0.0.2", "127.0.0.11", "127.0.0.12"} {
		fmt.Fprintf(p.dial(from), head+"Content-Length: 4\r\n\r\nstay")
	}
	p.awaits("patchbay_calls_running", "4")
	mustBeBusy(t, ask(t, p.dial("127.0.0.2"), "call"), "2 of your calls")
	mustBeBusy(t, ask(t, p.dial("127.0.0.13"), "call"), "without a certificate of a trusted authority")
	if got := ask(t, p.dial("127.0.0.3"), "call"); got != "done" {
		t.Errorf("another caller got %q", got)
	}
	if got := p.metric(`patchbay_limited_total{limit="max_calls_per_caller"}`); got != "2" {
		t.Errorf("counted %s calls, want 2", got)
	}
	close(leave)
	soon(t, "a place is free again", func() bool { return ask(t, p.dial("127.0.0.2"), "call") == "done" })
}

// Clients repeat calls that are refused as busy, so only some refusals are logged.
func TestBusyIsLoggedSeldom(t *testing.T) {
	p := newParty(t, server.Config{MaxCalls: 1, MaxCallsPerCaller: 1}, double{func(ctx context.Context, _ int, _ api.Request) api.Response {
		<-ctx.Done()
		return api.Response{Body: []byte("cut off")}
	}})
	fmt.Fprintf(p.dial("127.0.0.2"), head+"Content-Length: 4\r\n\r\ncall")
	p.awaits("patchbay_calls_running", "1")
	for range 20 {
		ask(t, p.dial("127.0.0.2"), "call")
	}
	p.awaits(`patchbay_calls_total{code="SERVERBUSY",method="unknown"}`, "20")
	line := p.log.last(t)
	if line["limit"] != "max_calls_per_caller" || line["caller"] != "127.0.0.2" || line["times"] != 1.0 || !strings.HasPrefix(fmt.Sprint(line["remote"]), "127.0.0.2:") {
		t.Errorf("the line tells %v", line)
	}
	n := strings.Count(p.log.String(), "\n")
	if n != 1 {
		t.Errorf("%d lines for 20 calls", n)
	}
}

func TestSlowBodyTakesItsOwnersPlaceOnly(t *testing.T) {
	p := newParty(t, server.Config{MaxCalls: 1, MaxCallsPerCaller: 3}, double{})
	soon(t, "its places are taken", func() bool {
		fmt.Fprintf(p.dial("127.0.0.2"), head+"Content-Length: 9\r\n\r\nslow")
		return strings.Contains(ask(t, p.dial("127.0.0.2"), "x"), "32001")
	})
	if got := ask(t, p.dial("127.0.0.3"), "call"); got != "v3 call" {
		t.Errorf("another caller got %q", got)
	}
}

// The large calls of one caller leave room for those of others.
func TestCallersHaveAPartOfTheBodies(t *testing.T) {
	p := newParty(t, server.Config{MaxBody: 100 << 10, MaxBodies: 400 << 10}, double{})
	large := strings.Repeat("x", 90<<10)
	soon(t, "its part is taken", func() bool {
		fmt.Fprintf(p.dial("127.0.0.2"), head+"Content-Length: %d\r\n\r\n%s", len(large)+1, large)
		return strings.Contains(ask(t, p.dial("127.0.0.2"), large), "32001")
	})
	if got := ask(t, p.dial("127.0.0.3"), large); got != "v3 "+large {
		t.Errorf("another caller got %.80q", got)
	}
}

// Small calls succeed, however many large ones there are.
func TestSmallCallsHaveAReserve(t *testing.T) {
	p := newParty(t, server.Config{MaxBody: 100 << 10, MaxBodies: 400 << 10}, double{})
	large := strings.Repeat("x", 90<<10)
	soon(t, "no more large calls are received", func() bool {
		for i := 2; i < 9; i++ {
			fmt.Fprintf(p.dial(fmt.Sprint("127.0.0.", i)), head+"Content-Length: %d\r\n\r\n%s", len(large)+1, large)
		}
		return strings.Contains(ask(t, p.dial("127.0.0.9"), large), "32001")
	})
	if got := ask(t, p.dial("127.0.0.9"), "small"); got != "v3 small" {
		t.Errorf("a small call got %.80q", got)
	}
}

// Unread answers count by the memory they use.
func TestUnreadAnswersAreBounded(t *testing.T) {
	const size = 8 << 20 // more than the kernel buffers
	shared := bytes.Repeat([]byte("s"), size)
	p := newParty(t, server.Config{MaxAnswers: 3 * 4 * size}, double{func(_ context.Context, _ int, r api.Request) api.Response {
		switch string(r.Body) {
		case "own":
			return api.Response{Body: bytes.Repeat([]byte("o"), size)}
		case "shared":
			return api.Response{Body: shared}
		}
		return api.Response{Body: []byte("small")}
	}})
	stall := func(from, body string) {
		c := p.dial(from)
		c.SetReadBuffer(4 << 10)
		fmt.Fprintf(c, head+"Content-Length: %d\r\n\r\n%s", len(body), body)
	}
	for range 10 { // one body, however many
		stall("127.0.0.2", "shared")
	}
	p.awaits("patchbay_connections", "10")
	p.awaits("patchbay_connections_waiting", "0")
	if got := ask(t, p.dial("127.0.0.2"), "call"); got != "small" {
		t.Errorf("with one body shared by ten: %.200q", got)
	}
	stall("127.0.0.2", "own")
	stall("127.0.0.2", "own")
	soon(t, "the caller's part is used up", func() bool { return strings.Contains(ask(t, p.dial("127.0.0.2"), "call"), "32001") })
	mustBeBusy(t, ask(t, p.dial("127.0.0.2"), "call"), "too many answers to send")
	if got := ask(t, p.dial("127.0.0.3"), "call"); got != "small" {
		t.Errorf("another caller got %.200q", got)
	}
}

func TestPeerThatDoesNotReadIsCutOff(t *testing.T) {
	large := make([]byte, 16<<20)
	p := newParty(t, server.Config{StallTimeout: 500 * time.Millisecond}, double{func(_ context.Context, _ int, r api.Request) api.Response {
		return api.Response{Body: large}
	}})
	c := p.dial("127.0.0.2")
	c.SetReadBuffer(4 << 10)
	fmt.Fprintf(c, head+"Content-Length: 4\r\n\r\ncall")
	p.awaits(`patchbay_limited_total{limit="stall_timeout"}`, "1")
	p.awaits("patchbay_connections", "0")
	if line := p.log.last(t); line["unsent"] == nil {
		t.Errorf("the log has %v", line)
	}
}

// A call may take longer than the timeout of its body. net/http reads on while the call runs,
// and this read must not end it.
func TestCallOutlivesTheTimeOfItsBody(t *testing.T) {
	const stall = 500 * time.Millisecond
	p := newParty(t, server.Config{StallTimeout: stall, ReadTimeout: stall}, double{func(ctx context.Context, _ int, _ api.Request) api.Response {
		select {
		case <-ctx.Done():
			return api.Response{Body: []byte("ended")}
		case <-time.After(2 * stall):
			return api.Response{Body: []byte("done")}
		}
	}})
	var all sync.WaitGroup
	for _, body := range []string{"call", ""} {
		c := p.dial("127.0.0.2")
		fmt.Fprintf(c, head+"Content-Length: %d\r\n\r\n%s", len(body), body)
		all.Go(func() {
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Errorf("a call of %d bytes: %v", len(body), err)
				return
			}
			defer resp.Body.Close()
			if got, err := io.ReadAll(resp.Body); string(got) != "done" {
				t.Errorf("a call of %d bytes got %q, %v", len(body), got, err)
			}
		})
	}
	all.Wait()
}

func TestFloodOfOneAddressClosesItsOwnConnections(t *testing.T) {
	p := newParty(t, server.Config{MaxConnections: 10, MaxConnectionsPerAddress: 5}, double{})
	good := p.dial("127.0.0.2")
	if got := ask(t, good, "call"); got != "v3 call" {
		t.Fatal(got)
	}
	for range 100 {
		p.dial("127.0.0.11")
	}
	p.awaits(`patchbay_limited_total{limit="max_connections_per_address"}`, "95")
	for range 100 { // from one after the other
		p.dial("127.0.0.12")
	}
	p.awaits("patchbay_connections", "10")
	if got := ask(t, good, "call"); got != "v3 call" {
		t.Errorf("the good connection: %q", got)
	}
	if got := ask(t, p.dial("127.0.0.3"), "call"); got != "v3 call" {
		t.Errorf("a new good connection: %q", got)
	}
	if n := strings.Count(p.log.String(), `"limit":"max_connections_per_address","from":"127.0.0.11/32"`); n != 1 {
		t.Errorf("%d lines tell of the flood, want 1", n)
	}
}

func TestConnectionsOfOneCertificate(t *testing.T) {
	leave := make(chan bool)
	free := sync.OnceFunc(func() { close(leave) })
	p := newParty(t, server.Config{MaxConnectionsPerCertificate: 2}, double{func(_ context.Context, _ int, r api.Request) api.Response {
		if string(r.Body) == "stay" {
			<-leave
		}
		return api.Response{Body: []byte("done")}
	}})
	idle := p.dial("127.0.0.2")
	ask(t, idle, "call")
	p.awaits("patchbay_connections_waiting", "1") // only then may it be ended
	busy := p.dial("127.0.0.2")
	io.WriteString(busy, head+"Content-Length: 4\r\n\r\nstay")
	p.awaits("patchbay_calls_running", "1")
	third := p.dial("127.0.0.2")
	defer free()
	if got := ask(t, third, "call"); got != "done" {
		t.Fatalf("a third gets %q", got)
	}
	if _, err := idle.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the idle one was not ended: %v", err)
	}
	io.WriteString(third, head+"Content-Length: 4\r\n\r\nstay")
	p.awaits("patchbay_calls_running", "2")
	fourth := p.dial("127.0.0.2")
	mustBeBusy(t, ask(t, fourth, "call"), "2 connections use your certificate")
	if _, err := fourth.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the fourth is not closed: %v", err)
	}
	free()
	if got := answer(t, busy); got != "done" {
		t.Errorf("the busy one got %q", got)
	}
}

// TestUnknownCallersShareLogLines sends requests of all kinds. Only those of a known caller get a log
// line each.
func TestUnknownCallersShareLogLines(t *testing.T) {
	const times = 20
	p := newParty(t, server.Config{}, double{})
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
		c := p.dial(from)
		for range times {
			ask(t, c, "call")
			if _, err := io.WriteString(c, "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			answer(t, c)
		}
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	lines := map[string]int{}
	counted := 0
	for text := range strings.Lines(p.log.String()) {
		var line struct {
			Remote, From string
			Times        int
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		host, _, _ := net.SplitHostPort(line.Remote)
		lines[host]++
		counted += line.Times
		if (line.From == "127.0.0.1/32") != (host == "127.0.0.1") {
			t.Errorf("a line of %s: %s", host, text)
		}
	}
	if lines["127.0.0.1"] != 2 || counted != 2*times || lines["127.0.0.2"] != 2*times {
		t.Errorf("strangers have %d lines, which count %d requests, and the known caller %d; want 2, %d, %d", lines["127.0.0.1"], counted, lines["127.0.0.2"], 2*times, 2*times)
	}
}

// panicking is a ResponseWriter that panics, as a bug in the way of an answer.
type panicking struct{ http.ResponseWriter }

func (panicking) Write([]byte) (int, error) { panic("secret") }

func TestPanicAnywhereNamesTheRequest(t *testing.T) {
	var log lines
	s := server.New(server.Config{}, server.Options{
		API: double{}, Log: slog.New(slog.NewJSONHandler(&log, nil)),
		Chain:      func(net.Conn) [][]byte { return nil },
		CallerName: func(net.Addr, [][]byte) string { panic("secret") },
		Manifest:   func(string) ([]byte, error) { panic("secret") },
		Ready:      func() error { panic("secret") },
	})
	mustTell := func(t *testing.T, status int, body string) {
		t.Helper()
		line := log.last(t)
		id := fmt.Sprint(line["id"])
		if strings.Contains(body, "secret") || !strings.Contains(body, id) || line["level"] != "ERROR" || !strings.Contains(fmt.Sprint(line["error"]), "secret") {
			t.Errorf("%d %q; the log has %v", status, body, line)
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("POST", "/am/3.0", strings.NewReader("call")))
	if w.Code != 200 || !strings.Contains(w.Body.String(), "<int>5</int>") {
		t.Errorf("a call: %d %q", w.Code, w.Body)
	}
	mustTell(t, w.Code, w.Body.String())

	for name, serve := range map[string]func(net.Listener) error{"/manifest?sliver=x": s.ServeSocket, "/readyz": s.ServeAdmin} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() { serve(l) })
		resp, body := do(t, "GET", "http://"+l.Addr().String()+name, "")
		if resp.StatusCode != 500 {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
		mustTell(t, resp.StatusCode, body)
		t.Cleanup(func() { s.Shutdown(context.Background()); all.Wait(); http.DefaultClient.CloseIdleConnections() })
	}

	// A started answer is cut off, so that it does not look complete.
	begun := server.New(server.Config{}, server.Options{API: double{}, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler {
				t.Errorf("the connection is not ended: %v", p)
			}
		}()
		begun.ServeHTTP(panicking{httptest.NewRecorder()}, httptest.NewRequest("POST", "/am/3.0", strings.NewReader("call")))
	}()
	if line := log.last(t); line["level"] != "ERROR" || !strings.Contains(fmt.Sprint(line["error"]), "secret") {
		t.Errorf("the log has %v", line)
	}
}

// Connections in every state end with the server. Calls that do not end in time are cancelled
// and have ended when Shutdown returns.
func TestShutdownEndsAllConnections(t *testing.T) {
	over := make(chan bool, 1)
	p := newParty(t, server.Config{}, double{func(ctx context.Context, _ int, r api.Request) api.Response {
		if string(r.Body) == "stay" {
			<-ctx.Done()
			time.Sleep(50 * time.Millisecond) // it takes some time after that, too
			over <- true
		}
		return api.Response{Body: []byte("done")}
	}})
	idle, halfOpen, drip, busy := p.dial("127.0.0.2"), p.dial("127.0.0.2"), p.dial("127.0.0.2"), p.dial("127.0.0.2")
	ask(t, idle, "call")
	io.WriteString(halfOpen, "POST /am/3.0 HT")
	io.WriteString(drip, head+"Content-Length: 1000\r\n\r\ndrip")
	io.WriteString(busy, head+"Content-Length: 4\r\n\r\nstay")
	p.awaits("patchbay_calls_running", "1")
	p.awaits("patchbay_connections", "4")
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := p.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("calls were cut off, and Shutdown says %v", err)
	}
	select {
	case <-over:
	default:
		t.Error("a call is still at work")
	}
	soon(t, "no connection is left", func() bool { return p.metric("patchbay_connections") == "0" })
	for name, c := range map[string]net.Conn{"idle": idle, "half-open": halfOpen, "dripping": drip, "busy": busy} {
		if _, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the %s connection is open", name)
		}
	}
}
