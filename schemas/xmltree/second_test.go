package xmltree

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"

	"patchbay/am/testkit/require"
)

const xmlSpace = "http://www.w3.org/XML/1998/namespace"

// normalized does what XML says and encoding/xml does not: line ends become one
// character in comments and processing instructions, too (XML 1.0, section
// 2.11), and tabs and line ends in attributes become spaces (section 3.3.3). It
// fails where encoding/xml refuses the text.
func normalized(text []byte) ([]byte, error) {
	dec := xml.NewDecoder(bytes.NewReader(text))
	dec.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	out := make([]byte, 0, len(text))
	for {
		from := dec.InputOffset()
		t, err := dec.RawToken()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, errStricter{err}
		}
		raw := text[from:dec.InputOffset()]
		if _, ok := t.(xml.StartElement); !ok {
			out = append(out, bytes.ReplaceAll(bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))...)
			continue
		}
		quote := byte(0)
		for i, c := range raw {
			switch {
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
			case c == quote:
				quote = 0
			case quote != 0 && c == '\r' && raw[i+1] == '\n':
				continue
			case quote != 0 && (c == '\t' || c == '\n' || c == '\r'):
				c = ' '
			}
			out = append(out, c)
		}
	}
}

// ours prints the parts of d that two readers must agree on, a line for each start tag, text, comment,
// processing instruction and end tag.
func ours(d *Doc) []string {
	var out []string
	var walk func(e *Element)
	walk = func(e *Element) {
		line := fmt.Sprintf("<%s {%s}%s", e.Prefix, e.Space, e.Local)
		for _, a := range e.Attrs {
			line += fmt.Sprintf(" %s {%s}%s=%q", a.Prefix, a.Space, a.Local, a.Value)
		}
		out = append(out, line)
		for _, c := range e.Children {
			switch c := c.(type) {
			case *Element:
				walk(c)
			case Text:
				out = append(out, fmt.Sprintf("text %q", string(c)))
			case Comment:
				out = append(out, fmt.Sprintf("comment %q", string(c)))
			case PI:
				out = append(out, fmt.Sprintf("pi %s %q", c.Target, c.Data))
			}
		}
		out = append(out, ">")
	}
	walk(d.Root)
	return out
}

// errStricter means that the second reader refuses the document.
type errStricter struct{ error }

// theirs prints the same for text read by encoding/xml. Its tokens have no resolved namespaces, so they
// are resolved here.
func theirs(text []byte) ([]string, error) {
	dec := xml.NewDecoder(bytes.NewReader(text))
	dec.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	var out []string
	var run strings.Builder
	scopes := []map[string]string{{"xml": xmlSpace}}
	flush := func() {
		if run.Len() > 0 {
			out = append(out, fmt.Sprintf("text %q", run.String()))
			run.Reset()
		}
	}
	for {
		t, err := dec.RawToken()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, errStricter{err}
		}
		inside := len(scopes) > 1
		switch t := t.(type) {
		case xml.StartElement:
			flush()
			scope := map[string]string{}
			for prefix, space := range scopes[len(scopes)-1] {
				scope[prefix] = space
			}
			for _, a := range t.Attr {
				switch {
				case a.Name.Space == "xmlns":
					scope[a.Name.Local] = a.Value
				case a.Name.Space == "" && a.Name.Local == "xmlns":
					scope[""] = a.Value
				}
			}
			line := fmt.Sprintf("<%s {%s}%s", t.Name.Space, scope[t.Name.Space], t.Name.Local)
			for _, a := range t.Attr {
				if a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns" {
					continue
				}
				space := ""
				if a.Name.Space != "" {
					space = scope[a.Name.Space]
				}
				line += fmt.Sprintf(" %s {%s}%s=%q", a.Name.Space, space, a.Name.Local, a.Value)
			}
			out = append(out, line)
			scopes = append(scopes, scope)
		case xml.EndElement:
			flush()
			out = append(out, ">")
			if len(scopes) == 1 {
				return nil, errors.New("an end tag too many")
			}
			scopes = scopes[:len(scopes)-1]
		case xml.CharData:
			if inside {
				run.Write(t)
			}
		case xml.Comment:
			if inside {
				flush()
				out = append(out, fmt.Sprintf("comment %q", string(t)))
			}
		case xml.ProcInst:
			if inside {
				flush()
				out = append(out, fmt.Sprintf("pi %s %q", t.Target, string(t.Inst)))
			}
		case xml.Directive:
			return nil, errors.New("a declaration")
		}
	}
}

