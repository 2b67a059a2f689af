package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/testkit/wait"
)

// TestServedInventoryChangesUnderASliver drains, removes, gives another provider to,
// and brings back the machine under a node that runs, by the command, by a signal and
// by a new start. The node stays its owner's throughout, with its manifest; nobody
// else gets the machine; and in the end the provider that has made it removes it.
func TestServedInventoryChangesUnderASliver(t *testing.T) {
	f := newFederation(t, "fed.example.org")
	root := f.issue(f.urn("authority", "sa"), true, nil)
	user := f.issue(f.urn("user", "flooby"), false, root)
	s := newServed(t, "testbed.example.org", f, root)
	s.settings("timing: {make: 0s, start: 0s, stop: 0s, restart: 0s, users: 0s, remove: 0s}\n")
	s.start()
	site := func(want int, args ...string) string {
		t.Helper()
		out, errs, status := s.patchbay(append(args, "--config", s.dir)...)
		if status != want {
			t.Fatalf("%q: exit status %d\n%s%s", args, status, out, errs)
		}
		return out + errs
	}
	inventory := filepath.Join(s.dir, "inventory.yaml")
	x := f.issue(f.urn("slice", "lasting"), false, root)
	other := f.issue(f.urn("slice", "other"), false, root)
	rights := func(of *identity) []client.Credential {
		return signed(f.sign(statement{owner: user, target: of, privileges: []string{"*"}}, root))
	}
	cred, otherCred := rights(x), rights(other)
	ctx := t.Context()
	c := s.as(user, false)
	request := `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="n" component_id="urn:publicid:IDN+testbed.example.org+node+pc1"/></rspec>`
	state := func() string {
		a, _, _ := c.Status(ctx, []string{x.urn}, cred, client.Options{})
		if len(a.Slivers) != 1 {
			return fmt.Sprint(len(a.Slivers), " slivers")
		}
		return a.Slivers[0].Operational
	}
	becomes := func(want string) {
		t.Helper()
		wait.Until(t, "it is "+want, func() bool { return state() == want })
	}
	_, r, err := c.Allocate(ctx, x.urn, cred, request, client.Options{})
	if r.Code != am.Success {
		t.Fatal(r, err)
	}
	if _, r, err = c.Provision(ctx, []string{x.urn}, cred, client.Options{}); r.Code != am.Success {
		t.Fatal(r, err)
	}
	becomes("geni_notready")
	if _, r, err = c.PerformOperationalAction(ctx, []string{x.urn}, cred, "geni_start", client.Options{}); r.Code != am.Success {
		t.Fatal(r, err)
	}
	becomes("geni_ready")
	manifest := func() string {
		a, _, _ := c.Describe(ctx, []string{x.urn}, cred, client.Options{})
		return factsOf(strings.ReplaceAll(a.RSpec, "><", ">\n<"))
	}
	told := manifest()
	if !strings.Contains(told, "+node+pc1") {
		t.Fatalf("the manifest tells %q", told)
	}
	good := readFile(t, inventory)
	same := func(what string) {
		t.Helper()
		if now := manifest(); now != told {
			t.Errorf("%s: the manifest tells\n%s\nand told\n%s", what, now, told)
		}
		if now := state(); now != "geni_ready" {
			t.Errorf("%s: it is %s", what, now)
		}
		if _, r, _ := c.Allocate(ctx, other.urn, otherCred, request, client.Options{}); r.Code == am.Success {
			t.Errorf("%s: somebody else gets the machine", what)
		}
	}
	change := func(old, new string) {
		t.Helper()
		if err := os.WriteFile(inventory, []byte(strings.Replace(good, old, new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	change("names: pc1..pc12", "names: pc1..pc12\n    drained: true")
	has(t, site(0, "check"), "pc1..pc12", "is drained", "1 sliver of "+x.urn)
	has(t, site(0, "reload"), "is drained", "1 sliver of "+x.urn)
	same("drained")

	change("names: pc1..pc12", "names: pc2..pc12")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the signal is heeded", func() bool { return strings.Contains(site(0, "check"), "in force as it is") })
	has(t, site(0, "check"), "pc1: it is not in the inventory")
	same("removed")

	change("names: pc1..pc12", "names: pc1..pc12\n    provider: nowhere")
	has(t, site(1, "reload"), "nothing has changed", `the provider "nowhere"`)
	same("after a mistake")

	s.stop()
	change("names: pc1..pc12", "names: pc2..pc12")
	s.start()
	c = s.as(user, false)
	same("removed, and started again")

	change("", "")
	has(t, site(0, "reload"), "component pc1: is new")
	same("brought back")
	if _, r, err := c.Delete(ctx, []string{x.urn}, cred, client.Options{}); r.Code != am.Success {
		t.Fatal(r, err)
	}
	wait.Until(t, "its machine can be had again", func() bool {
		_, r, _ := c.Allocate(ctx, other.urn, otherCred, request, client.Options{})
		return r.Code == am.Success
	})
}
