package client

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
)

// aggregate starts a server that answers every call by answer.
func aggregate(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(answer)
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.Config.ErrorLog = quiet
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func newClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// answerValue answers every call with success and a value.
func answerValue(value any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Write(triple(value)) }
}

// triple returns a successful response with a value.
func triple(value any) []byte {
	b, err := xmlrpc.AppendResponse(nil, xmlrpc.Struct{
		{Name: "code", Value: xmlrpc.Struct{{Name: "geni_code", Value: 0}}},
		{Name: "value", Value: wire(value)},
		{Name: "output", Value: ""},
	})
	if err != nil {
		panic(err)
	}
	return b
}

func TestCallSendsItsParameters(t *testing.T) {
	var got xmlrpc.Call
	s := aggregate(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var err error
		if got, err = xmlrpc.DecodeCall(body, xmlrpc.Limits{}); err != nil {
			t.Errorf("%v in %s", err, body)
		}
		if r.Header.Get("Content-Type") != "text/xml" || r.ContentLength != int64(len(body)) || r.ProtoMajor != 1 {
			t.Errorf("sent by %s with %v", r.Proto, r.Header)
		}
		w.Write(triple(""))
	})
	c := newClient(t, Config{URL: s.URL})
	evil := "</name><value>1</value></member><member><name>x"
	params := []xmlrpc.Value{"a<&>\r\n\té", 7, true, -0.5, []byte("<c/>"), []xmlrpc.Value{}, xmlrpc.Struct{{Name: evil, Value: "v"}}}
	if _, err := c.Call(t.Context(), "M", params...); err != nil {
		t.Fatal(err)
	}
	if got.Method != "M" || fmt.Sprintf("%#v", got.Params) != fmt.Sprintf("%#v", params) {
		t.Errorf("got %#v\nwant %#v", got.Params, params)
	}
}

func TestCallRefusesUnencodableParameters(t *testing.T) {
	s := aggregate(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		t.Errorf("was sent: %s", body)
		w.Write(triple(""))
	})
	c := newClient(t, Config{URL: s.URL})
	loop := []xmlrpc.Value{nil}
	loop[0] = loop
	for rule, v := range map[string]xmlrpc.Value{
		"nil":                nil,
		"time":               time.Now(),
		"int beyond 32 bits": 1 << 40,
		"endless nesting":    loop,
		"member twice":       xmlrpc.Struct{{Name: "a", Value: 1}, {Name: "a", Value: 2}},
		"strings":            []string{"a"},
	} {
		if _, err := c.Call(t.Context(), "M", v); err == nil {
			t.Errorf("%s was sent", rule)
		}
	}
	if _, err := c.Call(t.Context(), "<M>"); err == nil || !strings.Contains(err.Error(), "invalid method name") {
		t.Errorf("got %v for an invalid method name", err)
	}
}