// compareReadings compares the two readings of d; agreed is false if the second reader refuses it.
func compareReadings(t testing.TB, d *Doc) (agreed bool) {
	t.Helper()
	var want []string
	text, err := normalized(d.Source)
	if err == nil {
		want, err = theirs(text)
	}
	if _, ok := err.(errStricter); ok {
		return false
	}
	if err != nil {
		t.Fatalf("encoding/xml reads %v in %q", err, d.Source)
	}
	got := ours(d)
	if slices.Equal(got, want) {
		return true
	}
	for i := range max(len(got), len(want)) {
		var a, b string
		if i < len(got) {
			a = got[i]
		}
		if i < len(want) {
			b = want[i]
		}
		if a != b {
			t.Fatalf("item %d: libxml2 reads\n%s\nencoding/xml\n%s\nof %q", i, a, b, d.Source)
		}
	}
	return true
}

// seconds are canonicalizers of goxmldsig by our names.
var seconds = map[Method]dsig.Canonicalizer{
	C14N10:          dsig.MakeC14N10RecCanonicalizer(),
	C14N11:          dsig.MakeC14N11Canonicalizer(),
	ExclusiveC14N10: dsig.MakeC14N10ExclusiveCanonicalizerWithPrefixList(""),
}

// compareCanonical compares the canonical form of the element with that index with that of goxmldsig.
// agreed is false if goxmldsig refuses the document or has a known difference.
func compareCanonical(t testing.TB, d *Doc, m Method, index int) (agreed bool) {
	t.Helper()
	text, err := normalized(d.Source)
	if err != nil {
		return false // etree reads through encoding/xml
	}
	e := d.elements[index]
	got, err := d.Canonical(e, m, nil)
	if err != nil {
		return false
	}
	tree := etree.NewDocument()
	tree.ReadSettings.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	if tree.ReadFromBytes(text) != nil || tree.Root() == nil {
		return false
	}
	root := tree.Root()
	n := -1
	var find func(e *etree.Element) *etree.Element
	find = func(e *etree.Element) *etree.Element {
		if n++; n == index {
			return e
		}
		for _, c := range e.ChildElements() {
			if f := find(c); f != nil {
				return f
			}
		}
		return nil
	}
	theirs := find(root)
	if theirs == nil {
		t.Fatalf("etree has no element %d in %q", index, d.Source)
	}
	for _, k := range knownDifferences {
		if k.applies(m, theirs) {
			return false
		}
	}
	// Inherited declarations are written on a copy first, because the library overwrites
	// nearer declarations with farther ones.
	alone := theirs.Copy()
	for p := theirs.Parent(); p != nil; p = p.Parent() {
		for _, a := range p.Attr {
			declares := a.Space == "xmlns" || a.Space == "" && a.Key == "xmlns"
			inherited := declares || a.Space == "xml" && m != ExclusiveC14N10 && (m != C14N11 || a.Key == "lang" || a.Key == "space")
			if inherited && alone.SelectAttr(a.FullKey()) == nil {
				alone.CreateAttr(a.FullKey(), a.Value)
			}
		}
	}
	want, err := seconds[m].Canonicalize(alone)
	if err != nil {
		return false
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("method %d, element %d of %q\nlibxml2   %q\ngoxmldsig %q", m, index, d.Source, got, want)
	}
	return true
}

// knownDifferences are the known differences to goxmldsig, each with a document and both results.
var knownDifferences = []struct {
	rule    string
	method  Method
	in      string
	libxml2 string
	theirs  string
	// applies reports whether the difference occurs in e, around it or below it.
	applies func(m Method, e *etree.Element) bool
}{
	{
		"goxmldsig repeats an undeclared default namespace where nothing is to be undeclared (Exclusive C14N, section 3, rule 3.2)",
		ExclusiveC14N10, `<p:a xmlns:p="u:u" xmlns=""><b/></p:a>`,
		`<p:a xmlns:p="u:u"><b></b></p:a>`, `<p:a xmlns:p="u:u"><b xmlns=""></b></p:a>`,
		func(m Method, e *etree.Element) bool { return m == ExclusiveC14N10 && near(e, undeclares) },
	},
}

// near reports whether f is true for e, an element around it, or one below it.
func near(e *etree.Element, f func(*etree.Element) bool) bool {
	for p := e.Parent(); p != nil; p = p.Parent() {
		if f(p) {
			return true
		}
	}
	var below func(e *etree.Element) bool
	below = func(e *etree.Element) bool { return f(e) || slices.ContainsFunc(e.ChildElements(), below) }
	return below(e)
}

func undeclares(e *etree.Element) bool {
	return slices.ContainsFunc(e.Attr, func(a etree.Attr) bool { return a.Space == "" && a.Key == "xmlns" && a.Value == "" })
}

