package browsertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/am/testkit/program"
	"patchbay/am/testkit/require"
)

// site is a site with simulated nodes that the built program serves.
type site struct {
	t   testing.TB
	dir string
	at  program.Addresses
	cmd *exec.Cmd
	log *os.File
}

// newSite creates a site on which commands have run, and serves it until the test ends. Change may
// change its files before.
func newSite(t testing.TB, change func(t testing.TB, dir string), commands ...[]string) *site {
	t.Helper()
	require.Tool(t, "chromium")
	s := &site{t: t, dir: program.NewSite(t, commands...)}
	if change != nil {
		change(t, s.dir)
	}
	var err error
	if s.log, err = os.Create(filepath.Join(s.dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		text := program.ReadFile(t, s.log.Name())
		if strings.Contains(text, "a page cannot be shown") || t.Failed() {
			t.Errorf("the server's log ends with:\n%s", text[max(0, len(text)-4000):])
		}
		s.log.Close()
	})
	s.start()
	return s
}

func (s *site) start() {
	s.t.Helper()
	s.cmd, s.at = program.Serve(s.t, s.dir, s.log, nil, "--listen", "127.0.0.1:0")
}

func (s *site) kill() {
	s.cmd.Process.Signal(syscall.SIGKILL)
	s.cmd.Wait()
}

// patchbay runs a command for the site, which must succeed, and returns its output.
func (s *site) patchbay(args ...string) string {
	s.t.Helper()
	code, out := program.Run(s.t, append(args, "--config", s.dir)...)
	if code != 0 {
		s.t.Fatalf("%q: exit status %d:\n%s", args, code, out)
	}
	return out
}

// up starts a request in a slice of a member by the command line. It waits until the nodes are ready or, if fails is
// true, until one has failed.
func (s *site) up(member, slice, request string, fails bool) {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), slice+".xml")
	program.Write(s.t, file, request)
	code, out := program.Run(s.t, "up", file, "--user", filepath.Join(s.dir, "users", member), "--url", s.at.API, "--slice", slice)
	if (code != 0) != fails {
		s.t.Fatalf("up: exit status %d:\n%s", code, out)
	}
}

// upAt reserves a request in a slice of a member, from one time until another one after now.
func (s *site) upAt(member, slice, request string, from, until time.Duration) {
	s.t.Helper()
	file, at := filepath.Join(s.t.TempDir(), slice+".xml"), func(d time.Duration) string {
		return time.Now().Add(d).UTC().Format("2006-01-02T15:04:05Z")
	}
	program.Write(s.t, file, request)
	code, out := program.Run(s.t, "up", file, "--user", filepath.Join(s.dir, "users", member), "--url", s.at.API, "--slice", slice, "--at", at(from), "--until", at(until))
	if code != 0 {
		s.t.Fatalf("up: exit status %d:\n%s", code, out)
	}
}

// request returns a request for nodes: each a type, with the name of the node and a component after colons.
func request(nodes ...string) string {
	text := `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3">`
	for _, n := range nodes {
		kind, rest, _ := strings.Cut(n, ":")
		name, component, _ := strings.Cut(rest, ":")
		if component != "" {
			component = ` component_id="urn:publicid:IDN+testbed.example.org+node+` + component + `"`
		}
		text += fmt.Sprintf(`<node client_id="%s"%s exclusive="%v"><sliver_type name="%s"/></node>`, name, component, kind == "raw-pc", kind)
	}
	return text + "</rspec>"
}

var link = regexp.MustCompile(`https?://\S+/ui/sign-in/\S+`)

// signIn returns a tab in which the link in a text has signed somebody in.
func (s *site) signIn(text string) *tab {
	s.t.Helper()
	p := newTab(s.t, s.at.Pages)
	url := link.FindString(text)
	if url == "" {
		s.t.Fatalf("there is no link in %q", text)
	}
	p.open(url)
	p.press(get[string](p, `document.querySelector("main button").innerText`))
	return p
}

// member returns a tab in which a member is signed in, and operator one of an operator.
func (s *site) member(name string) *tab { return s.signIn(s.patchbay("user", name, "--link")) }
func (s *site) operator() *tab          { return s.signIn(s.patchbay("web", "--operator", "--print")) }
