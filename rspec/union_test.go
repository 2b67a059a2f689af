package rspec

import (
	"fmt"
	"strings"
	"testing"
)

// own is the part of a request all of whose own nodes have facts.
func own(t *testing.T, in string) Part {
	return part(mustParse(t, []byte(in), ours()), facts)
}

func TestUnionUnderAnEmptyRoot(t *testing.T) {
	a := own(t, "<p:rspec type='request' xmlns:p='"+Namespace+"'/>")
	b := own(t, "<rspec type='request' xmlns='"+Namespace+"'><node client_id='b'/></rspec>")
	got := mustWrite(t, options(), a, b)
	if !strings.HasSuffix(got, "</p:rspec>") {
		t.Error(got)
	}
	if r := mustParse(t, []byte(asRequest(got)), ours()); len(r.Nodes) != 1 {
		t.Errorf("%d nodes in %s", len(r.Nodes), got)
	}
}

// TestUnionKeepsMeaning checks that each element has the same meaning under the common root as
// under its own.
func TestUnionKeepsMeaning(t *testing.T) {
	roots := []string{
		`<rspec type="request" xmlns="` + Namespace + `" xmlns:p="urn:1">`,
		`<rspec type="request" xmlns="` + Namespace + `" xmlns:p="urn:2" xmlns:q="urn:&lt;1&gt;">`,
		`<r:rspec type="request" xmlns:r="` + Namespace + `" xmlns:p="urn:1" xmlns:q="urn:3">`,
		`<r:rspec type="request" xmlns:r="` + Namespace + `" xmlns="urn:4">`,
	}
	content := []string{
		`<node client_id="ID"/><p:x p:y="1" z="2"><none/></p:x>`,
		`<node client_id="ID" /><q:x/><p:x p:y="1"/><p:z xmlns:p="urn:own"/><node client_id="f" component_manager_id="` + them + `"/>`,
		`<r:node client_id='ID'/><none><none xmlns="urn:own"/></none><q:x/>`,
		`<r:node client_id='ID'/><none/><e xmlns=""><none/></e><n client_id="ID"/>`,
	}
	// names lists the expanded names below the root, of elements and attributes.
	names := func(r *Request) map[string]int {
		n := map[string]int{}
		for _, e := range r.doc.elements[1:] {
			n["{"+e.Space+"}"+e.Local]++
			for _, a := range e.Attrs {
				n["@{"+a.Space+"}"+a.Local]++
			}
		}
		return n
	}
	for i := range roots {
		for j := range roots {
			if i == j {
				continue
			}
			var parts []Part
			want := map[string]int{}
			for n, k := range []int{i, j} {
				end := "</rspec>"
				if strings.HasPrefix(roots[k], "<r:") {
					end = "</r:rspec>"
				}
				p := own(t, roots[k]+strings.ReplaceAll(content[k], "ID", string(rune('a'+n)))+end)
				alone := mustWrite(t, options(), p)
				for name, count := range names(mustParse(t, []byte(asRequest(alone)), ours())) {
					want[name] += count
				}
				parts = append(parts, p)
			}
			got := mustWrite(t, options(), parts...)
			have := names(mustParse(t, []byte(asRequest(got)), ours()))
			for name, count := range want {
				if have[name] != count {
					t.Errorf("roots %d and %d: %d of %s, want %d\n%s", i, j, have[name], name, count, got)
				}
			}
			if len(have) != len(want) {
				t.Errorf("roots %d and %d: names %v, want %v", i, j, have, want)
			}
		}
	}
}

func TestUnionKeepsExtensionsWithOnePrefixApart(t *testing.T) {
	root := func(uri string) string {
		return `<rspec type="request" xmlns="` + Namespace + `" xmlns:p="` + uri + `"><p:x/><y xmlns="urn:y"/></rspec>`
	}
	got := mustWrite(t, options(), own(t, root("urn:1")), own(t, root("urn:2")), own(t, root("urn:1")))
	if strings.Count(got, "<p:x") != 2 || strings.Count(got, `<y xmlns="urn:y"/>`) != 1 {
		t.Error(got)
	}
}

