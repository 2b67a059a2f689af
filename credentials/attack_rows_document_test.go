package credentials_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"patchbay/credentials"
	"patchbay/credentials/dsig"
	"patchbay/credentials/rule"
	"patchbay/credentials/testdata/pki"
	"patchbay/schemas/xmltree"
)

// documentAttacks are attacks by the text of the document, before its content is examined.
func documentAttacks(t *testing.T, w *world) []attack {
	doc := w.sliceCredential().Signed(t)
	good := shows(doc)
	edit := func(old, by string) scene { return shows(replace(t, doc, old, by)) }
	// signed signs the changed document with a signer without limits.
	signed := func(old, by string) scene {
		return shows(pki.Forgery{}.Signed(t, replace(t, w.sliceCredential().Unsigned(), old, by), "ref0", w.sa))
	}
	const root, serial = "<signed-credential ", "<serial>8</serial>"
	inside := func(extension string) scene {
		return signed("</credential>", "<extensions>"+extension+"</extensions></credential>")
	}
	key := func(e string) scene { return edit("</KeyInfo>", "<KeyValue>"+e+"</KeyValue></KeyInfo>") } // not signed, not read
	doctype := func(subset string) string { return "<!DOCTYPE signed-credential [" + subset + "]>" + root }
	// an entity whose text was signed: without it the name is another one
	entity := func(subset string) scene {
		return shows(replace(t, replace(t, doc, root, doctype(subset)), "+slice+s1</target_urn>", "+slice+&s;</target_urn>"))
	}
	long := signed(serial, "<serial>"+strings.Repeat("a", 100)+"</serial>")
	// blown replaces the hundred signed letters with references.
	blown := func(references, subset string) scene {
		return long.under(t, strings.Repeat("a", 100), references).under(t, root, doctype(subset))
	}
	named := func(n int) string { return `<x xmlns:n="urn:` + strings.Repeat("n", n-4) + `"/>` }
	limits := dsig.DefaultLimits
	return []attack{
		{22, "DOCTYPE", rule.Doctype, edit(root, "<!DOCTYPE signed-credential>"+root), good},
		{22, "DOCTYPE in lower case", rule.Doctype, edit(root, "<!doctype signed-credential>"+root), good},
		{22, "DOCTYPE of another place, over http", rule.Doctype, edit(root, `<!DOCTYPE s SYSTEM "http://127.0.0.1:1/x.dtd">`+root), good},
		{22, "DOCTYPE of another place, a file", rule.Doctype, edit(root, `<!DOCTYPE s PUBLIC "x" "file:///etc/passwd">`+root), good},
		{22, "external entity, declared", rule.Doctype, edit(root, doctype(`<!ENTITY x SYSTEM "file:///etc/passwd">`)), good},
		{22, "external entity, used", rule.Doctype, edit(serial, "<serial>8&x;</serial>").under(t, root, doctype(`<!ENTITY x SYSTEM "file:///etc/passwd">`)), good},
		{22, "external entity in an attribute", rule.Doctype, edit("<uuid/>", `<uuid a="&x;"/>`).under(t, root, doctype(`<!ENTITY x SYSTEM "http://127.0.0.1:1/">`)), good},
		{22, "parameter entity", rule.Doctype, edit(root, doctype(`<!ENTITY % p SYSTEM "http://127.0.0.1:1/x.dtd">`)), good},
		{22, "parameter entity, used", rule.Doctype, edit(root, doctype(`<!ENTITY % p "<!ENTITY s 's1'>"> %p;`)), good},
		{22, "entity that stands for the slice's name", rule.Doctype, entity(`<!ENTITY s "s1">`), good},
		{22, "entity of entities", rule.Doctype, entity(`<!ENTITY a "s"><!ENTITY s "&a;1">`), good},
		{22, "billion laughs, declared", rule.Doctype, edit(root, doctype(laughs(9))), good},
		{22, "billion laughs", rule.Doctype, edit(serial, "<serial>&a9;</serial>").under(t, root, doctype(laughs(9))), good},
		{22, "quadratic blow-up", rule.Doctype, blown(strings.Repeat("&b;", 10), `<!ENTITY b "`+strings.Repeat("a", 10)+`">`), long},
		{22, "entity that is not declared", rule.Readable, edit(serial, "<serial>&x;</serial>"), good},
		{22, "XInclude beside the credential", rule.Cardinality, edit("<signatures>", `<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="file:///etc/passwd"/><signatures>`),
			inside(`<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="file:///etc/passwd"/>`)},
		{22, "XInclude inside a name", rule.TextOnly, signed("+slice+s1</target_urn>", `+slice+s1<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="file:///etc/passwd" parse="text"/></target_urn>`), good},

		{23, "huge text", rule.Bytes, inside(strings.Repeat("8", credentials.MaxBytes)), inside(strings.Repeat("8", credentials.MaxBytes-20_000))},
		{23, "huge comment", rule.Bytes, edit(root, "<!--"+strings.Repeat("8", credentials.MaxBytes)+"-->"+root), edit(root, "<!--"+strings.Repeat("8", credentials.MaxBytes/2)+"-->"+root)},
		{23, "deep nesting", rule.Depth, inside(strings.Repeat("<x>", limits.Depth) + strings.Repeat("</x>", limits.Depth)),
			inside(strings.Repeat("<x>", limits.Depth-3) + strings.Repeat("</x>", limits.Depth-3))},
		{23, "deeper than libxml2 goes", rule.Depth, edit(serial, strings.Repeat("<x>", 1_000)+strings.Repeat("</x>", 1_000)+serial), good},
		{23, "two thousand attributes", rule.Attributes, inside("<x" + numbered(2_000, ` a%d=""`) + "/>"), inside("<x" + numbered(limits.Attrs, ` a%d=""`) + "/>")},
		{23, "attributes beyond all elements", rule.Attributes, inside(strings.Repeat("<x"+numbered(30, ` a%d=""`)+"/>", 300)), inside(strings.Repeat("<x"+numbered(20, ` a%d=""`)+"/>", 300))},
		{23, "too many elements", rule.Elements, inside(strings.Repeat("<x/>", limits.Elements)), inside(strings.Repeat("<x/>", limits.Elements-100))},
		{23, "too many comments", rule.Elements, inside(strings.Repeat("<!---->", limits.Elements)), inside(strings.Repeat("<!---->", limits.Elements-100))},
		{23, "too many processing instructions", rule.Elements, inside(strings.Repeat("<?x?>", limits.Elements)), inside(strings.Repeat("<?x?>", limits.Elements-100))},
		{23, "too many namespaces", rule.Declarations, inside("<x" + numbered(limits.Namespaces, ` xmlns:n%d="urn:n"`) + "/>"), inside("<x" + numbered(limits.Namespaces-1, ` xmlns:n%d="urn:n"`) + "/>")},
		{23, "namespaces on many levels", rule.Declarations, inside(numbered(limits.Namespaces, `<x xmlns:n%d="urn:n">`) + strings.Repeat("</x>", limits.Namespaces)), inside(numbered(limits.Namespaces-1, `<x xmlns:n%d="urn:n">`) + strings.Repeat("</x>", limits.Namespaces-1))},
		{23, "long name of a namespace", rule.Declarations, inside(named(limits.NamespaceBytes + 1)), inside(named(limits.NamespaceBytes))},
		{23, "name that exclusive canonicalization repeats", rule.Growth, w.repeated(t, 3600), w.repeated(t, 300)},
		{23, "compressed", rule.Readable, shows(compressed(doc)), good},
		{23, "base64 instead of the document", rule.Readable, shows(strings.Repeat("PHNpZ25lZC1jcmVkZW50aWFs", 20_000)), good},

		{26, "prefix that is not declared", rule.Namespaced, key("<x:y/>"), key(`<x:y xmlns:x="urn:x"/>`)},
		{26, "attribute with such a prefix", rule.Namespaced, key(`<y x:a=""/>`), key(`<y xmlns:x="urn:x" x:a=""/>`)},
		{26, "attribute twice under two prefixes", rule.Namespaced, key(`<y xmlns:p="urn:x" xmlns:q="urn:x" p:a="" q:a=""/>`), key(`<y xmlns:p="urn:x" xmlns:q="urn:y" p:a="" q:a=""/>`)},
		{26, "attribute twice", rule.Readable, edit("<uuid/>", `<uuid a="" a=""/>`), good},
		{26, "prefix xml for something else", rule.Namespaced, key(`<y xmlns:xml="urn:x"/>`), key(`<y xmlns:xml="http://www.w3.org/XML/1998/namespace"/>`)},
		{26, "prefix taken back", rule.Namespaced, key(`<y xmlns:p=""/>`), key(`<y xmlns=""/>`)},
		{26, "namespace with a relative name", rule.Readable, edit("<uuid/>", `<uuid xmlns:p="x"/>`), good},

		{27, "UTF-16 declared", rule.Encoding, edit("utf-8", "UTF-16"), edit("utf-8", "US-ASCII")},
		{27, "ISO-8859-1 declared", rule.Encoding, edit("utf-8", "ISO-8859-1"), edit("utf-8", "UTF-8")},
		{27, "UTF-7 declared", rule.Encoding, edit("utf-8", "UTF-7"), edit("utf-8", "uTF8")},
		{27, "EBCDIC declared", rule.Encoding, edit("utf-8", "IBM037"), edit(`encoding="utf-8"`, "")},
		{27, "UTF-16 with a mark", rule.Readable, shows("\xff\xfe" + wide(doc)), shows("\ufeff" + doc)},
		{27, "UTF-16 without a mark", rule.Readable, shows(wide(doc)), good},
		{27, "byte that is not UTF-8", rule.Readable, edit(serial, "<serial>\xe9</serial>"), signed(serial, "<serial>é</serial>")},
		{27, "overlong UTF-8", rule.Readable, edit(serial, "<serial>\xc0\xb8</serial>"), good},
		{27, "half of a surrogate in UTF-8", rule.Readable, edit(serial, "<serial>\xed\xa0\x80</serial>"), good},
		{27, "NUL", rule.Readable, edit(serial, "<serial>8\x00</serial>"), good},
		{27, "NUL by reference", rule.Readable, edit(serial, "<serial>8&#0;</serial>"), good},

		{28, "second root", rule.OneRoot, shows(doc + "<signed-credential/>"), shows(doc + "<!-- c -->")},
		{28, "second document", rule.OneRoot, shows(doc + strings.TrimPrefix(doc, `<?xml version="1.0" encoding="utf-8"?>`)), shows(doc + "\n")},
		{28, "trailing text", rule.OneRoot, shows(doc + "x"), shows(doc + "<?x y?>")},
		{28, "second declaration", rule.Readable, shows(doc + `<?xml version="1.0"?>`), good},
		{28, "text in front", rule.Readable, shows("x" + doc), shows("\n " + doc)},
		{28, "document cut short", rule.Readable, shows(doc[:len(doc)-1]), good},
	}
}

