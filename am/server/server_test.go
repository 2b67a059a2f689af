package server_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/server"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/am/urn"
)

func TestMain(m *testing.M) { os.Exit(require.NoLeaks(m)) }

// double answers every call with the call itself.
type double struct {
	serve func(ctx context.Context, version int, r api.Request) api.Response
}

func (d double) Serve(ctx context.Context, version int, r api.Request) api.Response {
	if d.serve != nil {
		return d.serve(ctx, version, r)
	}
	return api.Response{
		Body:  fmt.Appendf(nil, "v%d %s", version, r.Body),
		Event: api.Event{Method: "GetVersion"},
	}
}

// lines is a log that a test can read.
type lines struct{ wait.Buffer }

func (l *lines) last(t *testing.T) map[string]any {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		text := strings.TrimSpace(l.String())
		if text != "" {
			all := strings.Split(text, "\n")
			var m map[string]any
			if err := json.Unmarshal([]byte(all[len(all)-1]), &m); err != nil {
				t.Fatal(err)
			}
			return m
		}
		if time.Now().After(deadline) {
			t.Fatal("no line in the log")
		}
		time.Sleep(time.Millisecond)
	}
}

type site struct {
	*server.Server
	url   string
	admin string
	log   *lines
	stop  func() error
}

func start(t *testing.T, c server.Config, d double) *site {
	t.Helper()
	s := &site{log: new(lines)}
	seconds := server.NewDurations("provider_call_duration_seconds", "Provider calls.", "provider", "action")
	seconds.Observe(1600*time.Millisecond, "rack", "get")
	s.Server = server.New(c, server.Options{
		API:       d,
		Log:       slog.New(slog.NewJSONHandler(s.log, nil)),
		PublicURL: "https://am.example.org:8443",
		Chain:     func(net.Conn) [][]byte { return [][]byte{[]byte("leaf"), []byte("issuer")} },
		Ready:     func() error { return nil },
		Durations: []*server.Durations{seconds},
		Numbers: []server.Number{
			{Name: "tasks", Help: "Tasks.", Value: func() float64 { return 7 }},
			{Name: "slivers", Help: "Slivers.", Labels: []string{"state", "provider"}, Values: func(add func(float64, ...string)) { add(3, "ready", "rack"); add(0, "failed", "vm\xff") }},
			{Name: "lines_total", Help: "Lines.", Counter: true, Value: func() float64 { return 9 }},
		},
	})
	var ended sync.WaitGroup
	listen := func(serve func(net.Listener) error) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended.Go(func() {
			if err := serve(l); err != nil {
				t.Errorf("serve: %v", err)
			}
		})
		return "http://" + l.Addr().String()
	}
	s.url, s.admin = listen(s.Serve), listen(s.ServeAdmin)
	s.stop = sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		err := s.Shutdown(ctx)
		ended.Wait()
		return err
	})
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		s.stop()
	})
	return s
}

func do(t *testing.T, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "identity") // Go's client would ask for gzip by itself
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func TestEveryURLAnswersWithoutRedirect(t *testing.T) {
	s := start(t, server.Config{}, double{})
	for _, c := range []struct {
		method, path string
		status       int
		want         string // a part of the body
	}{
		{"POST", "/am/3.0", 200, "v3 call"},
		{"POST", "/am/3.0/", 200, "v3 call"},
		{"POST", "/xmlrpc/am/3.0", 200, "v3 call"},
		{"POST", "/xmlrpc/am/3.0/", 200, "v3 call"},
		{"POST", "/am/2.0", 200, "v2 call"},
		{"POST", "/am/2.0/", 200, "v2 call"},
		{"POST", "/xmlrpc/am/2.0", 200, "v2 call"},
		{"POST", "/xmlrpc/am/2.0/", 200, "v2 call"},
		{"POST", "", 200, "v3 call"},
		{"POST", "/", 200, "v3 call"},
		{"POST", "/RPC2", 200, "v3 call"},
		{"POST", "/RPC2?x=y", 200, "v3 call"},
		{"POST", "/xmlrpc", 404, "https://am.example.org:8443/am/3.0"},
		{"POST", "//am/3.0", 404, "https://am.example.org:8443/am/3.0"},
		{"POST", "/am/../am/3.0", 404, "nothing at this URL"},
		{"POST", "/am/1.0", 404, "https://am.example.org:8443/am/2.0"},
		{"GET", "/nowhere", 404, "nothing at this URL"},
		{"GET", "/am/3.0", 405, "called by XML-RPC, with POST"},
		{"GET", "/", 405, "https://am.example.org:8443/am/3.0"},
		{"PUT", "/", 405, "jFed"},
		{"DELETE", "/RPC2", 405, "jFed"},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			resp, body := do(t, c.method, s.url+c.path, "call")
			if resp.StatusCode != c.status || !strings.Contains(body, c.want) {
				t.Errorf("got %d %q, want %d with %q", resp.StatusCode, body, c.status, c.want)
			}
			if c.status == 405 && resp.Header.Get("Allow") != "POST" {
				t.Errorf("Allow is %q, want POST", resp.Header.Get("Allow"))
			}
			if c.status == 200 {
				if got := resp.Header.Get("Content-Type"); got != "text/xml; charset=utf-8" {
					t.Errorf("Content-Type is %q", got)
				}
				if resp.ContentLength != int64(len(body)) {
					t.Errorf("Content-Length is %d for %d bytes", resp.ContentLength, len(body))
				}
			}
		})
	}
}

