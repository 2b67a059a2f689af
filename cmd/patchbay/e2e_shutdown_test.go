package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/client"
)

// TestShutdownAndThaw freezes a slice past its lease and a restart, sees that
// an operator can lift that, and that everything is given back then.
func TestShutdownAndThaw(t *testing.T) {
	f := newFederation(t, "fed.example.org")
	root := f.issue(f.urn("authority", "sa"), true, nil)
	user := f.issue(f.urn("user", "flooby"), false, root)
	slice := f.issue(f.urn("slice", "frozen"), false, root)
	cred := signed(f.sign(statement{owner: user, target: slice, privileges: []string{"*"}}, root))
	mine := signed(f.sign(statement{owner: user, target: user, privileges: []string{"*"}}, root))
	s := newServed(t, "testbed.example.org", f, root)
	s.start()
	c := s.as(user, false)
	_, r, _ := c.Allocate(t.Context(), slice.urn, cred, `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="n"/></rspec>`,
		client.Options{EndTime: time.Now().Add(2 * time.Second)})
	if r.Code != am.Success {
		t.Fatal(r.Output)
	}
	thaw := func(args ...string) string {
		t.Helper()
		out, _ := exec.Command(filepath.Join(s.bin, "patchbay"), append([]string{"thaw", "--config", s.dir}, args...)...).CombinedOutput()
		return string(out)
	}
	if _, r, _ := c.Shutdown(t.Context(), slice.urn, cred, client.Options{}); r.Code != am.Success {
		t.Fatal(r.Output)
	}
	if out := thaw(); !strings.Contains(out, "is a server running") {
		t.Errorf("thaw beside a running server: %s", out)
	}
	held := func() int {
		t.Helper()
		ad, r, err := c.ListResources(t.Context(), mine, client.Options{})
		if err != nil {
			t.Fatal(r.Output, err)
		}
		return strings.Count(ad, `now="false"`)
	}
	time.Sleep(2500 * time.Millisecond)
	if n := held(); n != 1 {
		t.Errorf("%d nodes are held past the lease of a frozen slice, want 1", n)
	}
	s.stop()
	if out := thaw(); !strings.Contains(out, slice.urn) || !strings.Contains(out, user.urn) {
		t.Errorf("the list of what is shut down: %s", out)
	}
	if out := thaw("urn:publicid:IDN+fed.example.org+slice+other"); !strings.Contains(out, "there is no slice") {
		t.Errorf("thaw of another: %s", out)
	}
	if out := thaw("frozen"); !strings.Contains(out, "Slice "+slice.urn+" is no longer shut down") {
		t.Errorf("thaw: %s", out)
	}
	if out := thaw(slice.urn); !strings.Contains(out, "is not shut down") {
		t.Errorf("thaw again: %s", out)
	}
	s.start()
	c = s.as(user, false)
	within(t, 5*time.Second, "its lease is over, so the node is free", func() bool { return held() == 0 })
	if _, r, _ := c.Status(t.Context(), []string{slice.urn}, cred, client.Options{}); r.Code != am.SearchFailed {
		t.Errorf("Status after all: %d %s", r.Code, r.Output)
	}
}
