package main

import (
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/testkit/wait"
)

const nodeN = `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="n"/></rspec>`

// operated is a served site with an experimenter, and an operator who works at it.
type operated struct {
	*served
	t    *testing.T
	f    *federation
	root *identity
	user *identity
	mine []client.Credential // over the user himself
}

func newOperated(t *testing.T) *operated {
	t.Helper()
	f := newFederation(t, "fed.example.org")
	root := f.issue(f.urn("authority", "sa"), true, nil)
	user := f.issue(f.urn("user", "flooby"), false, root)
	o := &operated{newServed(t, "testbed.example.org", f, root), t, f, root, user, signed(f.sign(statement{owner: user, target: user, privileges: []string{"*"}}, root))}
	o.settings("timing: {make: 0s, start: 0s, stop: 0s, restart: 0s, users: 0s, remove: 0s}\n")
	o.start()
	return o
}

// slice issues a slice and a credential over it.
func (o *operated) slice(name string) (urn string, cred []client.Credential) {
	x := o.f.issue(o.f.urn("slice", name), false, o.root)
	return x.urn, signed(o.f.sign(statement{owner: o.user, target: x, privileges: []string{"*"}}, o.root))
}

// does runs an operator's command that ends well, and gives what it says.
func (o *operated) does(args ...string) string {
	o.t.Helper()
	out, errs, status := o.patchbay(append(args, "--config", o.dir)...)
	if status != 0 {
		o.t.Fatalf("%q: exit status %d\n%s%s", args, status, out, errs)
	}
	return out
}

// refused runs one that ends with status 1, and gives what it says.
func (o *operated) refused(args ...string) string {
	o.t.Helper()
	out, errs, status := o.patchbay(append(args, "--config", o.dir)...)
	if status != 1 {
		o.t.Fatalf("%q: exit status %d\n%s%s", args, status, out, errs)
	}
	return errs
}

// ready reserves a node, has it made and switched on.
func (o *operated) ready(c *client.Client, slice string, cred []client.Credential) {
	o.t.Helper()
	ctx := o.t.Context()
	code := func(what string, r client.Reply) {
		o.t.Helper()
		if r.Code != am.Success {
			o.t.Fatalf("%s: %d %s", what, r.Code, r.Output)
		}
	}
	_, r, _ := c.Allocate(ctx, slice, cred, nodeN, client.Options{})
	code("Allocate", r)
	_, r, _ = c.Provision(ctx, []string{slice}, cred, client.Options{})
	code("Provision", r)
	o.state(c, slice, cred, "geni_notready")
	_, r, _ = c.PerformOperationalAction(ctx, []string{slice}, cred, "geni_start", client.Options{})
	code("geni_start", r)
	o.state(c, slice, cred, "geni_ready")
}

func (o *operated) state(c *client.Client, slice string, cred []client.Credential, want string) {
	o.t.Helper()
	wait.Until(o.t, want, func() bool {
		a, _, _ := c.Status(o.t.Context(), []string{slice}, cred, client.Options{})
		return len(a.Slivers) == 1 && a.Slivers[0].Operational == want
	})
}

// held is how many nodes are advertised as taken.
func (o *operated) held(c *client.Client) int {
	o.t.Helper()
	ad, r, err := c.ListResources(o.t.Context(), o.mine, client.Options{})
	if err != nil || r.Code != am.Success {
		o.t.Fatal(r.Output, err)
	}
	return strings.Count(ad, `now="false"`)
}