func TestGzipOnlyWhenAsked(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, "answer")
	z.Close()
	s := start(t, server.Config{}, double{func(_ context.Context, _ int, r api.Request) api.Response {
		if r.AcceptGzip {
			return api.Response{Body: packed.Bytes(), Gzip: true}
		}
		return api.Response{Body: []byte("answer")}
	}})
	for _, c := range []struct {
		name, accept string
		want         bool
	}{
		{"Asked", "gzip", true},
		{"OldName", "x-gzip", true},
		{"InAnyCase", "GZIP", true},
		{"InAList", "deflate, gzip;q=0.5", true},
		{"ByStar", "*", true},
		{"WithOtherParameters", "gzip;level=9;q=0.1", true},
		{"WeightZero", "gzip;q=0", false},
		{"WeightZeroLong", "gzip; q=0.000", false},
		{"WeightZeroBeatsStar", "*, gzip;q=0", false},
		{"StarZero", "*;q=0", false},
		{"OtherCoding", "deflate, br", false},
		{"NonsenseWeight", "gzip;q=much", false},
		{"WeightAboveOne", "gzip;q=7", false},
		{"NotANumber", "gzip;q=NaN", false},
		{"Identity", "identity", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, body := do(t, "POST", s.url, "call", "Accept-Encoding", c.accept)
			if got := resp.Header.Get("Content-Encoding") == "gzip"; got != c.want {
				t.Fatalf("Accept-Encoding %q: gzip %v, want %v", c.accept, got, c.want)
			}
			if c.want {
				z, err := gzip.NewReader(strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				plain, _ := io.ReadAll(z)
				body = string(plain)
			}
			if body != "answer" || resp.ContentLength <= 0 {
				t.Errorf("got %q with length %d", body, resp.ContentLength)
			}
		})
	}
}

func TestRequestsThatAreNoCallsGetAStatus(t *testing.T) {
	s := start(t, server.Config{MaxBody: 100, MaxHeader: 8 << 10}, double{})
	if resp, body := do(t, "POST", s.url, strings.Repeat("x", 100)); resp.StatusCode != 200 {
		t.Errorf("a body of exactly the limit: %d %s", resp.StatusCode, body)
	}
	if resp, body := do(t, "POST", s.url, strings.Repeat("x", 101)); resp.StatusCode != 413 || !strings.Contains(body, "100 bytes") {
		t.Errorf("an announced body above the limit: %d %s", resp.StatusCode, body)
	}
	r, _ := http.NewRequest("POST", s.url, io.MultiReader(strings.NewReader(strings.Repeat("x", 200)))) // chunked
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("a chunked body above the limit: %d", resp.StatusCode)
	}
	if resp, _ := do(t, "POST", s.url, "x", "Content-Encoding", "gzip"); resp.StatusCode != 415 {
		t.Errorf("a packed call: %d, want 415", resp.StatusCode)
	}
	if resp, _ := do(t, "POST", s.url, "x", "Content-Encoding", "identity"); resp.StatusCode != 200 {
		t.Errorf("identity is no coding: %d, want 200", resp.StatusCode)
	}
	if resp, _ := do(t, "POST", s.url, "x", "X-Long", strings.Repeat("h", 20<<10)); resp.StatusCode != 431 {
		t.Errorf("a long header: %d, want 431", resp.StatusCode)
	}
}

// mustBeBusy checks that an answer is SERVERBUSY for the reason why.
func mustBeBusy(t *testing.T, body, why string) {
	t.Helper()
	v, err := xmlrpc.DecodeResponse([]byte(body), xmlrpc.Limits{})
	if err != nil {
		t.Fatalf("%v in %.200q", err, body)
	}
	answer, _ := v.(xmlrpc.Struct)
	code, _ := answer.Get("code")
	number, _ := code.(xmlrpc.Struct).Get("geni_code")
	output, _ := answer.Get("output")
	text, _ := xmlrpc.AsString(output)
	if number != int(am.ServerBusy) || !strings.Contains(text, why) || !strings.Contains(text, "try again later") {
		t.Errorf("code %v, %q; want %d with %q", number, text, am.ServerBusy, why)
	}
}

