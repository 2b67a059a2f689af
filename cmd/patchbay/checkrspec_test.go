package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// checkDocument runs check on one document, and returns its exit status and output
// without the folder of the file.
func checkDocument(t *testing.T, config, text string) (code int, out string) {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "some.xml")
	write(t, file, text)
	code, out = runCommand(t, "check", "--config", config, file)
	return code, strings.ReplaceAll(out, folder+"/", "")
}

func TestCheckReportsLikeACompiler(t *testing.T) {
	code, out := checkDocument(t, newSite(t), `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">
	<node client_id="a" exclusive="maybe" pi_tag="é">
		<interface client_id="a:0"><ip address="10.0.0.300"/></interface>
	</node>
	<node client_id="é" pi_tag="2"/><node client_id="b"><sliver_type name="mainframe"/></node>
	<link client_id="l"><interface_ref client_id="zz"/></link>
</rspec>`)
	want := `some.xml:2:22: error: node "a" has exclusive="maybe"; write true or false
     2 |  <node client_id="a" exclusive="maybe" pi_tag="é">
       |                      ^
some.xml:2:40: warning: the attribute "pi_tag" is not allowed on <node>; allowed: client_id, component_id, component_manager_id, component_name, exclusive, colocate (by the schema; it is accepted); also at 5:22
     2 |  <node client_id="a" exclusive="maybe" pi_tag="é">
       |                                        ^
some.xml:3:34: error: interface "a:0": "10.0.0.300" is not an IP address; write one such as 10.0.0.1, and the netmask as a separate attribute
     3 |   <interface client_id="a:0"><ip address="10.0.0.300"/></interface>
       |                                  ^
some.xml:5:8: warning: node "é" cannot be reached by its client_id: it has other characters than ASCII letters, digits, hyphens, underscores and dots; use its name node
     5 |  <node client_id="é" pi_tag="2"/><node client_id="b"><sliver_type name="mainframe"/></node>
       |        ^
some.xml:5:67: error: node "b": there is no sliver type "mainframe"; there are raw-pc, vm
     5 | …="é" pi_tag="2"/><node client_id="b"><sliver_type name="mainframe"/></node>
       |                                                    ^
some.xml:6:37: error: link "l" refers to the interface "zz", which no node has; add <interface client_id=…> to a node or drop the interface_ref
     6 |  <link client_id="l"><interface_ref client_id="zz"/></link>
       |                                     ^
some.xml: 4 errors, 3 warnings
`
	if diff := cmp.Diff(want, out); code != 1 || diff != "" {
		t.Errorf("exit status %d, -want +got:\n%s", code, diff)
	}
}

