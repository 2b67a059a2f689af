package server_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/server"
)

func TestSocketReturnsManifests(t *testing.T) {
	const sliver = "urn:publicid:IDN+example.org+sliver+s1"
	var log lines
	s := server.New(server.Config{}, server.Options{
		API: double{}, Log: slog.New(slog.NewJSONHandler(&log, nil)),
		Manifest: func(u string) ([]byte, error) {
			switch u {
			case sliver:
				return []byte("<rspec/>"), nil
			case "gone":
				return nil, am.Errorf(am.SearchFailed, "there is no sliver gone")
			case "shut":
				return nil, am.Errorf(am.Forbidden, "it was shut down")
			case "no urn":
				return nil, am.Errorf(am.BadArgs, "that is no URN")
			}
			return nil, errors.New("a secret of the store")
		},
	})
	for _, tt := range []struct {
		rule, method, path string
		status             int
		want               string
	}{
		{"there", "GET", "/manifest?sliver=" + url.QueryEscape(sliver), 200, "<rspec/>"},
		{"not there", "GET", "/manifest?sliver=gone", 404, "there is no sliver gone"},
		{"shut down", "GET", "/manifest?sliver=shut", 403, "shut down"},
		{"not a URN", "GET", "/manifest?sliver=no+urn", 400, "no URN"},
		{"an error of ours", "GET", "/manifest?sliver=x", 500, "the log has the reason"},
		{"nothing named", "GET", "/manifest", 400, "Name one sliver"},
		{"a long name", "GET", "/manifest?sliver=" + strings.Repeat("x", 1025), 400, "Name one sliver"},
		{"not well-formed", "GET", "/manifest?sliver=%zz", 400, "cannot be understood: invalid URL escape"},
		{"a semicolon", "GET", "/manifest?sliver=x;y=z", 400, "semicolon"},
		{"asked twice", "GET", "/manifest?sliver=x&sliver=y", 400, "sliver is given twice"},
		{"an unknown key", "GET", "/manifest?sliver=x&slice=y", 400, `unknown key "slice"`},
		{"not a question", "POST", "/manifest?sliver=x", 405, ""},
		{"elsewhere", "GET", "/metrics", 404, ""},
	} {
		w := httptest.NewRecorder()
		s.SocketHandler().ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: %d %q, want %d %q", tt.rule, w.Code, w.Body, tt.status, tt.want)
		}
	}
	if line := log.last(t); line["level"] != "ERROR" || line["error"] != "a secret of the store" || line["sliver"] != "x" {
		t.Errorf("the log has %v", line)
	}
	// Nowhere else.
	for where, h := range map[string]http.Handler{"admin listener": s.AdminHandler(), "calls": s} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/manifest?sliver="+url.QueryEscape(sliver), nil))
		if w.Code != 404 {
			t.Errorf("%s: %d", where, w.Code)
		}
	}
}

func TestConcurrentManifestsAreLimited(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	h := server.New(server.Config{}, server.Options{API: double{}, Log: slog.New(slog.DiscardHandler), Manifest: func(string) ([]byte, error) {
		entered <- true
		<-leave
		return []byte("<rspec/>"), nil
	}}).SocketHandler()
	ask := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/manifest?sliver=s", nil))
		return w.Code
	}
	const most = 4
	codes := make(chan int)
	for range most {
		go func() { codes <- ask() }()
		<-entered
	}
	if got := ask(); got != 503 {
		t.Errorf("one more: %d", got)
	}
	close(leave)
	for range most {
		if got := <-codes; got != 200 {
			t.Errorf("one of %d: %d", most, got)
		}
	}
}
