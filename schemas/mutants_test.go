package schemas_test

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"testing"

	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// names are local names of the core, and some that are invalid everywhere.
var names = strings.Fields(`rspec node link external_ref type_relation hardware_type sliver_type disk_image available location
	interface ip monitoring services login install execute user host relation cloud component_manager component_hop
	interface_ref link_type link_class property metric zork`)

// element is a small tree that can be changed and printed.
type element struct {
	space, local string
	attrs        []xmltree.Attr
	children     []any // *element or string
}

// copied is a copy of e as deep as depth.
func copied(e *xmltree.Element, depth int) *element {
	c := &element{e.Space, e.Local, slices.Clone(e.Attrs), nil}
	for _, n := range e.Children {
		switch n := n.(type) {
		case *xmltree.Element:
			if depth > 0 {
				c.children = append(c.children, copied(n, depth-1))
			}
		case xmltree.Text:
			c.children = append(c.children, string(n))
		}
	}
	return c
}

func (e *element) print(b *strings.Builder) {
	fmt.Fprintf(b, "<%s xmlns=%q", e.local, e.space)
	for i, a := range e.attrs {
		name := a.Local
		switch {
		case a.Prefix == "xml":
			name = "xml:" + a.Local
		case a.Space != "":
			fmt.Fprintf(b, " xmlns:a%d=\"", i)
			_ = xml.EscapeText(b, []byte(a.Space))
			b.WriteByte('"')
			name = fmt.Sprintf("a%d:%s", i, a.Local)
		}
		fmt.Fprintf(b, " %s=\"", name)
		_ = xml.EscapeText(b, []byte(a.Value))
		b.WriteByte('"')
	}
	b.WriteString(">\n")
	for _, c := range e.children {
		switch c := c.(type) {
		case *element:
			c.print(b)
		case string:
			_ = xml.EscapeText(b, []byte(c))
		}
	}
	fmt.Fprintf(b, "</%s>\n", e.local)
}

// mutations returns copies of e with one change each.
func mutations(e *element) map[string]*element {
	all := make(map[string]*element)
	change := func(what string, f func(c *element)) {
		c := *e
		c.attrs, c.children = slices.Clone(e.attrs), slices.Clone(e.children)
		f(&c)
		all[what] = &c
	}
	change("as it is", func(*element) {})
	for i, a := range e.attrs {
		change("without "+a.Local, func(c *element) { c.attrs = slices.Delete(c.attrs, i, i+1) })
		values := []string{"", "maybe", " true ", "1"}
		if e.space != schemas.Namespace || e.local == "rspec" {
			values = append(values, "-0.5", "2030-01-02T03:04:05Z")
		}
		for _, v := range values {
			change(fmt.Sprintf("%s=%q", a.Local, v), func(c *element) { c.attrs[i].Value = v })
		}
		change("foreign "+a.Local, func(c *element) { c.attrs[i].Space = "http://www.example.org/x" })
	}
	children, others := names, strings.Fields("rspec node link interface login user host zork")
	attributes := strings.Fields("zork default ipv4 vlantag sliver_id component_id client_id name type")
	if e.space != schemas.Namespace { // few, because all names of the core are equally foreign here
		children, others, attributes = strings.Fields("node available metric"), strings.Fields("link zork"), strings.Fields("zork name")
	}
	for _, name := range attributes {
		if !slices.ContainsFunc(e.attrs, func(a xmltree.Attr) bool { return a.Local == name }) {
			change("with "+name, func(c *element) {
				c.attrs = append(c.attrs, xmltree.Attr{Name: xmltree.Name{Local: name}, Value: "true"})
			})
		}
	}
	change("with a foreign attribute", func(c *element) {
		c.attrs = append(c.attrs, xmltree.Attr{Name: xmltree.Name{Space: "http://www.example.org/x", Local: "y"}, Value: "1"})
	})
	change("with text", func(c *element) { c.children = append([]any{"text"}, c.children...) })
	change("empty", func(c *element) { c.children = nil })
	for _, name := range children {
		change("with a "+name, func(c *element) {
			c.children = append(c.children, &element{schemas.Namespace, name, nil, nil})
		})
	}
	for _, name := range others {
		change("renamed "+name, func(c *element) { c.local = name })
	}
	for what, space := range map[string]string{"of its own": e.space, "of none": "", "of another": "http://www.example.org/x"} {
		change("with a zork "+what, func(c *element) { c.children = append(c.children, &element{space, "zork", nil, nil}) })
	}
	change("of no namespace", func(c *element) { c.space = "" })
	change("of the core", func(c *element) { c.space = schemas.Namespace })
	all["wrapped"] = &element{"http://www.example.org/x", "wrap", nil, []any{e}}
	all["wrapped twice"] = &element{"http://www.example.org/x", "wrap", nil, []any{&element{"", "wrap", nil, []any{e}}}}
	return all
}

// mutants are small documents with one element of the corpus, changed in one
// way, inside the elements that it was found in: for each place the element with
// most attributes.
func mutants(t *testing.T, docs []document) []document {
	t.Helper()
	hasSchema := make(map[string]bool) // by namespace
	for _, k := range schemas.Kinds() {
		for space := range importsOf(t, k) {
			hasSchema[space] = true
		}
	}
	richest := make(map[string]*xmltree.Element)
	for _, d := range docs {
		var root *xmltree.Element
		_ = xmltree.Parse(d.text, xmltree.Limits{}, func(doc *xmltree.Doc) error { root = doc.Root; return nil })
		value, _ := root.Attr("", "type")
		if root.Space != schemas.Namespace || xmltree.Core(schemas.Kind(value)) == nil {
			continue
		}
		var walk func(e *xmltree.Element, way string)
		walk = func(e *xmltree.Element, way string) {
			way += "/" + e.Local
			if strings.Count(way, "/") > 8 {
				return
			}
			place := e.Space + " " + way
			if e.Space != schemas.Namespace && e.Parent != nil && e.Parent.Space == e.Space {
				// Inside an extension only the next element matters.
				place = e.Space + " " + value + "/…/" + e.Parent.Local + "/" + e.Local
			}
			if hasSchema[e.Space] && (richest[place] == nil || len(richest[place].Attrs) < len(e.Attrs)) {
				richest[place] = e
			}
			for _, c := range e.Elements() {
				walk(c, way)
			}
		}
		walk(root, value)
	}
	var out []document
	for place, e := range richest {
		kind, _, _ := strings.Cut(place[strings.Index(place, " ")+1:], "/")
		for what, m := range mutations(copied(e, 1)) {
			for p := e.Parent; p != nil; p = p.Parent {
				m = &element{p.Space, p.Local, p.Attrs, []any{m}}
			}
			var b strings.Builder
			m.print(&b)
			out = append(out, document{"mutant " + place + " " + what, []byte(b.String()), schemas.Kind(kind), e.Space != schemas.Namespace})
		}
	}
	slices.SortFunc(out, func(a, b document) int { return strings.Compare(a.name, b.name) })
	t.Logf("%d mutants of %d places", len(out), len(richest))
	return out
}
