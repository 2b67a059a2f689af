package setup

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	logger "log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
)

// fetchURL returns what the client fetches from a URL.
func fetchURL(t *testing.T, c *client, url string) (string, error) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c.note = func(format string, args ...any) { t.Logf(format, args...) }
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	size, err := c.fetch(ctx, url, f, func(string) {})
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(f.Name())
	if err != nil || int64(len(text)) != size {
		t.Fatalf("%d bytes are reported, %d exist, %v", size, len(text), err)
	}
	return string(text), nil
}

// big exceeds all buffers.
var big = strings.Repeat("0123456789abcdef", 1<<15)

func newSite() http.Handler {
	m := http.NewServeMux()
	var busy atomic.Int32
	m.HandleFunc("/big", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(big)))
		io.WriteString(w, big)
	})
	m.HandleFunc("/chunked", func(w http.ResponseWriter, r *http.Request) {
		for part := range 16 {
			io.WriteString(w, big[part*len(big)/16:(part+1)*len(big)/16])
			w.(http.Flusher).Flush()
		}
	})
	m.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		io.WriteString(w, "after hints")
	})
	m.HandleFunc("/hop/{n}", func(w http.ResponseWriter, r *http.Request) {
		var n int
		fmt.Sscan(r.PathValue("n"), &n)
		if n == 0 {
			io.WriteString(w, "there")
			return
		}
		http.Redirect(w, r, fmt.Sprintf("%d", n-1), []int{301, 302, 303, 307, 308}[n%5])
	})
	m.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "file:///etc/shadow")
		w.WriteHeader(302)
	})
	m.HandleFunc("/busy", func(w http.ResponseWriter, r *http.Request) {
		if busy.Add(1) < 3 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "at last")
	})
	m.HandleFunc("/who", func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		fmt.Fprintf(w, "%s %s %s %s", name, password, r.Host, r.Header.Get("Accept-Encoding"))
	})
	m.HandleFunc("/query", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Query().Get("a b")) })
	m.HandleFunc("/empty", func(w http.ResponseWriter, r *http.Request) {})
	return m
}

func TestFetch(t *testing.T) {
	s := httptest.NewServer(newSite())
	defer s.Close()
	c := &client{retryPauses: []time.Duration{time.Millisecond, time.Millisecond}}
	host := strings.TrimPrefix(s.URL, "http://")
	for _, tt := range []struct{ rule, path, want, err string }{
		{"a length", "/big", big, ""},
		{"chunks", "/chunked", big, ""},
		{"nothing", "/empty", "", ""},
		{"answers before the last", "/early", "after hints", ""},
		{"ten redirects", "/hop/10", "there", ""},
		{"eleven redirects", "/hop/11", "", "more than 10 redirects"},
		{"a redirect to a file", "/file", "", "cannot be followed"},
		{"not there", "/nothing", "", "answered 404 Not Found"},
		{"trouble that passes", "/busy", "at last", ""},
		{"a query", "/query?a%20b=c+d#e", "c d", ""},
	} {
		got, err := fetchURL(t, c, s.URL+tt.path)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %.60q, %v; want %.60q, %q", tt.rule, got, err, tt.want, tt.err)
		}
	}
	if got, err := fetchURL(t, c, "http://alice:se%3Acret@"+host+"/who"); got != "alice se:cret "+host+" identity" {
		t.Errorf("name and password: %q, %v", got, err)
	}
	if got, err := fetchURL(t, c, "data:;base64,aGk="); got != "hi" || err != nil {
		t.Errorf("data: %q, %v", got, err)
	}
	s.Close()
	if _, err := fetchURL(t, c, s.URL+"/big"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("no answer: %v", err)
	}
}

func TestRetriesAreReported(t *testing.T) {
	s := httptest.NewServer(newSite())
	defer s.Close()
	var notes []string
	c := &client{retryPauses: []time.Duration{2 * time.Millisecond}, note: func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }}
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := c.fetch(t.Context(), s.URL+"/busy", f, func(string) {}); err == nil {
		t.Error("the server was not busy twice")
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "503") || !strings.HasSuffix(notes[0], "; retrying in 2ms") {
		t.Errorf("reported was %q", notes)
	}
}

// Only an unknown name and an unreachable network get the additional text.
func TestNodesWithoutEgressExplainErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{&net.DNSError{Err: "no such host", Name: "www.example.org"}, true},
		{fmt.Errorf("dial: %w", unix.ENETUNREACH), true},
		{unix.ECONNREFUSED, false}, {unix.EHOSTUNREACH, false}, {io.EOF, false},
	} {
		if got := isUnreachable(fmt.Errorf("it fails: %w", tt.err)); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
	require.NetNS(t)
	dir := t.TempDir()
	for i, inside := range []bool{true, false} {
		order, err := json.Marshal(Assignment{Step: Step{Kind: Install, URL: "http://203.0.113.1/x", InstallPath: dir}, NoEgress: inside})
		if err != nil {
			t.Fatal(err)
		}
		c := setupCommand(t, dir, RunArgs(i+1), bytes.NewReader(order))
		c.SysProcAttr.Cloneflags = unix.CLONE_NEWNET // a network without routes
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		const words = "network is unreachable; nodes of this site have no outside network"
		if got := waitForStep(t, dir, i+1); got.State != Failed || strings.HasSuffix(got.Message, words) != inside || strings.HasSuffix(got.Output, words+"\n") != inside {
			t.Errorf("inside %v: %+v", inside, got)
		}
	}
}

