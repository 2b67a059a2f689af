package hook

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func post(t testing.TB, h Hook) error {
	t.Helper()
	r := &receiver{hook: &h}
	defer r.close()
	return r.send(t.Context(), someEvent)
}

func TestAURLGetsTheEvent(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("sixteen bytes or more\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got Event
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &got); err != nil {
			t.Error(err)
		}
		for name, want := range map[string]string{
			"Content-Type": "application/json", KeyHeader: someEvent.ID, SignatureHeader: Sign([]byte("sixteen bytes or more"), body),
		} {
			if h := r.Header.Get(name); h != want {
				t.Errorf("%s is %q, want %q", name, h, want)
			}
		}
		if r.Method != "POST" || r.URL.Path != "/events" || r.URL.RawQuery != "x=1" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer s.Close()
	if err := post(t, Hook{URL: s.URL + "/events?x=1", Secret: secret}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(someEvent, got); diff != "" {
		t.Error(diff)
	}
}

// The value is from RFC 4231, test case 2.
func TestSignaturesAreHMAC(t *testing.T) {
	const want = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
	if got := Sign([]byte("Jefe"), []byte("what do ya want for nothing?")); got != want {
		t.Errorf("got %s", got)
	}
}

func TestAnswersThatAcceptAnEvent(t *testing.T) {
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   string // part of the error; "" for none
	}{
		{"NoContentTakes", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, ""},
		{"TenMegabytesTakeToo", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 10<<20)) }, ""},
		{"ServerErrorDoesNot", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "the disk is full", 500) }, `answers 500; its output: "the disk is full"`},
		{"NorOneWithTenMegabytes", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); w.Write(make([]byte, 10<<20)) }, "answers 500"},
		{"NorNotFound", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "answers 404"},
		{"RedirectIsNotFollowed", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, "with a redirect, which is not followed"},
		{"NorToAFile", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(302)
		}, "answers 302 with a redirect"},
		{"Closing", func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			c.Close()
		}, "EOF"},
		{"EndlessHeader", func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := io.WriteString(c, "X: "+strings.Repeat("y", 4000)+"\r\n"); err != nil {
					return
				}
			}
		}, "header"},
		{"NoHTTP", func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			io.WriteString(c, "SSH-2.0-x\r\n")
			c.Close()
		}, "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body) // an unread body would cause a reset
				c.answer(w, r)
			}))
			defer s.Close()
			err := post(t, Hook{URL: s.URL + "/?token=hidden"})
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %s", err, c.want)
			case err != nil && (strings.Contains(err.Error(), "hidden") || len(err.Error()) > 4*maxOutput):
				t.Errorf("the error has hidden text or is too long: %.200s", err)
			}
		})
	}
	if elsewhere > 0 {
		t.Error("a redirect was followed")
	}
}

func TestHangingReceiverIsDisconnected(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel(); <-release }))
	defer s.Close()
	defer close(release)
	r := &receiver{hook: &Hook{URL: s.URL}}
	if err := r.send(ctx, someEvent); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestUntrustedServerGetsNoEvent(t *testing.T) {
	var told atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { told.Add(1) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	file := func(text []byte) string {
		path := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := post(t, Hook{URL: s.URL}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a stranger: %v", err)
	}
	if told.Load() > 0 {
		t.Error("an untrusted server got the event")
	}
	ca := file(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	if err := post(t, Hook{URL: s.URL, CA: ca}); err != nil {
		t.Error(err)
	}
	if err := post(t, Hook{URL: strings.Replace(s.URL, "127.0.0.1", "localhost", 1), CA: ca}); err == nil {
		t.Error("another name is accepted")
	}
	if err := post(t, Hook{URL: s.URL, CA: file([]byte("nothing"))}); err == nil || !strings.Contains(err.Error(), "contains no certificate") {
		t.Errorf("no certificate: %v", err)
	}
}

func TestHooksUseNoProxy(t *testing.T) {
	proxied := false
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied = true }))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r := &receiver{hook: &Hook{URL: "http://192.0.2.1/"}} // no server is there
	defer r.close()
	if err := r.send(ctx, someEvent); err == nil || proxied {
		t.Errorf("got %v; the proxy was asked: %v", err, proxied)
	}
}

func TestSecretsThatCannotSign(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("an event was sent without a signature") }))
	defer s.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{"short": "0123456789abcde\n", "long": strings.Repeat("x", maxSecret+1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"absent": "cannot be read", "short": "can be guessed", "long": "longer than"} {
		if err := post(t, Hook{URL: s.URL, Secret: filepath.Join(dir, name)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnreachableReceiverGetsEventsLater(t *testing.T) {
	var tries atomic.Int32
	ids := make(chan string, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ids <- r.Header.Get(KeyHeader)
		if tries.Add(1) < 4 {
			w.WriteHeader(503)
		}
	}))
	defer s.Close()
	b := newBench(t, Hook{Name: "h", URL: s.URL})
	b.start()
	b.put(reserved("s", "a"))
	b.drained()
	b.halt()
	first := <-ids
	for range 3 {
		if id := <-ids; id != first {
			t.Errorf("the id %s became %s", first, id)
		}
	}
	if len(ids) > 0 {
		t.Errorf("%d more deliveries", len(ids))
	}
}
