package rspec

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
	"patchbay/am/urn"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// corpus is a folder of public documents, one subfolder per kind, and schemas.
func corpus(t testing.TB) string { return require.Shared(t) }

// validate validates a document by a published schema, if it exists.
func validate(t *testing.T, schema, text string) {
	t.Helper()
	dir := os.Getenv("PATCHBAY_CORPUS")
	if _, err := exec.LookPath("xmllint"); err != nil || dir == "" {
		t.Log("not validated: needs xmllint and PATCHBAY_CORPUS")
		return
	}
	for _, finding := range findings(t, dir, schema, map[string]string{"doc": text})["doc"] {
		t.Error(finding)
	}
}

// relaxed are the places where the published schemas refuse common usage.
var relaxed = []string{
	"The attribute 'vlantag' is required but missing",
	"attribute 'ipv4': The attribute 'ipv4' is not allowed",
}

// findings returns the errors of a published schema in documents, by their names, without those in
// relaxed.
func findings(t *testing.T, dir, schema string, texts map[string]string) map[string][]string {
	args := []string{"--nonet", "--noout", "--schema", filepath.Join(dir, "schemas/geni.net_resources_rspec_3", schema)}
	folder := t.TempDir()
	for name, text := range texts {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	out, err := exec.Command("xmllint", args...).CombinedOutput()
	if err == nil {
		return nil
	}
	list := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		file, line, found := strings.Cut(strings.TrimSpace(line), ": element ")
		if found && !slices.ContainsFunc(relaxed, func(r string) bool { return strings.Contains(line, r) }) {
			name, _, _ := strings.Cut(filepath.Base(file), ":")
			list[name] = append(list[name], line)
		}
	}
	return list
}

// requests are the well-formed requests of version 3.
func requests(t testing.TB) map[string][]byte {
	found := map[string][]byte{}
	for _, pattern := range []string{"request/*", "synthetic/*"} {
		files, _ := filepath.Glob(filepath.Join(corpus(t), "corpus/rspecs", pattern))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte(Namespace)) {
				found[filepath.Base(file)] = text
			}
		}
	}
	return found
}

// allOurs reads every node as ours.
func allOurs(text []byte) ReadOptions {
	o := ReadOptions{CopyCrossLinks: true}
	dec := xml.NewDecoder(bytes.NewReader(bytes.Replace(text, []byte(`version="1.1"`), []byte(`version="1.0"`), 1)))
	dec.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	for {
		token, err := dec.Token()
		if err != nil {
			return o
		}
		if e, ok := token.(xml.StartElement); ok {
			for _, a := range e.Attr {
				u, err := urn.Parse(a.Value)
				switch {
				case err != nil:
				case a.Name.Local == "component_manager_id":
					o.Managers = append(o.Managers, u)
				case a.Name.Local == "component_id":
					o.Managers = append(o.Managers, urn.URN{Authority: u.Authority, Type: urn.Authority, Name: "cm"})
				}
			}
		}
	}
}

