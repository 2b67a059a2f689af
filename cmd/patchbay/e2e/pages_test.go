package e2e

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
)

// visitor is a browser without script at the pages of a site.
type visitor struct {
	t      testing.TB
	site   *servedSite
	client http.Client
}

// visit returns a browser that is not signed in. It follows no redirects.
func (s *servedSite) visit() *visitor {
	jar, _ := cookiejar.New(nil) // never fails
	return &visitor{s.t, s, http.Client{
		Jar: jar, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// webAnswer is the answer to a request of a browser.
type webAnswer struct {
	status int
	header http.Header
	text   string
}

// send sends a request with headers, given as names and values.
func (v *visitor) send(method, path string, body io.Reader, headers ...string) webAnswer {
	v.t.Helper()
	r, err := http.NewRequest(method, v.site.pages+path, body)
	if err != nil {
		v.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := v.client.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return webAnswer{resp.StatusCode, resp.Header, string(text)}
}

func (v *visitor) get(path string) webAnswer { v.t.Helper(); return v.send("GET", path, nil) }

// post sends a form, whose fields are names and values, as a browser does.
func (v *visitor) post(path string, fields ...string) webAnswer {
	v.t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return v.send("POST", path, strings.NewReader(form.Encode()), "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
}

var linkLine = regexp.MustCompile(`https?://\S+(/ui/sign-in/([\w-]+))`)

// linkOf returns the secret of a link in an output of the program.
func linkOf(t testing.TB, output string) string {
	t.Helper()
	m := linkLine.FindStringSubmatch(output)
	if m == nil {
		t.Fatalf("there is no link in %q", output)
	}
	return m[2]
}

// signIn signs the browser in with the link that a command prints, such as user alice --link.
func (s *servedSite) signIn(args ...string) *visitor {
	s.t.Helper()
	code, out := program.Run(s.t, append(args, "--config", s.dir)...)
	if code != 0 {
		s.t.Fatal(out)
	}
	v := s.visit()
	if a := v.post("/ui/sign-in", "link", linkOf(s.t, out)); a.status != http.StatusSeeOther {
		s.t.Fatalf("sign-in: %d %s", a.status, a.text)
	}
	return v
}

// TestPagesOfSites checks where a site serves pages, also a site of an earlier version, whose configuration has no key web.
func TestPagesOfSites(t *testing.T) {
	t.Parallel()
	serve := func(t *testing.T, listen, config string) *servedSite {
		t.Helper()
		s := newServedSite(t, "testbed.example.org", nil, nil)
		file := filepath.Join(s.dir, "patchbay.yaml")
		program.Write(t, file, program.ReadFile(t, file)+config)
		var at program.Addresses
		s.cmd, at = program.Serve(t, s.dir, s.log, nil, "--listen", listen)
		s.pages = at.Pages
		return s
	}
	t.Run("without the key web, at the port + 2", func(t *testing.T) {
		port := freePorts(t)
		s := serve(t, "127.0.0.1:"+strconv.Itoa(port), "")
		if want := "http://127.0.0.1:" + strconv.Itoa(port+2); s.pages != want {
			t.Errorf("the pages are at %q, want %s", s.pages, want)
		}
		if a := s.visit().get("/ui/"); a.status != 200 || !strings.Contains(a.text, "Free now") {
			t.Errorf("%d %s", a.status, a.text)
		}
	})
	t.Run("without the key web, the port taken: served without pages", func(t *testing.T) {
		port := 0
		var other net.Listener
		wait.Success(t, "the default port is taken", func() (err error) {
			port = freePorts(t)
			other, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+2))
			return err
		})
		defer other.Close()
		s := serve(t, "127.0.0.1:"+strconv.Itoa(port), "")
		if s.pages != "" || !strings.Contains(program.ReadFile(t, s.log.Name()), "no pages are served, because another program uses the port") {
			t.Errorf("pages at %q", s.pages)
		}
	})
	t.Run("off", func(t *testing.T) {
		if s := serve(t, "127.0.0.1:0", "\nweb:\n  listen: \"off\"\n"); s.pages != "" {
			t.Errorf("pages at %q", s.pages)
		}
	})
	t.Run("on all addresses, with TLS and HTTP/2", func(t *testing.T) {
		s := serve(t, "127.0.0.1:0", "\nweb:\n  listen: \":0\"\n")
		u, err := url.Parse(s.pages)
		if err != nil || u.Scheme != "https" || u.Hostname() != "am.example.org" {
			t.Fatalf("pages at %q", s.pages)
		}
		v := s.visit()
		v.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+u.Port())
		}
		resp, err := v.client.Get(s.pages + "/ui/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.ProtoMajor != 2 || resp.StatusCode != 200 || resp.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("%s %s", resp.Proto, resp.Status)
		}
	})
	t.Run("without a trial authority, for operators", func(t *testing.T) {
		s := newServedSite(t, "testbed.example.org", nil, nil)
		if err := os.RemoveAll(filepath.Join(s.dir, "authority")); err != nil {
			t.Fatal(err)
		}
		s.start()
		operator := s.signIn("web", "--operator", "--print")
		for _, path := range []string{"/ui/operator/", "/ui/operator/slices", "/ui/operator/nodes", "/ui/operator/members", "/ui/operator/journal", "/ui/operator/who", "/ui/operator/use"} {
			if a := operator.get(path); a.status != 200 {
				t.Errorf("%s: %d %s", path, a.status, a.text)
			}
		}
	})
	t.Run("a chosen port that is taken is an error", func(t *testing.T) {
		other, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		s := newServedSite(t, "testbed.example.org", nil, nil)
		file := filepath.Join(s.dir, "patchbay.yaml")
		program.Write(t, file, program.ReadFile(t, file)+"\nweb:\n  listen: "+other.Addr().String()+"\n")
		if code, out := program.Run(t, "serve", "--config", s.dir, "--listen", "127.0.0.1:0"); code == 0 || !strings.Contains(out, "web.listen") {
			t.Errorf("%d %s", code, out)
		}
	})
}