func TestCheckSeparatesErrorsFromWarnings(t *testing.T) {
	const ns = `xmlns="http://www.geni.net/resources/rspec/3"`
	dir := newSite(t)
	for _, c := range []struct {
		name, text string
		code       int
		want       string
	}{
		{"RefusedLink", `<rspec type="request" ` + ns + `><node client_id="a"><interface client_id="a:0"/></node>` + "\n" + `<link client_id="l"><interface_ref client_id="a:0"/><v:link_shared_vlan xmlns:v="http://www.geni.net/resources/rspec/ext/shared-vlan/1" name="v"/></link></rspec>`, 1, "some.xml:2:1: error: link \"l\": "},
		{"AnotherImage", `<rspec type="request" ` + ns + `><node client_id="a"><sliver_type name="raw-pc"><disk_image name="bsd"/></sliver_type></node></rspec>`, 0, "some.xml:1:128: warning: node \"a\": there is no disk image \"bsd\" here; "},
		{"ToleratedIsAWarning", `<rspec type="request" ` + ns + `><node client_id="a" x="1"/></rspec>`, 0, "1 warning\nok "},
		{"RefusedBySite", `<rspec type="request" ` + ns + `>` + "\n" + `<node client_id="a"><sliver_type name="mainframe"/></node></rspec>`, 1, "some.xml:2:34: error: node \"a\": there is no sliver type \"mainframe\""},
		{"SaidOnce", `<rspec type="request" ` + ns + `><node/></rspec>`, 1, "1 error, 0 warnings"},
		{"Manifest", `<rspec type="manifest" ` + ns + `><node client_id="a" nonsense="1"/></rspec>`, 0, "ok       some.xml: a valid manifest"},
		{"Advertisement", `<rspec type="advertisement" ` + ns + `><node component_id="x"/></rspec>`, 0, "warning: <node> "},
		{"UnknownType", `<rspec type="wish" ` + ns + `/>`, 1, `some.xml:1:8: error: the rspec has type "wish"`},
		{"NoNamespace", `<rspec type="request"><node client_id="a"/></rspec>`, 1, "some.xml:1:1: error: the rspec is in no namespace; add xmlns=\"http://www.geni.net/resources/rspec/3\"\n     1 | <rspec type=\"request\"><node client_id=\"a\"/></rspec>\n       | ^\nsome.xml: 1 error, 0 warnings"},
		{"NoRSpec", `<html/>`, 1, "some.xml:1:1: error: the document is a <html>"},
		{"NotWellFormed", "<rspec>\n<node>\n</rspec>", 1, "some.xml:3:1: error: "},
		{"Good", demoRequest, 0, "3 nodes and 1 link for this site"},
		{"SomebodyElses", `<rspec type="request" ` + ns + `><node client_id="a" component_manager_id="urn:publicid:IDN+other.example.org+authority+cm"/></rspec>`, 1, "urn:publicid:IDN+testbed.example.org+authority+cm"},
		{"TwiceTheSameName", `<rspec type="request" ` + ns + ">\n<node client_id=\"a\"/>\n<node client_id=\"a\"/></rspec>", 1, "some.xml:3:7: "},
		{"OldVersion", `<rspec type="request" xmlns="http://www.protogeni.net/resources/rspec/2"/>`, 1, "GENI version 3"},
		{"ByteOrderMark", "\ufeff<rspec type=\"request\" " + ns + "><node/></rspec>", 1, "some.xml:1:69: error: "},
		{"ControlCharactersAreNotPrinted", `<rspec type="request" ` + ns + `><node client_id="a&#x85;" exclusive="&#x9b;31m"/></rspec>`, 1, "error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out := checkDocument(t, dir, c.text)
			if code != c.code {
				t.Errorf("exit status %d, want %d", code, c.code)
			}
			wantTexts(t, out, c.want)
			if strings.ContainsAny(out, "\u0085\u009b") || strings.Contains(out, ": line ") {
				t.Errorf("control characters are printed, or the line twice: %q", out)
			}
		})
	}
}

// TestEachMistakeIsReportedOnce proves that a mistake is reported once, at its place,
// with all slivers that it affects.
func TestEachMistakeIsReportedOnce(t *testing.T) {
	const ns = `xmlns="http://www.geni.net/resources/rspec/3"`
	nodes := func(n int, attrs, in string) (s string) {
		for i := range n {
			s += fmt.Sprintf("<node client_id=\"n%d\" %s>%s</node>\n", i, attrs, in)
		}
		return s
	}
	dir := newSite(t)
	for _, tt := range []struct {
		rule, in string
		want     []string
		not      string
	}{
		{"one unknown sliver type", nodes(25, "", `<sliver_type name="zork"/>`), []string{`some.xml:2:36: error: nodes "n0", "n1"`, `and 15 more: there is no sliver type "zork"`, "some.xml: 1 error, 0 warnings\n"}, "mistake"},
		{"more than there is", nodes(30, "", ""), []string{`"n29": 30 raw-pcs requested, 20 free; 40 vms free`, ": 1 error, "}, "30 |"},
		{"a component_id that is no URN", nodes(1, `component_id="pc1"`, ""), []string{`some.xml:2:22: error: node "n0" has a component_id that is no URN`, ": 1 error, "}, "its component_id"},
		{"wrong in the same way", nodes(3, `exclusive="maybe"`, ""), []string{`some.xml:2:22: error: node "n0" has exclusive="maybe"; write true or false; also at 3:22, 4:22`, ": 1 error, "}, "n1"},
		{"no nodes", `<sliver xmlns="urn:openflow"/>`, []string{"warning: the request has no nodes, only <sliver>; add a <node>", "a valid request, which reserves nothing"}, "fits"},
		{"only a link", `<link client_id="l"/>`, []string{"error: the request has no nodes, only <link>; add a <node>"}, "valid request"},
		{"a whole host", nodes(1, `exclusive="true"`, `<sliver_type name="vm"/>`), []string{`some.xml:2:22: warning: node "n0" has exclusive="true" and would take the whole of vm1 (10 places); remove it`}, "error:"},
		{"no such place for it", nodes(1, "", `<x:blockstore xmlns:x="http://www.protogeni.net/resources/rspec/ext/emulab/1"/>`), []string{"some.xml:2:23: warning: ", "asks for a blockstore"}, "error:"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			_, out := checkDocument(t, dir, `<rspec type="request" `+ns+">\n"+tt.in+"</rspec>")
			wantTexts(t, out, tt.want...)
			if strings.Contains(out, tt.not) {
				t.Errorf("%q is told:\n%s", tt.not, out)
			}
		})
	}
	edit(t, filepath.Join(dir, "inventory.yaml"), "exclusive_on_shared: grant", "exclusive_on_shared: share")
	_, out := checkDocument(t, dir, `<rspec type="request" `+ns+">\n"+nodes(1, `exclusive="true"`, `<sliver_type name="vm"/>`)+"</rspec>")
	wantTexts(t, out, `some.xml:2:22: warning: node "n0": exclusive="true" is not possible here: vm1 is shared`)
}

