package e2e

import (
	"fmt"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
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
			o.t.Errorf("with an unknown label: %d %s", a.code, a.output)
		}
	}
	o.remove(slice, string(handed), 1)
}
