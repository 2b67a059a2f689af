package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/testkit/wait"
)

// TestOutsideRack serves the worked provider of PROVIDER.md as its operator
// would, on components of which it does not know the last.
func TestOutsideRack(t *testing.T) {
	f := newFederation(t, "fed.example.org")
	root := f.issue(f.urn("authority", "sa"), true, nil)
	user := f.issue(f.urn("user", "flooby"), false, root)
	slice := f.issue(f.urn("slice", "racked"), false, root)
	grant := func(x *identity) []client.Credential {
		return signed(f.sign(statement{owner: user, target: x, privileges: []string{"*"}}, root))
	}
	cred := grant(slice)
	s := newServed(t, "testbed.example.org", f, root)
	rack(t, filepath.Join(s.dir, "providers"))
	text := "provider: rack\ndefault_sliver_type: raw-pc\nsliver_types: [{name: raw-pc}]\ncomponents: [{names: pc1..pc4, exclusive: true, sliver_types: [raw-pc]}]\n"
	if err := os.WriteFile(filepath.Join(s.dir, "inventory.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s.start()
	c := s.as(user, false)
	ctx := t.Context()
	want := func(what string, r client.Reply, err error, code am.Code) {
		t.Helper()
		if r.Code != code || code == am.Success && err != nil {
			t.Fatalf("%s: code %d %q, %v; want %d", what, r.Code, r.Output, err, code)
		}
	}
	allocate := func(component string) (client.Answer, client.Reply, error) {
		request := fmt.Sprintf(`<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="n" component_id="urn:publicid:IDN+testbed.example.org+node+%s"/></rspec>`, component)
		return c.Allocate(ctx, slice.urn, cred, request, client.Options{})
	}
	becomes := func(state string) {
		t.Helper()
		wait.Until(t, state, func() bool {
			a, r, err := c.Status(ctx, []string{slice.urn}, cred, client.Options{})
			want("Status", r, err, am.Success)
			return len(a.Slivers) == 1 && a.Slivers[0].Operational == state
		})
	}
	act := func(action string, o client.Options) {
		t.Helper()
		_, r, err := c.PerformOperationalAction(ctx, []string{slice.urn}, cred, action, o)
		want(action, r, err, am.Success)
	}
	logged := func(text string) func() bool {
		return func() bool { return strings.Contains(readFile(t, s.log.Name()), text) }
	}

	_, r, err := allocate("pc4")
	want("Allocate of a machine that the rack has not", r, err, am.SearchFailed)
	has(t, r.Output, `node "n": pc4 cannot be had: there is no machine pc4`)
	_, r, err = allocate("pc2")
	want("Allocate", r, err, am.Success)
	key := sshKey(t)
	_, r, err = c.Provision(ctx, []string{slice.urn}, cred, client.Options{Users: []client.User{{URN: user.urn, Keys: []string{key}}}})
	want("Provision", r, err, am.Success)
	becomes("geni_notready")
	act("geni_start", client.Options{})
	becomes("geni_ready")
	a, r, err := c.Describe(ctx, []string{slice.urn}, cred, client.Options{})
	want("Describe", r, err, am.Success)
	has(t, a.RSpec, `hostname="pc2.lab.example.org"`, `port="22"`, `username="flooby"`)
	act("geni_restart", client.Options{})
	becomes("geni_ready")
	if !logged("outlet of pc2: cycle")() {
		t.Error("the machine was not restarted")
	}
	second := f.urn("user", "second")
	act("geni_update_users", client.Options{Users: []client.User{{URN: second, Keys: []string{key}}}})
	wait.Until(t, "the second account", func() bool {
		a, _, _ := c.Describe(ctx, []string{slice.urn}, cred, client.Options{})
		return strings.Count(readFile(t, s.log.Name()), "accounts on pc2 change") == 2 &&
			strings.Contains(a.RSpec, `username="second"`) && strings.Contains(a.RSpec, `username="flooby"`)
	})
	_, r, err = c.Delete(ctx, []string{slice.urn}, cred, client.Options{})
	want("Delete", r, err, am.Success)
	wait.Until(t, "the machine is off and free", func() bool {
		left, _ := filepath.Glob(filepath.Join(s.dir, "providers", "rack.nodes", "*"))
		return len(left) == 0 && logged("outlet of pc2: off")()
	})
	wait.Until(t, "somebody else can have it", func() bool {
		_, r, _ := allocate("pc2")
		return r.Code == am.Success
	})
	s.stop()
}