// TestCheckNamesTheFileAndTheRemedy proves that messages about common typing mistakes
// name the file and what to do.
func TestCheckNamesTheFileAndTheRemedy(t *testing.T) {
	dir, _ := initLocal(t)
	told := func(want ...string) {
		t.Helper()
		_, out := runCommand(t, "check", "--config", dir)
		wantTexts(t, out, want...)
	}
	settings := filepath.Join(dir, "providers", "local.yaml")
	good := readFile(t, settings)
	write(t, settings, good+"\nportss: 1\npublishh: x\n")
	told(`the file has no key "portss"`, `the file has no key "publishh"`, "\n2 errors.\n")
	if err := os.Remove(settings); err != nil {
		t.Fatal(err)
	}
	told("error    "+settings+": there is no such file, so the testbed would run with its defaults", "\n1 error.\n")
	write(t, settings, good)
	config := filepath.Join(dir, "patchbay.yaml")
	before := readFile(t, config)
	edit(t, config, "authority: Testbed-of-Ours.example.org", "authority: bad name")
	write(t, config, readFile(t, config)+"\nlistenn: x\n")
	told("unknown key listenn", `"bad name" cannot be part of a URN`, "\n2 errors.\n")
	write(t, config, before)
	_, out := runCommand(t, "check", filepath.Join(dir, "nofile"))
	wantTexts(t, out, "nofile: there is no such file or folder; ", "\n1 error.\n")
	pem := filepath.Join(t.TempDir(), "x.pem")
	write(t, pem, "-----BEGIN CERTIFICATE-----\nabc\n")
	_, out = runCommand(t, "check", pem)
	wantTexts(t, out, "without END line; it is damaged or cut off; copy the whole file again")
	_, out = runCommand(t, "check", "--config", dir, "--user", "nobody")
	wantTexts(t, out, `there is no user "nobody"; correct the name, or make the user with: `)
	_, out = runCommand(t, "check", "--config", dir, "--user", "urn:x")
	wantTexts(t, out, "--user: malformed URN")
}

// TestProvidersAreAskedAboutRequests proves that check makes a dry run of a request, as
// Allocate does, if a provider supports that.
func TestProvidersAreAskedAboutRequests(t *testing.T) {
	dir := newSite(t)
	settings := filepath.Join(dir, "providers", "simulated.yaml")
	const any = `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3">` + "\n" + `<node client_id="a" exclusive="true"/></rspec>`
	bound := strings.Replace(any, "/></rspec>", ` component_id="urn:publicid:IDN+testbed.example.org+node+pc1"/></rspec>`, 1)
	refuse := func(kind string) string {
		return "components: [{name: pc1, behaviour: refuse, on: [probe], kind: " + kind + "}]\n"
	}
	before := "components: []\n"
	code, out := checkDocument(t, dir, bound)
	if code != 0 {
		t.Error(out)
	}
	wantTexts(t, out, "the request fits when enough resources are free\n")
	edit(t, settings, "probe: false", "probe: true")
	for _, c := range []struct {
		rule, text, behaviour string
		code                  int
		want                  string
	}{
		{"nothing against it", bound, "components: []\n", 0, "the request fits when enough resources are free; a dry run of simulated succeeded\n"},
		{"cannot be made", bound, refuse("unsupported"), 1, `some.xml:2:1: error: node "a": on pc1 it cannot be made: pc1 does not support this request; this refusal is simulated`},
		{"cannot be had now", bound, refuse("forbidden"), 0, `some.xml:2:1: warning: node "a": pc1 is not available: `},
		{"another can", any, refuse("unsupported"), 0, "the request fits when enough resources are free; a dry run of simulated succeeded\n"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			edit(t, settings, before, c.behaviour)
			before = c.behaviour
			code, out := checkDocument(t, dir, c.text)
			if code != c.code {
				t.Errorf("exit status %d, want %d", code, c.code)
			}
			wantTexts(t, out, c.want)
		})
	}
}