func TestUnionDeclaresNamespacesOnce(t *testing.T) {
	root := func(spaces, content string) Part {
		return own(t, `<rspec type="request" xmlns="`+Namespace+`"`+spaces+`>`+content+`</rspec>`)
	}
	got := mustWrite(t, options(), root(` xmlns:p="urn:1"`, `<p:x/>`), root(` xmlns:p="urn:2" xmlns:q="urn:3"`, `<q:x/><q:y/><p:x/>`), root(` xmlns:q="urn:3"`, `<q:z/>`))
	if strings.Count(got, `xmlns:q=`) != 1 || strings.Count(got, `xmlns:p="urn:2"`) != 1 || !strings.Contains(got, `<q:x/><q:y/><p:x xmlns:p="urn:2"/><q:z/>`) {
		t.Error(got)
	}
}

// TestUnionRootIsBounded joins requests with many different roots. The common root stays small
// enough to be read again, and other prefixes are declared where they are used.
func TestUnionRootIsBounded(t *testing.T) {
	var parts []Part
	for k := range 10 {
		var root, content strings.Builder
		for i := range 20 {
			fmt.Fprintf(&root, ` xmlns:p%d-%d="urn:%d:%d" p%d-%d:a="1"`, k, i, k, i, k, i)
			fmt.Fprintf(&content, "<p%d-%d:x/>", k, i)
		}
		parts = append(parts, own(t, `<rspec type="request" xmlns="`+Namespace+`"`+root.String()+`>`+content.String()+`</rspec>`))
	}
	got := mustWrite(t, options(), parts...)
	r := mustParse(t, []byte(asRequest(got)), ours())
	for k := range 10 {
		for i := range 20 {
			if e := r.doc.elements[1+20*k+i]; e.Space != fmt.Sprintf("urn:%d:%d", k, i) {
				t.Fatalf("element %d of part %d is in %s", i, k, e.Space)
			}
		}
	}
	if n := len(r.doc.elements[0].Attrs); n < 25 || n > 90 {
		t.Errorf("the root has %d attributes", n)
	}
}

// TestUnionOfOddRoots joins roots with unusual prefixes, quotes and attributes.
func TestUnionOfOddRoots(t *testing.T) {
	a := own(t, `<r:rspec xmlns:r="`+Namespace+`" type='request' />`)
	for rule, tt := range map[string]struct{ in, want string }{
		"the namespace of an attribute is bound already": {`<rspec xmlns="` + Namespace + `" xmlns:s="` + Namespace + `" type="request" s:a="1"/>`, ` s:a="1"`},
		"quotes stay":                       {`<rspec xmlns="` + Namespace + `" type="request" a='"'/>`, ` a='"'`},
		"unprefixed attributes":             {`<rspec xmlns="` + Namespace + `" type="request" valid_until="x"/>`, ` valid_until="x"`},
		"xml:id is no inheritance":          {`<rspec xmlns="` + Namespace + `" type="request" xml:id="x"><y xmlns="urn:y"/></rspec>`, ` xml:id="x"`},
		"a conflicting prefix of attribute": {`<s:rspec xmlns:s="` + Namespace + `" xmlns:r="urn:r" type="request" r:a="1"/>`, ` xmlns:r1="urn:r" r1:a="1"`},
	} {
		got := mustWrite(t, options(), a, own(t, tt.in))
		if !strings.Contains(got, tt.want) || strings.Count(got, tt.want) != 1 {
			t.Errorf("%s: %s", rule, got)
		}
		mustParse(t, []byte(asRequest(got)), ours())
	}
}

// TestMeaning checks when two children of different roots are the same.
func TestMeaning(t *testing.T) {
	first := func(root, child string) fingerprint {
		r := mustParse(t, []byte(`<r:rspec xmlns:r="`+Namespace+`" type="request" `+root+`>`+child+`</r:rspec>`), ours())
		return contentKey(r.doc, r.doc.elements[1])
	}
	for _, tt := range []struct {
		rule, child, a, b string
		same              bool
	}{
		{"equal roots", `<p:x/>`, `xmlns:p="urn:1"`, `xmlns:p='urn:1'`, true},
		{"another meaning of the prefix", `<p:x/>`, `xmlns:p="urn:1"`, `xmlns:p="urn:2"`, false},
		{"of an attribute's prefix", `<x p:a=""/>`, `xmlns:p="urn:1"`, `xmlns:p="urn:2"`, false},
		{"of a prefix in content", `<x>p:y</x>`, `xmlns:p="urn:1"`, `xmlns:p="urn:2"`, false},
		{"of one that is not used", `<x>p</x>`, `xmlns:p="urn:1"`, `xmlns:p="urn:2"`, true},
		{"of one that the child declares", `<p:x xmlns:p="urn:p"/>`, `xmlns:p="urn:1"`, ``, true},
		{"another default", `<x/>`, `xmlns="urn:1"`, ``, false},
		{"another default that is not used", `<x xmlns="urn:x"/>`, `xmlns="urn:1"`, ``, true},
		{"another language", `<x/>`, `xml:lang="de"`, `xml:lang="en"`, false},
		{"other attributes of the root", `<x/>`, `a="1"`, `a="2"`, true},
	} {
		if same := first(tt.a, tt.child) == first(tt.b, tt.child); same != tt.same {
			t.Errorf("%s: same is %v", tt.rule, same)
		}
	}
}