// TestCorpusManifestsAreValid checks that the manifest of a valid request is valid, by the
// published schemas except for relaxed, and by ours.
func TestCorpusManifestsAreValid(t *testing.T) {
	dir := corpus(t)
	require.Tool(t, "xmllint")
	texts, manifests := map[string]string{}, map[string]string{}
	for name, text := range requests(t) {
		if r, err := ParseRequest(text, allOurs(text)); err == nil {
			texts[name], manifests[name] = string(r.doc.src), mustWrite(t, options(), everything(r))
		}
	}
	before, after := findings(t, dir, "request.xsd", texts), findings(t, dir, "manifest.xsd", manifests)
	for name, list := range after {
		if len(before[name]) == 0 {
			t.Errorf("%s: %q", name, list)
		}
	}
	ours, none := 0, 0
	for name, manifest := range manifests {
		before, err := xmltree.Validate([]byte(texts[name]), schemas.Request, xmltree.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if len(before) > 0 {
			none++
			continue
		}
		ours++
		if after, err := xmltree.Validate([]byte(manifest), schemas.Manifest, xmltree.Limits{}); err != nil || len(after) > 0 {
			t.Errorf("%s, by our schemas: %v, %v", name, after, err)
		}
	}
	t.Logf("by our schemas %d requests are valid, %d not", ours, none)
	t.Logf("%d requests, %d of them not valid; %d manifests not valid", len(texts), len(before), len(after))
}

// TestCorpusUnions joins each real request with the next one. All elements and attributes of both
// keep their meaning.
func TestCorpusUnions(t *testing.T) {
	all := requests(t)
	names := slices.Sorted(maps.Keys(all))
	meanings := func(text string) map[string]int {
		count := map[string]int{}
		err := xmltree.Parse([]byte(text), xmltree.Limits{Namespaces: 1000, Attrs: 1000}, func(d *xmltree.Doc) error {
			var walk func(e *xmltree.Element)
			walk = func(e *xmltree.Element) {
				count["{"+e.Space+"}"+e.Local]++
				for _, a := range e.Attrs {
					if e.Parent != nil && a.Space != xmlSpace {
						count["@{"+a.Space+"}"+a.Local]++
					}
				}
				for c := range childElements(e) {
					walk(c)
				}
			}
			walk(d.Root)
			return nil
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return count
	}
	pairs := 0
	var before *Part
	var was string
	for _, name := range names {
		r, err := ParseRequest(all[name], allOurs(all[name]))
		if err != nil {
			continue
		}
		p := everything(r)
		if before != nil {
			a, b := meanings(mustWrite(t, options(), *before)), meanings(mustWrite(t, options(), p))
			both := meanings(mustWrite(t, options(), *before, p))
			for what, n := range both {
				if n > a[what]+b[what] {
					t.Errorf("%s and %s: %d of %s, which are %d and %d", was, name, n, what, a[what], b[what])
				}
				delete(b, what)
			}
			for what := range b {
				t.Errorf("%s and %s: %s is removed", was, name, what)
			}
			pairs++
		}
		before, was = &p, name
	}
	if pairs < 250 {
		t.Errorf("only %d pairs", pairs)
	}
}

// FuzzRequest checks that the manifest of an accepted request is well-formed and keeps the foreign
// bytes.
func FuzzRequest(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.request.xml")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add(manyNodes(2))
	odd := mustParse(f, []byte("<!-- odd --><odd:rspec xmlns:odd='"+Namespace+"' xmlns='urn:odd' xmlns:e='urn:odd:e' xmlns:ns2='urn:odd:2' type='request' xml:lang='x' e:a='b'>"+
		"<odd:node client_id='odd a'><x e:y='ns2:z'/><odd:interface client_id='odd a:0'/></odd:node><e:x/><node xmlns='"+Namespace+"' client_id='odd b'/>"+
		"<odd:link client_id='odd l'><odd:interface_ref client_id='odd a:0'/></odd:link></odd:rspec><?odd?>"), ours())
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseRequest(text, ours())
		if err != nil {
			if e, ok := errors.AsType[*RequestError](err); !ok || e.Kind == 0 || strings.ContainsAny(e.Error(), "\r\n") {
				t.Fatalf("%T %q", err, err)
			}
			return
		}
		for _, ascii := range []bool{false, true} {
			o := options()
			o.ASCII = ascii
			got := mustWrite(t, o, everything(r))
			again, err := ParseRequest([]byte(asRequest(got)), ours())
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, text, got)
			}
			if !ascii {
				twice := mustWrite(t, o, everything(again))
				second, err := ParseRequest([]byte(asRequest(twice)), ours())
				if err != nil {
					t.Fatalf("%v\n%s", err, twice)
				}
				if thrice := mustWrite(t, o, everything(second)); thrice != twice {
					t.Fatalf("the second pass is not stable\n%s\n%s\n%s", text, twice, thrice)
				}
			}
			if len(again.Nodes) != len(r.Nodes) || len(again.Links) != len(r.Links) || again.Foreign != r.Foreign {
				t.Fatalf("other nodes or links\n%s\n%s", text, got)
			}
			if ascii {
				continue
			}
			rest := got
			for _, e := range r.doc.elements[0].Elements() {
				if isElement(e, "node") && slices.ContainsFunc(r.Nodes, func(n Node) bool { return n.element == e.Index }) || isElement(e, "link") {
					continue
				}
				_, after, found := strings.Cut(rest, string(r.doc.bytes(e)))
				if !found {
					t.Fatalf("foreign bytes changed: %s\n%s", r.doc.bytes(e), got)
				}
				rest = after
			}
			both := mustWrite(t, o, part(r, facts), part(r, facts))
			if len(r.Nodes) == 0 {
				if again, err := ParseRequest([]byte(asRequest(both)), ours()); err != nil || again.Foreign != r.Foreign {
					t.Fatalf("union with itself: %v\n%s", err, both)
				}
			}
			mustWrite(t, o, Part{Request: r})
			if len(r.Nodes) == 0 { // the owner of a link without ends depends on whether there are own nodes
				return
			}
			for _, parts := range [][]Part{{everything(r), everything(odd)}, {everything(odd), everything(r)}} {
				union := mustWrite(t, o, parts...)
				again, err := ParseRequest([]byte(asRequest(union)), ours())
				if err != nil && !strings.Contains(err.Error(), "two ") { // names of both
					t.Fatalf("%v\n%s\n%s", err, text, union)
				}
				if err == nil && (len(again.Nodes) != len(r.Nodes)+2 || len(again.Links) != len(r.Links)+1) {
					t.Fatalf("a union of other nodes or links\n%s\n%s", text, union)
				}
			}
		}
	})
}
