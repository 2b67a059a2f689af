package faithful_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/urn"
	"patchbay/rspec"
)

// TestNasty holds the hand-written documents: each is one corner of XML or of
// RSpec, all nodes that name nobody or example.org are ours.
func TestNasty(t *testing.T) {
	all := nasty(t)
	if len(all) < 15 {
		t.Fatalf("only %d documents in testdata", len(all))
	}
	for name, b := range all {
		t.Run(name, func(t *testing.T) {
			if _, _, reasons := held(t, name, b, []urn.URN{manager}); reasons != nil {
				t.Errorf("refused: %q", reasons)
			}
		})
	}
}

// TestCrossLinksAreCopied: no byte of a link between us and others changes, and
// of our node at its end only what would without it.
func TestCrossLinksAreCopied(t *testing.T) {
	b := []byte(`<rspec xmlns="` + core + `" type="request"><node client_id="a"><interface client_id="a:0" sliver_id="stale"/></node>
<node client_id="b" component_manager_id="urn:publicid:IDN+elsewhere.example.net+authority+cm"><interface client_id="b:0" sliver_id="kept"/></node>
<link client_id="l" sliver_id="kept" vlantag="7"><interface_ref client_id="a:0" sliver_id="kept"/><interface_ref client_id="b:0"/></link></rspec>`)
	d, err := parse(b)
	if err != nil {
		t.Fatal(err)
	}
	managers := []urn.URN{manager}
	r, err := rspec.ParseRequest(b, rspec.ReadOptions{Managers: managers, CopyCrossLinks: true})
	if err != nil {
		t.Fatal(err)
	}
	s := generous(read(d, managers), 0)
	s.links["l"] = rspec.LinkFacts{VLANTag: "9"}
	m, err := rspec.WriteManifest([]rspec.Part{s.part(r)}, s.o)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range compare(b, m, managers, s) {
		t.Error(w)
	}
}

// TestWhiteSpaceOfTextIsSeenToGo: what is taken out takes the white space before
// it only where no text ends there, though it ends with a ">".
func TestWhiteSpaceOfTextIsSeenToGo(t *testing.T) {
	managers := []urn.URN{manager}
	for _, tt := range []struct {
		before string
		text   bool
	}{
		{"a >  ", true}, {"<![CDATA[a]]>  ", true}, {"a&gt;  ", true}, {"a<!-- -->  ", false}, {"\n  ", false}, {"<![CDATA[ ]]>  ", false}, {"&#32;<![CDATA[ ]]>  ", false},
	} {
		b := []byte(`<rspec xmlns="` + core + `" type="request"><node client_id="a">` + tt.before + `<host name="h"/></node></rspec>`)
		d, err := parse(b)
		_, m, reasons := held(t, tt.before, b, managers)
		if err != nil || reasons != nil {
			t.Errorf("%q: refused: %v %q", tt.before, err, reasons)
			continue
		}
		if tt.text {
			m = bytes.Replace(m, []byte(tt.before), []byte(strings.TrimRight(tt.before, " ")), 1)
			if len(compare(b, m, managers, generous(read(d, managers), 0))) == 0 {
				t.Errorf("%q: not seen", tt.before)
			}
		}
	}
}

// nasty are the hand-written documents.
func nasty(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/*.xml")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(file)] = b
	}
	return found
}