func TestReply(t *testing.T) {
	answer := func(b []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.Write(b) }
	}
	refusal, err := xmlrpc.AppendResponse(nil, xmlrpc.Struct{
		{Name: "code", Value: xmlrpc.Struct{{Name: "geni_code", Value: 3}, {Name: "am_type", Value: "patchbay"}, {Name: "am_code", Value: 21}}},
		{Name: "value", Value: "hint"},
		{Name: "output", Value: "the credential expired"},
		{Name: "patchbay_log", Value: "r1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, Config{URL: aggregate(t, answer(refusal)).URL})
	r, err := c.Call(t.Context(), "Status")
	if err != nil {
		t.Fatalf("a refusal is an error of Call: %v", err)
	}
	if r.Code != am.Forbidden || r.Detail != 21 || r.AMType != "patchbay" || r.Output != "the credential expired" || r.Value != "hint" || r.Took <= 0 {
		t.Errorf("got %+v", r)
	}
	_, r, err = c.Status(t.Context(), []string{"u"}, nil, Options{})
	e, ok := errors.AsType[*am.Error](err)
	if !ok || e.Code != am.Forbidden || e.Detail != am.CredentialExpired || !strings.Contains(err.Error(), "FORBIDDEN (3): the credential expired") || r.Output == "" {
		t.Errorf("the typed call gave %+v, %v", r, err)
	}

	noRoom, err := parseReply(wire(fields{{"code", fields{{"geni_code", 6}, {"am_type", "patchbay"}}}, {"value", fields{{"patchbay_first_start", "2030-01-02T03:04:05Z"}}}, {"output", "no room"}}))
	if e, ok := errors.AsType[*am.Error](noRoom.Err()); err != nil || !ok || !e.FirstStart.Equal(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)) || !e.LongestEnd.IsZero() {
		t.Errorf("got %+v, %v", e, err)
	}

	foreign := Reply{Code: am.Forbidden, Detail: 21, AMType: "protogeni"}
	if e, ok := errors.AsType[*am.Error](foreign.Err()); !ok || e.Detail != am.NoDetail || !strings.Contains(e.Msg, "gives no reason") {
		t.Errorf("a detail of another am_type counts as ours: %+v", e)
	}

	const cut = `<methodResponse><params><param><value><struct><member><name>code</name><value><struct><member><name>geni_code</name>` +
		`<value><int> 0 </int></value></member></struct></value></member><member><name>value</name><value>a<!-- c -->b<![CDATA[<c>]]>d</value></member>` +
		`<member><name>output</name><value><base64>eA==</base64></value></member></struct></value></param></params></methodResponse>`
	r, err = newClient(t, Config{URL: aggregate(t, answer([]byte(cut))).URL}).Call(t.Context(), "M")
	if err != nil || r.Value != "ab<c>d" {
		t.Errorf("text was cut: got %q, %v", r.Value, err)
	}
}

func TestNoReply(t *testing.T) {
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) }
	}
	status := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://example.org/other")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(n)
			io.WriteString(w, "<html>")
		}
	}
	value := func(v xmlrpc.Value) http.HandlerFunc {
		b, err := xmlrpc.AppendResponse(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		return text(string(b))
	}
	for _, tt := range []struct {
		rule   string
		answer http.HandlerFunc
		says   string
	}{
		{"redirect", status(307), `redirects to another URL; use the aggregate manager's own URL (it named "https://example.org/other")`},
		{"forbidden", status(403), "does not accept the client certificate"},
		{"not found", status(404), "no aggregate manager at this path"},
		{"no POST", status(405), "does not accept XML-RPC"},
		{"too large", status(413), "larger than the server accepts"},
		{"overloaded", status(503), `try again later (it says: after "7")`},
		{"proxy without server", status(502), "cannot reach it"},
		{"other", status(500), "HTTP status 500: internal server error"},
		{"no content", status(204), "HTTP status 204"},
		{"fault", text(string(xmlrpc.AppendFault(nil, &xmlrpc.Fault{Code: -32601, Text: "no method Foo"}))), `fault -32601: "no method Foo"`},
		{"fault with line ends", text(string(xmlrpc.AppendFault(nil, &xmlrpc.Fault{Code: 1, Text: "no\nroot# rm"}))), `fault 1: "no\nroot# rm"`},
		{"HTML", text("<!DOCTYPE html>"), "the answer cannot be read: line 1"},
		{"nothing", text(""), "no XML document"},
		{"cut short", text("<methodResponse><params>"), "ends inside of <params>"},
		{"no struct", value("x"), "not a struct of code, value and output"},
		{"no code", value(xmlrpc.Struct{}), "has no code"},
		{"code of version 1", value(xmlrpc.Struct{{Name: "code", Value: 0}}), "code is not a struct"},
		{"code is a string", value(xmlrpc.Struct{{Name: "code", Value: xmlrpc.Struct{{Name: "geni_code", Value: "0"}}}}), "no integer geni_code"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			r, err := newClient(t, Config{URL: aggregate(t, tt.answer).URL}).Call(t.Context(), "M")
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.HasPrefix(err.Error(), "M: ") {
				t.Errorf("got %+v, %v, want %q", r, err, tt.says)
			}
		})
	}
}

func TestAnswerSizeIsLimited(t *testing.T) {
	s := aggregate(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		for blank := bytes.Repeat([]byte(" "), 1<<20); ; {
			if _, err := z.Write(blank); err != nil {
				return // the client has hung up
			}
		}
	})
	c := newClient(t, Config{URL: s.URL})
	c.largest = 1 << 20
	_, err := c.Call(t.Context(), "M")
	if err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("got %v", err)
	}
}

func TestGzipBody(t *testing.T) {
	s := aggregate(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			t.Error("gzip is not offered")
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		z.Write(triple("zipped"))
		z.Close()
	})
	if r, err := newClient(t, Config{URL: s.URL}).Call(t.Context(), "M"); err != nil || r.Value != "zipped" {
		t.Errorf("got %v, %v", r.Value, err)
	}
}

func TestContextEndsACall(t *testing.T) {
	release := make(chan struct{})
	s := aggregate(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("Slow")) {
			select {
			case <-release:
			case <-r.Context().Done():
			case <-time.After(5 * time.Second):
			}
		}
		w.Write(triple(""))
	})
	defer close(release)

	c := newClient(t, Config{URL: s.URL})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := c.Call(ctx, "Slow"); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("got %v, want the context's error", err)
	}
	if _, err := c.Call(t.Context(), "Quick"); err != nil {
		t.Errorf("the next call fails: %v", err)
	}
	quick := newClient(t, Config{URL: s.URL, Timeout: 20 * time.Millisecond})
	if _, err := quick.Call(t.Context(), "Slow"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer from") {
		t.Errorf("got %v, want a timeout", err)
	}
}

