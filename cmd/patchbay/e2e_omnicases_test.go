package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/testkit/wait"
	"patchbay/am/xmlrpc"
	"patchbay/credentials/trial"
)

const rspecHead = `<?xml version="1.0" encoding="UTF-8"?>
<rspec xmlns="http://www.geni.net/resources/rspec/3" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
 xsi:schemaLocation="http://www.geni.net/resources/rspec/3 http://www.geni.net/resources/rspec/3/request.xsd" type="request">
`

func requestOf(nodes ...string) string { return rspecHead + strings.Join(nodes, "\n") + "\n</rspec>\n" }

func boundNode(id, component string) string {
	const site = "urn:publicid:IDN+testbed.example.org+"
	return `<node client_id="` + id + `" component_manager_id="` + site + `authority+cm" component_id="` + site + `node+` + component + `" exclusive="true"><sliver_type name="raw-pc"/></node>`
}

func unboundNode(id string) string {
	return `<node client_id="` + id + `" exclusive="false"><sliver_type name="vm"/></node>`
}

// own returns a bound node, n of 1 to 5, that no other script uses: all share one site,
// and unbound nodes get its first components.
func (o *omniTest) own(id string, n int) string {
	return boundNode(id, fmt.Sprintf("pc%d", 10+5*(o.version-2)+n))
}

func (o *omniTest) createSliver() {
	slice, cred, expires := o.slice(o.prefix+"life", 7)
	request := requestOf(o.own("left", 1), o.own("right", 2))
	o.gone(slice, cred)
	manifest, slivers := o.create(slice, cred, request, expires)
	o.matches("what was made", request, manifest, true)
	o.status(slice, cred)
	second := o.manifest(slice, cred, option("geni_compressed", true))
	if a := o.contents(slice, o.user()); a.code == am.Success {
		o.t.Error("the user credential passes for one of the slice")
	}
	if o.version == 3 {
		o.versionThree(slice, cred, slivers)
	}
	o.matches("what the slice has", request, second, true)

	late := expires.Add(48 * time.Hour).UTC().Format("2006-01-02T15:04:05")
	if o.version == 2 {
		o.fails("two days past the slice's end", "RenewSliver", slice, o.creds(cred), late, o.options())
	} else {
		o.fails("two days past the slice's end", "Renew", urns(slice), o.creds(cred), late, o.options())
	}
	now := time.Now().Truncate(time.Second)
	o.renew(slice, cred, now.Add(2*24*time.Hour))
	o.renew(slice, cred, now.Add(5*24*time.Hour))
	o.remove(slice, cred, 2)
	o.gone(slice, cred)
}

// versionThree runs the suite's cases with single slivers.
func (o *omniTest) versionThree(slice, cred string, slivers []string) {
	grant := o.creds(cred)
	if a := o.call("ListResources", grant, o.options(option("geni_slice_urn", slice))); a.code == am.Success {
		o.t.Error("ListResources takes a slice in version 3")
	}
	o.fails("Describe of nothing", "Describe", []xmlrpc.Value{}, grant, o.options())
	o.manifest(slice, cred, option("geni_compressed", false))

	one := slivers[:1]
	o.sameNames("Status of one", o.slivers(o.want("Status", am.Success, urns(one...), grant, o.options())), one)
	soon := time.Now().Truncate(time.Second).Add(5 * time.Minute)
	v := o.want("Renew", am.Success, urns(one...), grant, soon.UTC().Format("2006-01-02T15:04:05+00:00"), o.options())
	o.sameNames("Renew of one", o.slivers(v), one)
	o.until(o.slivers(v), soon.Equal)
	v = o.want("Describe", am.Success, urns(one...), grant, o.options())
	o.sameNames("Describe of one", o.slivers(v), one)
	if n := len(o.rspec(member(v, "geni_rspec"), "manifest").Nodes); n != 1 {
		o.t.Errorf("the manifest of one sliver has %d nodes", n)
	}
	node := strings.Replace(one[0], "+sliver+", "+node+", 1)
	invalid := one[0][:strings.Index(one[0], "+sliver+")] + "+sliver+INVALID"
	for what, list := range map[string][]string{"a node": {node}, "a sliver and a node": {one[0], node}, "no such sliver": {invalid}, "a sliver and one that is not": {one[0], invalid}} {
		o.fails("Describe of "+what, "Describe", urns(list...), grant, o.options())
	}
}

