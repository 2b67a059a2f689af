package api

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/testkit/require"
	"patchbay/credentials/cert"
)

// TestRecordedDelegation replays the calls that omni once sent for bob with the credential that
// alice had delegated to him, at their original times. The reference aggregate refused the
// credential because of omni's label; its signatures are valid.
func TestRecordedDelegation(t *testing.T) {
	read := func(elems ...string) []byte {
		t.Helper()
		b, err := os.ReadFile(require.Shared(t, elems...))
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
	// With the delegated privileges bob can use the slice as alice does.
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
	// No other caller can use it, not even alice.
	alice := &caller{site: s, chain: [][]byte{target[0].Raw}}
	alice.ask(3, "Describe", strs(slice), []xmlrpc.Value{presented}, opts()).want(t, "another caller", am.Forbidden)
	// A modification at either level is detected.
	for _, change := range [][2]string{{"+user+bob<", "+user+eve<"}, {"<name>refresh<", "<name>*<"}, {"<can_delegate>true<", "<can_delegate>1<"}} {
		forged := strings.Replace(document, change[0], change[1], 1)
		if forged == document {
			t.Fatalf("nothing to change in %q", change[0])
		}
		c.ask(3, "Describe", strs(slice), creds(forged), opts()).want(t, "forged: "+change[1], am.Forbidden)
	}
}
