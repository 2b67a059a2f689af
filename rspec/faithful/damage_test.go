package faithful_test

import (
	"slices"
	"testing"

	"patchbay/am/urn"
	"patchbay/rspec"
)

// TestDamageIsSeen changes one byte after the other of a right manifest, only
// where the request's own bytes are. No change may go unseen, or the other
// tests of this package prove nothing.
func TestDamageIsSeen(t *testing.T) {
	t.Parallel()
	request := []byte(`<?xml version='1.0'?>
<!-- before --><rspec type = "request" xmlns="` + core + `" xmlns:x='urn:x' xmlns:i="` + instance + `"
	i:schemaLocation="` + core + ` ` + rspec.RequestSchema + `">
  <node client_id='a' exclusive="1" x:sliver_id="its own"><services ><install url="http://example.org/&#97;" install_path="/"/></services>
    <sliver_type name="vm"/> <x:ext k='>'>text &amp; <![CDATA[<raw>]]><y xmlns=""/></x:ext><interface client_id="a:0"/></node>
  <node client_id="b" component_manager_id="urn:publicid:IDN+elsewhere.example.net+authority+cm" sliver_id="theirs"><host name="h"/><interface client_id="b:0" /></node>
  <link client_id="l" ><interface_ref client_id="a:0"></interface_ref></link><?pi pi?>
  <link client_id="m"><interface_ref client_id="b:0"/></link>
</rspec>
`)
	managers := []urn.URN{manager}
	r, err := rspec.ParseRequest(request, rspec.ReadOptions{Managers: managers})
	if err != nil {
		t.Fatal(err)
	}
	in, err := parse(request)
	if err != nil {
		t.Fatal(err)
	}
	s := generous(read(in, managers), 0)
	manifest, err := rspec.WriteManifest([]rspec.Part{s.part(r)}, s.o)
	if err != nil {
		t.Fatal(err)
	}
	if wrong := compare(request, manifest, managers, s); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	out, err := parse(manifest)
	if err != nil {
		t.Fatal(err)
	}
	edits, err := diff(in, out, false)
	if err != nil {
		t.Fatal(err)
	}
	tried, well := 0, 0
	for i, c := range manifest {
		if slices.ContainsFunc(edits, func(e edit) bool { return e.mat <= i && i < e.mat+len(e.new) }) {
			continue
		}
		other := byte('x')
		if c == 'x' {
			other = 'y'
		}
		kinds := []string{"", string(c) + string(c), string(other), string(c) + " "}
		for _, with := range kinds[2*(i%2):][:2] {
			damaged := slices.Concat(manifest[:i], []byte(with), manifest[i+1:])
			tried++
			if _, err := parse(damaged); err == nil {
				well++
			}
			if len(compare(request, damaged, managers, s)) == 0 {
				t.Errorf("byte %d: %q became %q, and nobody sees it: %q", i, c, with, damaged[max(0, i-30):i+30])
			}
		}
	}
	t.Logf("%d changes, %d of them well-formed", tried, well)
}
