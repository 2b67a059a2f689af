package faithful_test

import (
	"bytes"
	"slices"
	"testing"

	"patchbay/am/urn"
	"patchbay/rspec"
)

// FuzzSplice reads arbitrary bytes, or, with a seed, what the generator makes of
// them. Whatever is taken for a request gets a
// manifest that is well-formed, differs only where a rule allows it, keeps the
// client_ids, and stays as it is when it is sent back.
func FuzzSplice(f *testing.F) {
	for _, b := range nasty(f) {
		f.Add(b, uint64(0))
		f.Add(b, uint64(1))
	}
	head := `<rspec xmlns="` + core + `" type="request">`
	for _, text := range []string{
		`<node client_id="a"><services><login/> <login/></services><interface client_id="i" sliver_id="x"/></node><link client_id="l"><interface_ref client_id="i"/></link>`,
		`<node client_id='a' ><services/><sliver_type/></node ><!-- --><?p?>`,
		`<node client_id="a" component_manager_id="urn:publicid:IDN+elsewhere.example.net+authority+cm" sliver_id="x"><host/></node>`,
		`<link></link>`, // nothing here is for us
		"<node\r\n client_id=\"a\"\t>\r\n<host/>\r\n</node>\r\n",
		`<x:node xmlns:x="` + core + `" client_id="&#97;"><x:services><p xmlns="urn:x"><![CDATA[]]]]><![CDATA[>]]></p></x:services></x:node>`,
	} {
		f.Add([]byte(head+text+"</rspec>"), uint64(0))
	}
	managers := []urn.URN{manager}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		if len(b) > 20000 {
			return
		}
		if d, err := parse(b); err == nil && seed > 0 {
			b = perturb(d, seed)
		}
		r, err := rspec.ParseRequest(bytes.Clone(b), rspec.ReadOptions{Managers: managers})
		if err != nil {
			return
		}
		d, err := parse(b)
		if err != nil {
			t.Fatalf("was read, and is not well-formed: %v\n%q", err, b)
		}
		if _, wrong := expected(d, managers, nil); wrong != nil {
			t.Fatalf("%v\n%q", wrong, b)
		}
		view := read(d, managers)
		var want, got []string
		for _, n := range view.nodes {
			want = append(want, n.get("client_id"))
		}
		for _, n := range r.Nodes {
			got = append(got, n.ClientID)
		}
		if !slices.Equal(want, got) {
			t.Fatalf("own nodes are %q and should be %q\n%q", got, want, b)
		}
		s := generous(view, 0)
		m, err := rspec.WriteManifest([]rspec.Part{s.part(r)}, s.o)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := compare(b, m, managers, s); len(wrong) > 0 {
			t.Fatalf("%q\n%q", wrong, b)
		}
		if _, err := tokens(string(m)); err != nil {
			t.Fatalf("%v\n%s", err, m)
		}
		passes(t, "the document", b, managers)
		inASCII(t, "the document", b, managers)
	})
}