func TestCallsShareConnections(t *testing.T) {
	var opened atomic.Int32
	s := httptest.NewUnstartedServer(answerValue("x"))
	s.Config.ErrorLog = quiet
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			opened.Add(1)
		}
	}
	s.StartTLS()
	defer s.Close()
	c := newClient(t, Config{URL: s.URL})
	for range 5 {
		if _, err := c.Call(t.Context(), "M"); err != nil {
			t.Fatal(err)
		}
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("5 calls opened %d connections", n)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := c.Call(t.Context(), "M"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestRecordTo(t *testing.T) {
	var record bytes.Buffer
	s := aggregate(t, answerValue("the value"))
	if _, err := newClient(t, Config{URL: s.URL, RecordTo: &record}).Call(t.Context(), "Status", "the argument"); err != nil {
		t.Fatal(err)
	}
	call, answer, _ := strings.Cut(record.String(), "\n< 200 OK\n")
	if !strings.HasPrefix(call, "> POST "+s.URL+" Status\n") || !strings.Contains(call, "the argument") || !strings.Contains(answer, "the value") {
		t.Errorf("recorded\n%s", record.String())
	}
	broken := newClient(t, Config{URL: s.URL, RecordTo: writerFunc(func([]byte) (int, error) { return 0, errors.New("disk full") })})
	if _, err := broken.Call(t.Context(), "M"); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("got %v, want the error of the recorder", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestConnectionErrorsAreExplained(t *testing.T) {
	plain := httptest.NewServer(answerValue(""))
	defer plain.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().String()
	l.Close()
	ssh, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ssh.Close()
	go func() {
		if conn, err := ssh.Accept(); err == nil {
			io.WriteString(conn, "SSH-2.0-example\r\n")
			conn.Close()
		}
	}()
	requiring := httptest.NewUnstartedServer(answerValue(""))
	requiring.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	requiring.Config.ErrorLog = quiet
	requiring.StartTLS()
	defer requiring.Close()
	verifying := httptest.NewUnstartedServer(answerValue(""))
	verifying.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}
	verifying.Config.ErrorLog = quiet
	verifying.StartTLS()
	defer verifying.Close()

	known := aggregate(t, answerValue(""))
	dir := t.TempDir()
	ca := writeFile(t, dir, "ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: known.Certificate().Raw}))
	id := newIdentity(t)
	own := writeFile(t, dir, "own.pem", id.certPEM)
	both := writeFile(t, dir, "both.pem", append(bytes.Clone(id.keyPEM), id.certPEM...))
	elsewhere := strings.Replace(known.URL, "127.0.0.1", "localhost", 1)

	for _, tt := range []struct {
		rule string
		cfg  Config
		says string // empty: it works
	}{
		{"closed port", Config{URL: "https://" + free}, "nothing listens at " + free},
		{"no TLS", Config{URL: strings.Replace(plain.URL, "http:", "https:", 1)}, "does not speak TLS"},
		{"no TLS and no HTTP", Config{URL: "https://" + ssh.Addr().String()}, "does not speak TLS"},
		{"no certificate", Config{URL: requiring.URL}, "none was sent"},
		{"any certificate", Config{URL: requiring.URL, CertFile: both}, ""},
		{"untrusted certificate", Config{URL: verifying.URL, CertFile: both}, "does not trust the authority of the client certificate"},
		{"any server", Config{URL: known.URL}, ""},
		{"known server", Config{URL: known.URL, ServerCAFile: ca}, ""},
		{"unknown server", Config{URL: known.URL, ServerCAFile: own}, "no authority in the given file has issued"},
		{"server of another name", Config{URL: elsewhere, ServerCAFile: ca}, "certificate is not for localhost"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			_, err := newClient(t, tt.cfg).Call(t.Context(), "M")
			if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := writeFile(t, dir, "empty.pem", nil)
	for rule, tt := range map[string]struct {
		cfg  Config
		says string
	}{
		"no URL":               {Config{}, "https://"},
		"http":                 {Config{URL: "http://example.org"}, "https://"},
		"malformed URL":        {Config{URL: "https://exa mple.org"}, "cannot use the URL"},
		"key alone":            {Config{URL: "https://example.org", KeyFile: empty}, "key was given without a certificate"},
		"no authority in file": {Config{URL: "https://example.org", ServerCAFile: empty}, "contains no CA certificate"},
		"no file":              {Config{URL: "https://example.org", ServerCAFile: filepath.Join(dir, "none")}, "none"},
	} {
		if _, err := New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %q", rule, err, tt.says)
		}
	}
}

func writeFile(t *testing.T, dir, name string, b []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