// TestUnionBytes checks that a manifest of several requests is no longer than the sum of their
// UnionBytes, also if its parts must repeat declarations of their roots.
func TestUnionBytes(t *testing.T) {
	root := func(attributes, children string) *Request {
		return mustParse(t, []byte(`<rspec type="request" xmlns="`+Namespace+`" `+attributes+`>`+children+`</rspec>`), ours())
	}
	ends := func(node, attributes string) string { // a node with many interfaces, all on the link l
		var in, refs strings.Builder
		for i := range 200 {
			fmt.Fprintf(&in, `<interface client_id="%s%d"/>`, node, i)
			fmt.Fprintf(&refs, `<interface_ref client_id="%s%d"/>`, node, i)
		}
		return `<node client_id="` + node + `">` + in.String() + `</node><link client_id="l" ` + attributes + `>` + refs.String() + `</link>`
	}
	many := strings.Repeat("<p:x a='q:b'/>\n<f xmlns='urn:f'/>", 200)
	for rule, other := range map[string]*Request{
		"a prefix that means something else": root(`xmlns:p="urn:`+strings.Repeat("x", 500)+`" xmlns:q="urn:&amp;q"`, many),
		"attributes that are inherited":      root(`xml:lang="de" xml:base="http://`+strings.Repeat("b", 300)+`" xml:space="preserve" xmlns:p="urn:1"`, many),
		"nothing in common":                  root(`xmlns:p="urn:1"`, many),
		"a link that joins":                  root(``, ends("n", `n:join="1" xmlns:n="`+netSpace+`"`)),
	} {
		first := root(`xmlns:p="urn:1" xmlns:q="urn:2" xml:lang="en" xml:space="default"`, many+ends("m", ""))
		text, err := WriteManifest([]Part{part(first, facts), part(other, facts)}, options())
		if err != nil {
			t.Fatal(err)
		}
		// The common root takes over declarations and attributes once.
		if most := first.UnionBytes() + other.UnionBytes() + 2000; len(text) > most {
			t.Errorf("%s: the manifest has %d bytes, more than %d", rule, len(text), most)
		}
	}
}

func TestManifestCannotGrowWithoutBounds(t *testing.T) {
	wide := ours()
	wide.Limits.NamespaceBytes = 2 << 20
	own := func(in string) Part { return part(mustParse(t, []byte(in), wide), facts) }
	long := "urn:" + strings.Repeat("x", 1<<20)
	a := own(`<rspec type="request" xmlns="` + Namespace + `" xmlns:p="urn:1"/>`)
	b := own(`<rspec type="request" xmlns="` + Namespace + `" xmlns:p="` + long + `">` + strings.Repeat("<x/> <y/>", 500) + `<p:x/></rspec>`)
	if _, err := WriteManifest([]Part{a, b}, options()); err != nil {
		t.Errorf("a long namespace, needed once: %v", err)
	}
	var many strings.Builder
	for i := range 500 {
		fmt.Fprintf(&many, "<p:x n='%d'/>", i)
	}
	b = own(`<rspec type="request" xmlns="` + Namespace + `" xmlns:p="` + long + `">` + many.String() + `</rspec>`)
	if _, err := WriteManifest([]Part{a, b}, options()); err != ErrTooLarge {
		t.Errorf("namespaces times elements: %v", err)
	}
	key := strings.Repeat("k", 1<<20)
	f := func(i int) NodeFacts { return NodeFacts{Users: []User{{Login: "u", Keys: []string{key}}}} }
	if _, err := WriteManifest([]Part{part(mustParse(t, manyNodes(100), ours()), f)}, options()); err != ErrTooLarge {
		t.Errorf("keys times nodes: %v", err)
	}
}
