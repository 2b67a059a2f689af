package api

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/testkit/need"
	"patchbay/am/xmlrpc"
	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

// TestRecordedDelegation plays what omni once sent for bob, to whom alice had
// delegated her slice: byte by byte and at its time. The reference aggregate
// refused it for the label omni had put on it; by its signatures it is good.
func TestRecordedDelegation(t *testing.T) {
	read := func(elems ...string) []byte {
		t.Helper()
		b, err := os.ReadFile(need.Shared(t, elems...))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	body := read("captures", "delegated-v3", "02-Describe.request.xml")
	call, err := xmlrpc.DecodeCall(body, xmlrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	presented := call.Params[1].([]xmlrpc.Value)[0]
	document := get(presented, "geni_value").(string)
	if get(presented, "geni_type") != "geni_unknown" || get(presented, "geni_version") != "0" {
		t.Fatalf("the recording is labelled %v %v", get(presented, "geni_type"), get(presented, "geni_version"))
	}
	gid := func(name string) []*cert.Certificate { // of the outermost credential
		m := regexp.MustCompile(`(?s)<` + name + `>(.*?)</` + name + `>`).FindStringSubmatch(document)
		list, err := cert.ParsePEM([]byte(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	target := gid("target_gid")
	bob := gid("owner_gid")[0]
	if bob.URN.Name != "bob" {
		t.Fatalf("the caller is %s", bob.URN)
	}
	s := setting{
		began:   time.Date(2026, 11, 20, 21, 48, 30, 0, time.UTC),
		anchors: cert.NewAnchors(cert.Anchor{Certificate: target[len(target)-1]}),
	}.site(t)
	c := &caller{site: s, urn: bob.URN, chain: [][]byte{bob.Raw}}
	serve := func(name string) answer {
		t.Helper()
		return s.serve(Request{ID: name, Chain: c.chain, Body: read("captures", "delegated-v3", name), AcceptGzip: true})
	}
	slice := target[0].URN.String()

	serve("01-GetVersion.request.xml").want(t, "GetVersion", am.Success)
	a := serve("02-Describe.request.xml").want(t, "Describe of a slice without slivers", am.Success)
	if get(a.value, "geni_urn") != slice || len(a.slivers(t)) != 0 {
		t.Errorf("the empty slice: %v, %d slivers", get(a.value, "geni_urn"), len(a.slivers(t)))
	}
	// The privileges that alice handed on let bob use the slice as she does.
	c.ask(3, "Allocate", slice, []xmlrpc.Value{presented}, request(node("a")), opts()).want(t, "Allocate", am.Success)
	c.ask(3, "Provision", strs(slice), []xmlrpc.Value{presented}, opts()).want(t, "Provision", am.Success)
	s.settle()
	a = serve("03-Describe.request.xml").want(t, "Describe", am.Success)
	usual, err := xmlrpc.DecodeResponse(read("captures", "v3", "18-Describe.response.xml"), xmlrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	sameShape(t, "Describe", usual, a.top)
	if m := unzip(t, get(a.value, "geni_rspec").(string)); !strings.Contains(m, `type="manifest"`) {
		t.Error("the compressed RSpec is no manifest")
	}
	// To anybody else it is worth nothing: alice's own certificate is not bob's.
	alice := &caller{site: s, chain: [][]byte{target[0].Raw}}
	alice.ask(3, "Describe", strs(slice), []xmlrpc.Value{presented}, opts()).want(t, "another caller", am.Forbidden)
	// What is changed in it, in either level, is seen.
	for _, change := range [][2]string{{"+user+bob<", "+user+eve<"}, {"<name>refresh<", "<name>*<"}, {"<can_delegate>true<", "<can_delegate>1<"}} {
		forged := strings.Replace(document, change[0], change[1], 1)
		if forged == document {
			t.Fatalf("nothing to change in %q", change[0])
		}
		c.ask(3, "Describe", strs(slice), creds(forged), opts()).want(t, "forged: "+change[1], am.Forbidden)
	}
}

// TestReissuedDelegation is the same with an authority of the test, and what
// must not be: each refused neighbour differs in one respect.
func TestReissuedDelegation(t *testing.T) {
	f := newFederal(t, "fed.example.org")
	name := func(kind, n string) string { return "urn:publicid:IDN+fed.example.org+" + kind + "+" + n }
	alice, bob := pki.User(t, f.root, name("user", "alice"), "rsa2"), pki.User(t, f.root, name("user", "bob"), "rsa3")
	slice, other := pki.User(t, f.root, name("slice", "aliceb2"), "rsa4"), pki.User(t, f.root, name("slice", "other"), "rsa4")
	usual := []string{"refresh", "embed", "bind", "control", "info"}
	levels := func(change func(child, parent *pki.Credential)) string {
		child := pki.Credential{Owner: []*pki.Entity{bob, f.root}, Target: []*pki.Entity{slice, f.root}, Signer: []*pki.Entity{alice, f.root}, Privileges: usual, CanDelegate: "false", SHA1: true}
		parent := pki.Credential{Owner: []*pki.Entity{alice}, Target: []*pki.Entity{slice, f.root}, Signer: []*pki.Entity{f.root}, Privileges: usual, SHA1: true}
		if change != nil {
			change(&child, &parent)
		}
		return pki.Delegated(t, child, parent)
	}
	omni := func(doc string) []xmlrpc.Value {
		return []xmlrpc.Value{xmlrpc.Struct{opt("geni_type", "geni_unknown"), opt("geni_version", "0"), opt("geni_value", doc)}}
	}
	c, u := f.as(bob), slice.URN.String()
	good := levels(nil)
	compressed := opts(opt("geni_compressed", true))
	for _, list := range [][]xmlrpc.Value{omni(good), creds(good), strs(good)} {
		e := c.ask(3, "Describe", strs(u), list, compressed).want(t, "Describe", am.Success)
		if err := first(e.is("value.geni_urn", "string", u), e.is("value.geni_rspec", "string"), e.is("value.geni_slivers", "array")); err != nil {
			t.Error(err)
		}
	}
	c.ask(3, "Allocate", u, omni(good), request(node("a")), opts()).want(t, "Allocate", am.Success)
	c.ask(2, "ListResources", strs(good), opts(opt("geni_slice_urn", u))).want(t, "the manifest in version 2", am.Success)
	f.as(alice).ask(3, "Status", strs(u), omni(good), opts()).want(t, "the one who delegated, with it", am.Forbidden)

	for rule, doc := range map[string]string{
		"not to be delegated":     levels(func(_, parent *pki.Credential) { parent.CanDelegate = "false" }),
		"more than the parent":    levels(func(child, _ *pki.Credential) { child.Privileges = append(usual, "*") }),
		"longer than the parent":  levels(func(child, _ *pki.Credential) { child.Expires = "2026-11-22T12:00:01Z" }),
		"another slice":           levels(func(child, _ *pki.Credential) { child.Target = []*pki.Entity{other, f.root} }),
		"signed by another":       levels(func(child, _ *pki.Credential) { child.Signer = []*pki.Entity{bob} }),
		"a parent nobody issued":  levels(func(_, parent *pki.Credential) { parent.Signer = []*pki.Entity{alice} }),
		"a parent that is over":   levels(func(_, parent *pki.Credential) { parent.Expires = "2026-11-20T12:00:00Z" }),
		"the parent's is altered": strings.Replace(good, "<can_delegate>true<", "<can_delegate>1<", 1),
	} {
		c.ask(3, "Describe", strs(u), omni(doc), compressed).want(t, rule, am.Forbidden)
	}
	c.ask(3, "Describe", strs(u), []xmlrpc.Value{xmlrpc.Struct{opt("geni_type", "geni_sfaBROKEN"), opt("geni_version", "3"), opt("geni_value", good)}}, compressed).want(t, "a type that nobody knows", am.Forbidden)
}
