package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/am/testkit/program"
)

// checkDocument runs check on one document, and returns its exit status and output
// without the folder of the file.
func checkDocument(t *testing.T, config, text string) (code int, out string) {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "some.xml")
	program.Write(t, file, text)
	code, out = runCommand(t, "check", "--config", config, file)
	return code, strings.ReplaceAll(out, folder+"/", "")
}

func TestCheckReportsLikeACompiler(t *testing.T) {
	code, out := checkDocument(t, program.NewSite(t), `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">
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
	dir := program.NewSite(t)
	for _, c := range []struct {
		name, text string
		code       int
		want       string
	}{
		{"ToleratedIsAWarning", `<rspec type="request" ` + ns + `><node client_id="a" x="1"/></rspec>`, 0, "1 warning\nok "},
		{"RefusedBySite", `<rspec type="request" ` + ns + `>` + "\n" + `<node client_id="a"><sliver_type name="mainframe"/></node></rspec>`, 1, "some.xml:2:34: error: node \"a\": there is no sliver type \"mainframe\""},
		{"NoRSpec", `<html/>`, 1, "some.xml:1:1: error: the document is a <html>"},
		{"Good", program.ReadFile(t, "experimenter/testdata/demo.xml"), 0, "3 nodes and 1 link for this site"},
		{"ByteOrderMark", "\ufeff<rspec type=\"request\" " + ns + "><node/></rspec>", 1, "some.xml:1:69: error: "},
		{"ControlCharactersAreNotPrinted", `<rspec type="request" ` + ns + `><node client_id="a&#x85;" exclusive="&#x9b;31m"/></rspec>`, 1, "error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out := checkDocument(t, dir, c.text)
			if code != c.code {
				t.Errorf("exit status %d, want %d", code, c.code)
			}
			program.WantTexts(t, out, c.want)
			if strings.ContainsAny(out, "\u0085\u009b") || strings.Contains(out, ": line ") {
				t.Errorf("control characters are printed, or the line twice: %q", out)
			}
		})
	}
}

// TestProvidersAreAskedAboutRequests proves that check makes a dry run of a request, as
// Allocate does, if a provider supports that.
func TestProvidersAreAskedAboutRequests(t *testing.T) {
	dir := program.NewSite(t)
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
	program.WantTexts(t, out, "the request fits when enough resources are free\n")
	program.Edit(t, settings, "probe: false", "probe: true")
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
			program.Edit(t, settings, before, c.behaviour)
			before = c.behaviour
			code, out := checkDocument(t, dir, c.text)
			if code != c.code {
				t.Errorf("exit status %d, want %d", code, c.code)
			}
			program.WantTexts(t, out, c.want)
		})
	}
}
