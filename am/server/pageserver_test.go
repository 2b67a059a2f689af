package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am/api"
	"patchbay/am/server"
	"patchbay/am/testkit/wait"
)

// registry is an authority whose only service is /ma/2.
type registry struct{}

func (registry) Name(path string) string      { return map[string]string{"/ma/2": "ma"}[path] }
func (registry) ErrorBody(text string) []byte { return []byte(text) }
func (r registry) Serve(ctx context.Context, _ string, q api.Request) api.Response {
	return api.Response{Body: fmt.Appendf(nil, "ma %s %s", q.Chain, q.Remote), Event: api.Event{Service: "ma"}}
}

func TestInProcessCalls(t *testing.T) {
	log := new(lines)
	s := server.New(server.Config{MaxCallsPerCaller: 1}, server.Options{
		API: double{func(_ context.Context, version int, r api.Request) api.Response {
			return api.Response{Body: fmt.Appendf(nil, "v%d %s %s", version, r.Chain, r.Remote), Event: api.Event{Method: "Delete", Changes: bytes.Contains(r.Body, []byte("change"))}}
		}},
		Authority: registry{}, AuthorityInProcess: true,
		Log:        slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		CallerName: func(_ net.Addr, chain [][]byte) string { return string(bytes.Join(chain, nil)) },
	})
	post := func(path, body string) (int, string) {
		t.Helper()
		c := http.Client{Transport: s.InProcess([][]byte{[]byte("alice"), []byte("ma")}, "192.0.2.1:7")}
		r, err := c.Post("https://site"+path, "text/xml", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(text)
	}
	for _, c := range []struct {
		rule, path, body string
		status           int
		want, level      string
	}{
		{"the API gets the chain and the address", "/am/3.0", "read", 200, "v3 [alice ma] 192.0.2.1:7", "DEBUG"},
		{"a change is logged as any other", "/am/3.0", "change", 200, "v3 [alice ma] 192.0.2.1:7", "INFO"},
		{"the authority is reached in this process", "/ma/2", "", 200, "ma [alice ma] 192.0.2.1:7", "DEBUG"},
		{"no other path exists", "/ui/", "", 404, "", "INFO"},
	} {
		status, text := post(c.path, c.body)
		if status != c.status || c.want != "" && text != c.want {
			t.Errorf("%s: %d %q", c.rule, status, text)
		}
		if got := log.last(t)["level"]; got != c.level {
			t.Errorf("%s: logged as %v", c.rule, got)
		}
	}
	r, _ := http.NewRequest(http.MethodPost, "https://site/ma/2", http.NoBody)
	if got := server.Answer(s, r).StatusCode; got != http.StatusNotFound {
		t.Errorf("a connection reaches the authority: %d", got)
	}
}

// TestPagesAreLimited checks what one browser cannot do to others.
func TestPagesAreLimited(t *testing.T) {
	s := server.New(server.Config{StallTimeout: 50 * time.Millisecond, MaxCallsPerCaller: 2}, server.Options{Log: slog.New(slog.DiscardHandler)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hold, holding := make(chan struct{}), make(chan struct{}, 9)
	var ended sync.WaitGroup
	ended.Go(func() {
		s.ServePages(l, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/hold":
				holding <- struct{}{}
				<-hold
			case "/stream":
				ctx, end, ok := s.BeginStream(r.Context(), "alice")
				if !ok {
					http.Error(w, "streams", http.StatusServiceUnavailable)
					return
				}
				defer end()
				holding <- struct{}{}
				<-ctx.Done()
			case "/panic":
				panic("defect")
			default:
				io.Copy(w, r.Body)
			}
		}))
	})
	url := "http://" + l.Addr().String()
	get := func(path string) int {
		r, err := http.Get(url + path)
		if err != nil {
			return 0
		}
		r.Body.Close()
		return r.StatusCode
	}
	post := func(body io.Reader) int {
		r, err := http.Post(url+"/", "text/plain", body)
		if err != nil {
			return 0
		}
		r.Body.Close()
		return r.StatusCode
	}
	slow, feed := io.Pipe()
	for _, c := range []struct {
		rule string
		do   func() int
		want int
	}{
		{"a form", func() int { return post(strings.NewReader("x=1")) }, 200},
		{"a form of a MiB", func() int { return post(strings.NewReader(strings.Repeat("x", 1<<20))) }, 200},
		{"a form that is too large", func() int { return post(strings.NewReader(strings.Repeat("x", 2<<20))) }, 413},
		{"one of unknown size that is too large", func() int { return post(io.MultiReader(strings.NewReader(strings.Repeat("x", 2<<20)))) }, 413},
		{"one that stops halfway", func() int { go feed.Write([]byte("x")); return post(slow) }, 408},
		{"a defect", func() int { return get("/panic") }, 500},
	} {
		if got := c.do(); got != c.want {
			t.Errorf("%s: %d, want %d", c.rule, got, c.want)
		}
	}
	slow.Close()
	for range 2 {
		ended.Go(func() { get("/hold") })
		<-holding
	}
	if got := get("/"); got != http.StatusServiceUnavailable {
		t.Errorf("a third request of an address with two in progress: %d", got)
	}
	close(hold)
	wait.Until(t, "the requests end", func() bool { return get("/") == 200 })
	var ends []func()
	for range 4 {
		_, end, ok := s.BeginStream(context.Background(), "alice")
		if !ok {
			t.Fatal("a stream within the limit is refused")
		}
		ends = append(ends, end)
	}
	if _, _, ok := s.BeginStream(context.Background(), "alice"); ok {
		t.Error("a fifth stream of a caller is accepted")
	}
	if _, end, ok := s.BeginStream(context.Background(), "bob"); !ok {
		t.Error("another caller's stream is refused")
	} else {
		end()
	}
	for _, end := range ends {
		end()
	}
	for range 3 {
		ended.Go(func() { get("/stream") })
		<-holding
	}
	if got := get("/"); got != http.StatusOK {
		t.Errorf("a request of an address with as many open streams as it may have requests: %d", got)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("an open stream delays the shutdown: %v", err)
	}
	ended.Wait()
	http.DefaultClient.CloseIdleConnections()
}
