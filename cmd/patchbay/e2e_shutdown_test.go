package main

import (
	"testing"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/testkit/wait"
)

const nodeN = `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="n"/></rspec>`

// operatedSite is a served site with an experimenter and an operator.
type operatedSite struct {
	*servedSite
	t    *testing.T
	f    *federation
	root *identity
	user *identity
	mine []client.Credential // user credentials
}

// slice issues a credential for a new slice.
func (o *operatedSite) slice(name string) (urn string, cred []client.Credential) {
	x := o.f.issue(o.f.urn("slice", name), false, o.root)
	return x.urn, signedCredentials(o.f.sign(statement{owner: o.user, target: x, privileges: []string{"*"}}, o.root))
}

// runOK runs an operator's command, which must succeed, and returns its output.
func (o *operatedSite) runOK(args ...string) string {
	o.t.Helper()
	out, errs, status := o.patchbay(append(args, "--config", o.dir)...)
	if status != 0 {
		o.t.Fatalf("%q: exit status %d\n%s%s", args, status, out, errs)
	}
	return out
}

// awaitReady allocates, provisions and starts a node.
func (o *operatedSite) awaitReady(c *client.Client, slice string, cred []client.Credential) {
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
	o.wantState(c, slice, cred, "geni_notready")
	_, r, _ = c.PerformOperationalAction(ctx, []string{slice}, cred, "geni_start", client.Options{})
	code("geni_start", r)
	o.wantState(c, slice, cred, "geni_ready")
}

func (o *operatedSite) wantState(c *client.Client, slice string, cred []client.Credential, want string) {
	o.t.Helper()
	wait.Until(o.t, want, func() bool {
		a, _, _ := c.Status(o.t.Context(), []string{slice}, cred, client.Options{})
		return len(a.Slivers) == 1 && a.Slivers[0].Operational == want
	})
}