func TestFetchHTTPS(t *testing.T) {
	plain := httptest.NewServer(newSite())
	defer plain.Close()
	var asked atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path == "/down" {
			http.Redirect(w, r, plain.URL+"/big", http.StatusFound)
			return
		}
		io.WriteString(w, "protected")
	}))
	s.Config.ErrorLog = logger.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	known := x509.NewCertPool()
	known.AddCert(s.Certificate())
	c := &client{roots: known}
	if got, err := fetchURL(t, c, s.URL); got != "protected" || err != nil {
		t.Errorf("a known authority: %q, %v", got, err)
	}
	if _, err := fetchURL(t, c, s.URL+"/down"); err == nil || !strings.Contains(err.Error(), "not encrypted") {
		t.Errorf("a redirect out of protection: %v", err)
	}
	before := asked.Load()
	for name, c := range map[string]*client{"unknown": {roots: x509.NewCertPool()}, "the node's": {retryPauses: []time.Duration{time.Hour}}} {
		if _, err := fetchURL(t, c, s.URL); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s authorities: %v", name, err)
		}
	}
	if _, err := fetchURL(t, c, strings.Replace(s.URL, "127.0.0.1", "localhost", 1)); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("another host's certificate: %v", err)
	}
	if asked.Load() != before {
		t.Error("a server with a wrong certificate got a request")
	}
}

// Each answer is refused; a similar valid one is accepted.
func TestHostileServers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	answers := make(chan string, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					io.WriteString(c, <-answers)
				}
			}()
		}
	}()
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, tt := range []struct{ rule, bad, good string }{
		{"the length", ok + "Content-Length: 6\r\n\r\nhello", ok + "Content-Length: 5\r\n\r\nhello"},
		{"more than fits", ok + "Content-Length: 4294967297\r\n\r\nhello", ok + "Content-Length: 5\r\n\r\nhello, world"},
		{"no HTTP", "220 mail.example.org\r\n\r\nhello", "HTTP/1.1 200\r\n\r\nhello"},
		{"a long head", ok + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 300) + "\r\nhello", ok + strings.Repeat("X: y\r\n", 300) + "\r\nhello"},
		{"hints without end", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20000) + ok + "\r\nhello", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20) + ok + "\r\nhello"},
		{"a part of a file", "HTTP/1.1 206 Partial Content\r\n\r\nhello", ok + "\r\nhello"},
		{"a redirect to nowhere", "HTTP/1.1 302 Found\r\n\r\nhello", ok + "Location: /\r\n\r\nhello"},
		{"nothing", "", ok + "\r\nhello"},
	} {
		answers <- tt.bad
		if got, err := fetchURL(t, &client{}, "http://"+l.Addr().String()); err == nil {
			t.Errorf("%s: %q is accepted", tt.rule, got)
		}
		answers <- tt.good
		if got, err := fetchURL(t, &client{}, "http://"+l.Addr().String()); err != nil || got != "hello" {
			t.Errorf("%s: the neighbour is %q, %v", tt.rule, got, err)
		}
	}
}

// A server that does not speak HTTP is not asked again.
func TestOnlyTemporaryErrorsAreRetried(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, tt := range []struct {
		rule, answer string
		times        int32
	}{
		{"no HTTP", "220 mail.example.org\r\n\r\n", 1},
		{"no answer", "", 3},
		{"a body that is cut", ok + "Content-Length: 6\r\n\r\nhello", 3},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int32
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				asked.Add(1)
				if _, err := c.Read(make([]byte, 4<<10)); err == nil {
					io.WriteString(c, tt.answer)
				}
				c.Close()
			}
		}()
		for _, scheme := range []string{"http", "https"} {
			asked.Store(0)
			c := &client{retryPauses: []time.Duration{time.Millisecond, time.Millisecond}}
			if got, err := fetchURL(t, c, scheme+"://"+l.Addr().String()); err == nil || asked.Load() != tt.times {
				t.Errorf("%s: asked %d times, want %d: %.60q, %v", tt.rule, asked.Load(), tt.times, got, err)
			}
			if tt.rule != "no HTTP" {
				break
			}
		}
		l.Close()
	}
}

func TestFetchHasATimeLimit(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "a part")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	c := &client{note: t.Logf, retryPauses: []time.Duration{time.Hour}}
	if _, err := c.fetch(ctx, s.URL, f, func(string) {}); err == nil || !strings.Contains(err.Error(), "was not fetched within") {
		t.Errorf("a server that stops: %v", err)
	}
}