// under changes the document of a scene once more.
func (s scene) under(t testing.TB, old, by string) scene {
	s.documents = sfa(replace(t, s.documents[0].Text, old, by))
	return s
}

// laughs are entities that expand to 10^n letters.
func laughs(n int) string {
	s := `<!ENTITY a0 "a">`
	for i := range n {
		s += fmt.Sprintf(`<!ENTITY a%d "%s">`, i+1, strings.Repeat(fmt.Sprintf("&a%d;", i), 10))
	}
	return s
}

func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// repeated is a credential whose canonical form has a namespace n times, and the document once.
func (w *world) repeated(t testing.TB, n int) scene {
	doc := w.sliceCredential().Unsigned()
	doc = replace(t, doc, "</credential>", `<extensions xmlns:n="urn:`+strings.Repeat("n", 240)+`">`+strings.Repeat("<n:x/>", n)+"</extensions></credential>")
	return shows(pki.Forgery{Method: xmltree.ExclusiveC14N10, Edit: func(s string) string {
		return replace(t, s, "</Transforms>", `<Transform Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"/></Transforms>`)
	}}.Signed(t, doc, "ref0", w.sa))
}

func compressed(doc string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(doc))
	_ = z.Close()
	return b.String()
}

// wide is ASCII in UTF-16.
func wide(doc string) string {
	var b strings.Builder
	for _, c := range []byte(doc) {
		b.WriteByte(c)
		b.WriteByte(0)
	}
	return b.String()
}