func (o *omniTest) neverExisted() {
	slice, cred, _ := o.slice(o.prefix+"non", 7)
	o.gone(slice, cred)
}

// multiSlice creates three slices with different requests; no credential of one is valid
// for another.
func (o *omniTest) multiSlice() {
	requests := []string{requestOf(o.own("a", 3)), requestOf(o.own("a", 4), o.own("b", 5)), requestOf(unboundNode("x"), unboundNode("y"))}
	urns, creds := make([]string, len(requests)), make([]string, len(requests))
	expires := make([]time.Time, len(requests))
	for i, request := range requests {
		urns[i], creds[i], expires[i] = o.slice(fmt.Sprintf("%smany%d", o.prefix, i), 7)
		m, _ := o.create(urns[i], creds[i], request, expires[i])
		o.matches("several slices", request, m, i < 2)
	}
	for i := range requests {
		o.status(urns[i], creds[i])
		if a := o.contents(urns[(i+1)%len(urns)], o.creds(creds[i])); a.code == am.Success {
			o.t.Error("the credential of one slice opens another")
		}
	}
	for i, request := range requests {
		o.matches("several slices", request, o.manifest(urns[i], creds[i]), i < 2)
		now := time.Now().Truncate(time.Second)
		o.renew(urns[i], creds[i], now.Add(2*24*time.Hour))
		o.renew(urns[i], creds[i], now.Add(5*24*time.Hour))
	}
	for i, request := range requests {
		o.asked(request, func(clients, _ []string) { o.remove(urns[i], creds[i], len(clients)) })
		o.gone(urns[i], creds[i])
	}
}

// secondAllocate checks geni_allocate: several calls for one slice.
func (o *omniTest) secondAllocate() {
	slice, cred, expires := o.slice(o.prefix+"second", 7)
	o.create(slice, cred, requestOf(unboundNode("a")), expires)
	if o.version == 2 {
		if a := o.call("CreateSliver", slice, o.creds(cred), requestOf(unboundNode("b")), []xmlrpc.Value{}, o.options()); a.code != am.Exists {
			o.t.Errorf("CreateSliver again: %d %s", a.code, a.output)
		}
		o.remove(slice, cred, 1)
		return
	}
	word := member(o.want("GetVersion", am.Success), "geni_allocate")
	a := o.call("Allocate", slice, o.creds(cred), requestOf(unboundNode("b"), unboundNode("c")), o.options())
	if single := word == "geni_single"; single == (a.code == am.Success) {
		o.t.Fatalf("geni_allocate is %v, and a second Allocate answers %d %s", word, a.code, a.output)
	}
	if m := o.rspec(member(a.value, "geni_rspec"), "manifest"); len(m.Nodes) != 2 {
		o.t.Errorf("the manifest of the second Allocate has %d nodes, want its own 2", len(m.Nodes))
	}
	o.matches("both together", requestOf(unboundNode("a"), unboundNode("b"), unboundNode("c")), o.manifest(slice, cred), false)
	// Provision affects only reserved slivers, and single slivers can be deleted.
	v := o.want("Provision", am.Success, urns(slice), o.creds(cred), o.options())
	o.sameNames("Provision of the rest", o.slivers(v), sliverNames(o.slivers(a.value)))
	o.want("Delete", am.Success, urns(sliverNames(o.slivers(a.value))[0]), o.creds(cred), o.options())
	o.matches("one less", requestOf(unboundNode("a"), unboundNode("c")), o.manifest(slice, cred), false)
	o.remove(slice, cred, 2)
}