func TestCallsBeyondTheLimitGetServerBusy(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	s := start(t, server.Config{MaxCalls: 1}, double{func(context.Context, int, api.Request) api.Response {
		entered <- true
		<-leave
		return api.Response{Body: []byte("done")}
	}})
	first := make(chan string)
	go func() {
		_, body := do(t, "POST", s.url, "call")
		first <- body
	}()
	<-entered
	_, body := do(t, "POST", s.url, "call")
	mustBeBusy(t, body, "busy with other calls")
	leave <- true
	if got := <-first; got != "done" {
		t.Errorf("first call: %q", got)
	}
}

func TestBodiesShareABudget(t *testing.T) {
	s := start(t, server.Config{MaxBodies: 64 << 10}, double{})
	_, body := do(t, "POST", s.url, strings.Repeat("x", 100<<10))
	mustBeBusy(t, body, "too many large calls")
	for range 20 { // what was taken is given back
		if resp, _ := do(t, "POST", s.url, strings.Repeat("x", 40<<10)); resp.StatusCode != 200 {
			t.Fatalf("a body within the budget: %d", resp.StatusCode)
		}
	}
}

func TestPanicIsAnAnswer(t *testing.T) {
	s := start(t, server.Config{}, double{func(context.Context, int, api.Request) api.Response { panic("secret") }})
	resp, body := do(t, "POST", s.url, "call")
	if resp.StatusCode != 200 || strings.Contains(body, "secret") {
		t.Fatalf("got %d %s", resp.StatusCode, body)
	}
	v, err := xmlrpc.DecodeResponse([]byte(body), xmlrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	code, _ := v.(xmlrpc.Struct).Get("code")
	if n, _ := code.(xmlrpc.Struct).Get("geni_code"); n != int(am.ServerError) {
		t.Errorf("geni_code is %v, want %d", n, am.ServerError)
	}
	if n, _ := code.(xmlrpc.Struct).Get("am_code"); n != int(am.ServerError) {
		t.Errorf("am_code is %v, and an answer has it always", n)
	}
	output, _ := v.(xmlrpc.Struct).Get("output")
	line := s.log.last(t)
	id, _ := line["id"].(string)
	if id == "" || !strings.Contains(output.(string), id) || resp.Header.Get("X-Request-Id") != id {
		t.Errorf("output %q and header %q do not name request %q", output, resp.Header.Get("X-Request-Id"), id)
	}
	if line["level"] != "ERROR" || !strings.Contains(line["error"].(string), "secret") {
		t.Errorf("the log does not tell the cause: %v", line)
	}
}

func TestRefusalIsLoggedOnce(t *testing.T) {
	s := start(t, server.Config{}, double{func(context.Context, int, api.Request) api.Response {
		return api.Response{Body: []byte("no"), Event: api.Event{
			Method: "Allocate", Code: am.TooBig, Output: "no node is left", Err: errors.New("no node is left"),
		}}
	}})
	do(t, "POST", s.url, "call")
	line := s.log.last(t)
	if _, twice := line["error"]; twice || line["output"] != "no node is left" {
		t.Errorf("got %v, want the text as output alone", line)
	}
}

func TestEachCallHasOneLogLine(t *testing.T) {
	s := start(t, server.Config{}, double{func(_ context.Context, _ int, r api.Request) api.Response {
		if string(bytes.Join(r.Chain, []byte(","))) != "leaf,issuer" {
			t.Errorf("chain is %q", r.Chain)
		}
		return api.Response{Body: []byte("ok"), Event: api.Event{
			Method: "Allocate", Caller: urn.MustParse("urn:publicid:IDN+example.org+user+alice"),
			Slice: urn.MustParse("urn:publicid:IDN+example.org+slice+s1"), Code: am.TooBig, Detail: am.InsufficientNodes,
			Output: "no node is left", Slivers: 3, Err: errors.New("cause"), Findings: 2, Finding: "3:7: odd",
		}}
	}})
	do(t, "POST", s.url, "call")
	line := s.log.last(t)
	for key, want := range map[string]any{
		"msg": "call", "method": "Allocate", "caller": "urn:publicid:IDN+example.org+user+alice",
		"slice": "urn:publicid:IDN+example.org+slice+s1", "code": 6.0, "detail": 26.0, "slivers": 3.0,
		"output": "no node is left", "error": "cause", "status": 200.0, "received": 4.0, "sent": 2.0, "api": 3.0,
		"findings": 2.0, "finding": "3:7: odd",
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	for _, key := range []string{"id", "remote", "took"} {
		if line[key] == nil {
			t.Errorf("%s is missing in %v", key, line)
		}
	}
}

func TestNumberOfMetricsIsBounded(t *testing.T) {
	s := start(t, server.Config{}, double{func(_ context.Context, _ int, r api.Request) api.Response {
		return api.Response{Body: []byte("ok"), Event: api.Event{Method: string(r.Body), Slivers: 2, Fault: string(r.Body) == "Renew"}}
	}})
	for _, m := range []string{"Allocate", "Allocate", "evil\n1", "evil2", "evil3", "Renew"} {
		do(t, "POST", s.url, m)
	}
	do(t, "GET", s.url, "")
	_, text := do(t, "GET", s.admin+"/metrics", "")
	for _, want := range []string{
		`patchbay_calls_total{code="SUCCESS",method="Allocate"} 2`,
		`patchbay_calls_total{code="SUCCESS",method="unknown"} 3`,
		`patchbay_calls_total{code="fault",method="Renew"} 1`,
		`patchbay_calls_total{code="http_405",method="none"} 1`,
		`patchbay_call_slivers_total{method="Allocate"} 4`,
		`patchbay_tasks 7`, `patchbay_slivers{provider="rack",state="ready"} 3`, `patchbay_slivers{provider="\"vm\\xff\"",state="failed"} 0`,
		"# TYPE patchbay_lines_total counter", `patchbay_lines_total 9`, `patchbay_call_duration_seconds_count{method="Allocate"} 2`,
		`patchbay_calls_running 0`,
		`patchbay_provider_call_duration_seconds_bucket{action="get",provider="rack",le="1"} 0`, `patchbay_provider_call_duration_seconds_sum{action="get",provider="rack"} 1.6`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(text, "evil") {
		t.Error("a client's word became a label")
	}
}

func TestAdminReportsReadiness(t *testing.T) {
	s := start(t, server.Config{}, double{})
	for path, want := range map[string]string{"/healthz": "alive\n", "/readyz": "ready\n"} {
		if resp, body := do(t, "GET", s.admin+path, ""); resp.StatusCode != 200 || body != want {
			t.Errorf("%s: %d %q, want %q", path, resp.StatusCode, body, want)
		}
	}
	// If the server is not ready, the answer says why.
	h := server.New(server.Config{}, server.Options{
		Log: slog.New(slog.DiscardHandler), Ready: func() error { return errors.New("no trust anchors") },
	}).AdminHandler()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
	if w.Code != 503 || !strings.Contains(w.Body.String(), "no trust anchors") {
		t.Errorf("not ready: %d %q", w.Code, w.Body)
	}
}

func TestShutdownFinishesCalls(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	s := start(t, server.Config{}, double{func(context.Context, int, api.Request) api.Response {
		entered <- true
		<-leave
		return api.Response{Body: []byte("finished")}
	}})
	answered := make(chan string)
	go func() {
		_, body := do(t, "POST", s.url, "call")
		answered <- body
	}()
	<-entered
	stopped := make(chan error)
	go func() { stopped <- s.stop() }()
	for { // no new connection once stopping has begun
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			break
		}
		c.Close()
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-stopped:
		t.Fatalf("stopped before the call was finished: %v", err)
	default:
	}
	close(leave)
	if got := <-answered; got != "finished" {
		t.Errorf("the call in progress got %q", got)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestSlowBodyIsCutOff(t *testing.T) {
	s := start(t, server.Config{ReadTimeout: 100 * time.Millisecond}, double{})
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nbegin")
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	answer, _ := io.ReadAll(c)
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 408")) {
		t.Errorf("got %q", answer)
	}
}

func TestCallHasADeadline(t *testing.T) {
	s := start(t, server.Config{CallTimeout: 20 * time.Millisecond}, double{func(ctx context.Context, _ int, _ api.Request) api.Response {
		<-ctx.Done()
		return api.Response{Body: []byte(ctx.Err().Error())}
	}})
	if _, body := do(t, "POST", s.url, "call"); body != "context deadline exceeded" {
		t.Errorf("got %q", body)
	}
}

// FuzzRequest sends arbitrary bytes where an HTTP request is expected.
func FuzzRequest(f *testing.F) {
	f.Add("POST /am/3.0 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nConnection: close\r\n\r\ncall")
	f.Add("POST / HTTP/1.0\r\nAccept-Encoding: gzip;q=0\r\n\r\n")
	f.Add("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ncall\r\n0\r\n\r\n")
	h := server.New(server.Config{MaxBody: 1 << 10}, server.Options{API: double{}, Log: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, raw string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 300 && w.Code < 400 {
			t.Errorf("redirected by %d", w.Code)
		}
	})
}