// TestShutdown walks through what the API says of Shutdown: a frozen slice is
// kept, off and out of its users' hands, past its lease; operators see it, look
// into it, give it back to its users, or free its nodes.
func TestShutdown(t *testing.T) {
	o := newOperated(t)
	ctx := t.Context()
	c := o.as(o.user, false)
	kept, keptCred := o.slice("kept")
	freed, freedCred := o.slice("freed")
	o.ready(c, kept, keptCred)
	o.ready(c, freed, freedCred)
	for slice, cred := range map[string][]client.Credential{kept: keptCred, freed: freedCred} {
		if _, r, _ := c.Renew(ctx, []string{slice}, cred, time.Now().Add(4*time.Second), client.Options{}); r.Code != am.Success {
			t.Fatal(r.Output)
		}
		for range 2 { // repeated, it succeeds
			if _, r, _ := c.Shutdown(ctx, slice, cred, client.Options{}); r.Code != am.Success {
				t.Fatal(r.Output)
			}
		}
	}
	if _, r, _ := c.Shutdown(ctx, o.f.urn("slice", "unknown"), keptCred, client.Options{}); r.Code == am.Success {
		t.Error("a slice that is not there, and over which nobody has a right, is shut down")
	}
	for what, call := range map[string]func() (client.Reply, error){
		"Allocate": func() (client.Reply, error) {
			_, r, err := c.Allocate(ctx, kept, keptCred, strings.Replace(nodeN, `"n"`, `"m"`, 1), client.Options{})
			return r, err
		},
		"Provision": func() (client.Reply, error) {
			_, r, err := c.Provision(ctx, []string{kept}, keptCred, client.Options{})
			return r, err
		},
		"Renew": func() (client.Reply, error) {
			_, r, err := c.Renew(ctx, []string{kept}, keptCred, time.Now().Add(time.Hour), client.Options{})
			return r, err
		},
		"geni_start": func() (client.Reply, error) {
			_, r, err := c.PerformOperationalAction(ctx, []string{kept}, keptCred, "geni_start", client.Options{})
			return r, err
		},
		"Delete": func() (client.Reply, error) {
			_, r, err := c.Delete(ctx, []string{kept}, keptCred, client.Options{})
			return r, err
		},
		"Status": func() (client.Reply, error) {
			_, r, err := c.Status(ctx, []string{kept}, keptCred, client.Options{})
			return r, err
		},
		"Describe": func() (client.Reply, error) {
			_, r, err := c.Describe(ctx, []string{kept}, keptCred, client.Options{})
			return r, err
		},
	} {
		if r, _ := call(); r.Code != am.Forbidden {
			t.Errorf("%s of a frozen slice: %d %s", what, r.Code, r.Output)
		}
	}

	// Both are seen, switched off, and looked into.
	has(t, o.does("thaw"), kept, freed, o.user.urn)
	wait.Until(t, "both are off", func() bool {
		return strings.Count(o.does("slivers", "--shutdown"), "frozen, notready") == 2
	})
	has(t, o.does("slices", "--shutdown"), "kept", "freed", "shut down, 1 notready", "flooby")
	has(t, o.does("manifest", "kept"), `client_id="n"`, `type="manifest"`, "sliver_id=")
	has(t, o.does("journal", "--event", "Shutdown"), "kept", "freed", "flooby")
	over := o.leaseOf("kept")
	wait.Until(t, "the leases are over", func() bool { return time.Now().After(over) })
	if out := o.does("slivers", "--json"); strings.Count(out, `"frozen":true`) != 2 {
		t.Errorf("when the leases are over there is\n%s", out)
	}
	if n := o.held(c); n != 2 {
		t.Errorf("%d nodes are held past the leases, want 2", n)
	}

	// One is freed, by an operator's word and no sooner.
	has(t, o.refused("release", "freed"), "was shut down", "--frozen")
	if n := o.held(c); n != 2 {
		t.Errorf("%d nodes are held after a refusal, want 2", n)
	}
	has(t, o.does("release", "freed", "--frozen", "--reason", "looked into"), "Released: 1 sliver of slice "+freed, "stays shut down")
	wait.Until(t, "its node is free", func() bool { return o.held(c) == 1 })
	if _, r, _ := c.Allocate(ctx, freed, freedCred, nodeN, client.Options{}); r.Code != am.Forbidden {
		t.Errorf("Allocate in a slice that stays shut down: %d %s", r.Code, r.Output)
	}
	has(t, o.does("thaw", "freed"), "no longer shut down", "0 slivers")
	if _, r, _ := c.Allocate(ctx, freed, freedCred, nodeN, client.Options{}); r.Code != am.Success {
		t.Errorf("Allocate in a slice that was thawed: %d %s", r.Code, r.Output)
	}
	if _, r, _ := c.Delete(ctx, []string{freed}, freedCred, client.Options{}); r.Code != am.Success {
		t.Errorf("Delete in a slice that was thawed: %d %s", r.Code, r.Output)
	}

	// The other is its user's again, over a restart, too.
	o.stop()
	o.start()
	c = o.as(o.user, false)
	has(t, o.does("thaw", "kept", "--extend", "2h", "--reason", "all is well"), "no longer shut down", "The nodes are off", "in 2h")
	o.state(c, kept, keptCred, "geni_notready")
	if _, r, _ := c.PerformOperationalAction(ctx, []string{kept}, keptCred, "geni_start", client.Options{}); r.Code != am.Success {
		t.Errorf("geni_start after thaw: %d %s", r.Code, r.Output)
	}
	o.state(c, kept, keptCred, "geni_ready")
	has(t, o.does("journal"), "thaw", "all is well", "looked into", "operator")
	has(t, o.refused("thaw", "kept"), "is not shut down")
	if _, r, _ := c.Shutdown(ctx, kept, keptCred, client.Options{}); r.Code != am.Success {
		t.Fatal(r.Output)
	}

	// Without --extend a lease that is over ends; not served, too.
	o.stop()
	has(t, o.does("slices", "--shutdown"), "kept")
	has(t, o.does("manifest", kept), `client_id="n"`)
	o.start()
	c = o.as(o.user, false)
	has(t, o.does("thaw", kept), "no longer shut down")
	has(t, o.does("release", kept), "Released")
	wait.Until(t, "all is given back", func() bool { return o.held(c) == 0 })
}

// leaseOf is the end of a lease in a slice with one sliver.
func (o *operated) leaseOf(slice string) time.Time {
	o.t.Helper()
	_, text, _ := strings.Cut(o.does("slivers", slice, "--json"), `"expires":"`)
	text, _, _ = strings.Cut(text, `"`)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		o.t.Fatal(err)
	}
	return at
}