func (o *omniTest) badRequests() {
	slice, cred, _ := o.slice(o.prefix+"bad", 7)
	good := requestOf(unboundNode("a"))
	for what, request := range map[string]string{
		"an empty file": "", "the end tag is none": strings.Replace(good, "</rspec>", "<rspec>", 1), "a manifest": strings.Replace(good, `type="request"`, `type="manifest"`, 1),
	} {
		if o.version == 2 {
			o.fails(what, "CreateSliver", slice, o.creds(cred), request, userAccounts(o.User), o.options())
		} else {
			o.fails(what, "Allocate", slice, o.creds(cred), request, o.options())
		}
		o.gone(slice, cred)
	}
}

// delegate reads a slice with a delegated credential, with the type that omni gives it.
func (o *omniTest) delegate() {
	owner := o.site.newClient(o.t, fmt.Sprintf("owner%d", o.version), o.version)
	slice, cred, expires := owner.slice(o.prefix+"given", 7)
	(&omniTest{owner, o.prefix}).create(slice, cred, requestOf(unboundNode("a")), expires)
	handed, err := trial.Delegate([]byte(cred), owner.User, o.Certificate, time.Time{})
	if err != nil {
		o.t.Fatal(err)
	}
	if a := o.contents(slice, o.creds(cred)); a.code != am.Forbidden {
		o.t.Errorf("another's credential: %d %s", a.code, a.output)
	}
	o.matches("a slice that was handed on", requestOf(unboundNode("a")), o.manifest(slice, string(handed)), false)
	if o.version == 3 {
		a := o.contents(slice, []xmlrpc.Value{labelledCredential("geni_unknown", "0", string(handed))}, option("geni_compressed", true))
		if a.code != am.Success {
			o.t.Fatalf("labelled as omni does: %d %s", a.code, a.output)
		}
		if a := o.contents(slice, []xmlrpc.Value{labelledCredential("geni_sfaBROKEN", "3", string(handed))}); a.code != am.Forbidden {
			o.t.Errorf("labelled as nobody does: %d %s", a.code, a.output)
		}
	}
	o.remove(slice, string(handed), 1)
}

// scaling creates the same unbound request in several slices, and waits until all are
// ready.
func (o *omniTest) scaling() {
	const n = 3
	request := requestOf(unboundNode("a"), unboundNode("b"))
	var urnOf, credOf [n]string
	for i := range n {
		slice, cred, expires := o.slice(fmt.Sprintf("%sscale%d", o.prefix, i), 7)
		m, _ := o.create(slice, cred, request, expires)
		o.matches("scaling", request, m, false)
		urnOf[i], credOf[i] = slice, cred
	}
	ready := map[int]string{2: "ready", 3: "geni_ready"}[o.version]
	for i := range n {
		wait.Until(o.t, "ready", func() bool {
			if o.version == 3 { // version 2 starts automatically
				o.call("PerformOperationalAction", urns(urnOf[i]), o.creds(credOf[i]), "geni_start", xmlrpc.Struct{})
			}
			return !slices.ContainsFunc(o.status(urnOf[i], credOf[i]), func(s string) bool { return s != ready })
		})
	}
	for i := range n {
		o.remove(urnOf[i], credOf[i], 2)
	}
}

// shutdown shuts a slice down; its owner can then use nothing of it.
func (o *omniTest) shutdown() {
	slice, cred, expires := o.slice(o.prefix+"down", 7)
	o.create(slice, cred, requestOf(unboundNode("a")), expires)
	if v := o.want("Shutdown", am.Success, slice, o.creds(cred), o.options()); v != true {
		o.t.Errorf("Shutdown answers %v", v)
	}
	if o.version == 2 {
		o.fails("shut down", "RenewSliver", slice, o.creds(cred), expires.Add(-time.Hour).UTC().Format(time.RFC3339), o.options())
		o.fails("shut down", "DeleteSliver", slice, o.creds(cred), o.options())
		if s := o.status(slice, cred); s[0] != "shutdown" {
			o.t.Errorf("SliverStatus says %q", s)
		}
		return
	}
	o.fails("shut down", "Allocate", slice, o.creds(cred), requestOf(unboundNode("b")), o.options())
	o.fails("shut down", "Renew", urns(slice), o.creds(cred), expires.Add(-time.Hour).UTC().Format(time.RFC3339), o.options())
	o.fails("shut down", "Delete", urns(slice), o.creds(cred), o.options())
}