// TestKnownDifferences fails if a difference no longer exists or has changed.
func TestKnownDifferences(t *testing.T) {
	for _, k := range knownDifferences {
		tree := etree.NewDocument()
		if err := tree.ReadFromString(k.in); err != nil {
			t.Fatal(err)
		}
		if !k.applies(k.method, tree.Root()) {
			t.Errorf("%s: does not apply to its own example", k.rule)
		}
		theirs, err := seconds[k.method].Canonicalize(tree.Root())
		if err != nil || string(theirs) != k.theirs {
			t.Errorf("%s: goxmldsig gives %s, %v", k.rule, theirs, err)
		}
		if err := Parse([]byte(k.in), Limits{}, func(d *Doc) error {
			got, err := d.Canonical(d.Root, k.method, nil)
			if string(got) != k.libxml2 {
				t.Errorf("%s: libxml2 gives %s", k.rule, got)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}

var secondReadings = append([]string{
	"<a xmlns='u:u' xmlns:p='u:v' p:x='&lt;1' y=\"a&#10;\tb\"><p:b>t<![CDATA[x]]>]]&gt;<!-- c --><?p d?></p:b><c xmlns=''/></a>",
	"\xef\xbb\xbf\n<?xml version='1.1' encoding='UTF-8'?><a>&#233;\u00e9&#x1F600;</a><!-- after --><?x?>",
	"<a b='1>2' c=\"x'y\"></a ><!-- > -->",
	"<p:a xmlns:p='u:u' xmlns:q='u:u'><q:a p:x='' xml:lang='de' xml:id='i'><b xml:space='preserve'/></q:a></p:a>",
	"<a>1\r\n2\r3&#13;<b c='1\r\n2&#13;&#9;'/></a>",
	"<signed-credential xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance' xsi:schemaLocation='http://x y'><credential xml:id='ref0'><owner_urn>urn:publicid:IDN+a:b+user+c</owner_urn></credential><signatures><Signature xmlns='http://www.w3.org/2000/09/xmldsig#' xml:id='Sig_ref0'/></signatures></signed-credential>",
	"<a xmlns:b='u:1'><c xmlns:b='u:2' b:d=''/><b:c b:e='' e=''/></a>",
}, secondOpinions...)

// addDocuments adds our documents and small documents of the corpus, if it exists, as seeds. Large
// ones only slow a fuzzer down.
func addDocuments(f *testing.F) {
	for _, in := range secondReadings {
		f.Add([]byte(in))
	}
	dir := os.Getenv("PATCHBAY_CORPUS")
	if dir == "" {
		return
	}
	for _, pattern := range []string{"corpus/rspecs/request/*", "captures/*/*.xml"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && len(text) < 1<<10 {
				f.Add(text)
			}
		}
	}
}

// FuzzReading compares everything that libxml2 and encoding/xml read: names with namespaces, values,
// texts and their order.
func FuzzReading(f *testing.F) {
	addDocuments(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = Parse(b, Limits{Bytes: 1 << 16}, func(d *Doc) error {
			compareReadings(t, d)
			return nil
		})
	})
}

// FuzzCanonical compares the canonical forms of the first elements, by each method, with those of
// goxmldsig, which takes long for large documents.
func FuzzCanonical(f *testing.F) {
	addDocuments(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = Parse(b, Limits{Bytes: 4 << 10}, func(d *Doc) error {
			for m := range seconds {
				for i := 0; i < min(len(d.elements), 8); i++ {
					compareCanonical(t, d, m, i)
				}
			}
			return nil
		})
	})
}

// TestCorpusIsReadAlike compares the readers for real documents and counts how many they agree on.
func TestCorpusIsReadAlike(t *testing.T) {
	dir := require.Shared(t)
	var read, agreed, octets, same int
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(file string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		_ = Parse(text, Limits{}, func(d *Doc) error {
			read++
			if compareReadings(t, d) {
				agreed++
			}
			if len(text) > 2<<10 {
				return nil // goxmldsig takes a hundred times as long
			}
			for m := range seconds {
				for _, i := range []int{0, len(d.elements) / 2, len(d.elements) - 1} {
					octets++
					if compareCanonical(t, d, m, i) {
						same++
					}
				}
			}
			return nil
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d documents, %d read alike, the others refused by encoding/xml; %d canonical forms of small ones, %d compared", read, agreed, octets, same)
	if read < 600 || agreed < read-5 || octets < 500 || same < octets*9/10 {
		t.Errorf("%d of %d documents and %d of %d canonical forms were compared", agreed, read, same, octets)
	}
}
