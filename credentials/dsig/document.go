package dsig

import (
	"bytes"
	"slices"
	"strings"

	"patchbay/schemas/xmltree"
)

const nsXML = "http://www.w3.org/XML/1998/namespace"

const (
	// maxChain is the longest chain of credential, parent, grandparent.
	maxChain = 5
	// maxSignatures is the most signatures one document may hold.
	maxSignatures = 16
)

// document is the shape of a signed credential, before anything is believed.
type document struct {
	chain      []*xmltree.Element // outermost credential first
	ids        []string           // xml:id of each
	signatures []*xmltree.Element
}

// readShape checks cardinality, namespaces and ids.
func readShape(doc *xmltree.Doc) (document, error) {
	var d document
	root := doc.Root
	if root.Name != plain("signed-credential") {
		return d, refuse(Malformed, "the document is a %s, not a signed-credential", describe(root))
	}
	// A CDATA section leaves canonical octets as they were, so it could be
	// added to a signed document; no authority writes one.
	if bytes.Contains(doc.Source, []byte("<![CDATA[")) {
		return d, refuse(Malformed, "a signed credential may not hold CDATA")
	}
	if err := checkIDs(root); err != nil {
		return d, err
	}
	var top, signatures *xmltree.Element
	for _, e := range root.Elements() {
		switch {
		case e.Name == plain("credential") && top == nil:
			top = e
		case e.Name == plain("signatures") && signatures == nil:
			signatures = e
		default:
			return d, refuse(Malformed, "line %d: unexpected or repeated %s below the root", e.Line, describe(e))
		}
	}
	if top == nil {
		return d, refuse(Malformed, "there is no credential in the signed-credential")
	}
	if err := d.follow(top); err != nil {
		return d, err
	}
	if signatures != nil {
		d.signatures = signatures.Elements()
	}
	if len(d.signatures) > maxSignatures {
		return d, refuse(Malformed, "more than %d signatures", maxSignatures)
	}
	for _, s := range d.signatures {
		if s.Name != ds("Signature") {
			return d, refuse(Malformed, "line %d: %s among the signatures", s.Line, describe(s))
		}
	}
	return d, nil
}

// follow collects the chain credential, parent, credential, …
func (d *document) follow(e *xmltree.Element) error {
	for e != nil {
		if len(d.chain) == maxChain {
			return refuse(Malformed, "more than %d credentials inside each other", maxChain)
		}
		id, ok := e.Attr(nsXML, "id")
		if !ok || id == "" || id != strings.TrimSpace(id) {
			return refuse(Malformed, "line %d: the credential has no xml:id", e.Line)
		}
		if err := checkLeaves(e); err != nil {
			return err
		}
		d.chain, d.ids = append(d.chain, e), append(d.ids, id)
		parent, err := atMostOne(e, plain("parent"))
		if err != nil || parent == nil {
			return err
		}
		inner := parent.Elements()
		if len(inner) != 1 || inner[0].Name != plain("credential") {
			return refuse(Malformed, "line %d: a parent must hold exactly one credential", parent.Line)
		}
		e = inner[0]
	}
	return nil
}

// concerns tells whether a signature refers to a credential of the chain, or
// might be taken to: one without a clear reference does.
func (d *document) concerns(signature *xmltree.Element) bool {
	isClear, concerned := false, false
	var walk func(e *xmltree.Element)
	walk = func(e *xmltree.Element) {
		if e.Local == "Reference" {
			uri, _ := e.Attr("", "URI")
			id, isID := strings.CutPrefix(uri, "#")
			isClear = isClear || isID
			concerned = concerned || !isID || strings.HasPrefix(id, "xpointer") || slices.Contains(d.ids, strings.TrimSpace(id))
		}
		for _, c := range e.Elements() {
			walk(c)
		}
	}
	walk(signature)
	return concerned || !isClear
}

// checkIDs refuses an id that occurs twice anywhere in the document, under any
// name that some reader takes for an id.
func checkIDs(root *xmltree.Element) error {
	seen := map[string]bool{}
	var walk func(e *xmltree.Element) error
	walk = func(e *xmltree.Element) error {
		for _, a := range e.Attrs {
			isID := a.Space == nsXML && a.Local == "id" || a.Space == "" && strings.EqualFold(a.Local, "id")
			if !isID {
				continue
			}
			id := strings.TrimSpace(a.Value)
			if seen[id] {
				return refuse(Malformed, "line %d: the id %.60q occurs twice", e.Line, id)
			}
			seen[id] = true
		}
		for _, c := range e.Children {
			if c, ok := c.(*xmltree.Element); ok {
				if err := walk(c); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return walk(root)
}

// checkLeaves refuses comments and processing instructions inside text.
// Canonicalization drops comments, so one can be put into a signed name without
// breaking the signature; a reader of the original would see the name split.
// What stands below extensions is read by nobody.
func checkLeaves(e *xmltree.Element) error {
	leaf, mark := true, false
	for _, c := range e.Children {
		switch c := c.(type) {
		case *xmltree.Element:
			leaf = false
			if c.Name == plain("extensions") || c.Name == plain("parent") {
				continue
			}
			if err := checkLeaves(c); err != nil {
				return err
			}
		case xmltree.Comment, xmltree.PI:
			mark = true
		}
	}
	if leaf && mark {
		return refuse(Malformed, "line %d: a comment or processing instruction inside %s", e.Line, describe(e))
	}
	return nil
}

func plain(local string) xmltree.Name { return xmltree.Name{Local: local} }

func ds(local string) xmltree.Name { return xmltree.Name{Space: nsDS, Local: local} }

func describe(e *xmltree.Element) string {
	name := e.Local
	if len(name) > 40 {
		name = name[:40] + "…"
	}
	switch e.Space {
	case "", nsDS:
		return "<" + name + ">"
	}
	return "<" + name + "> of another namespace"
}

// atMostOne is the child of that name, nil when there is none. A child with
// the same local name in another namespace is refused, so that no two readers
// can disagree on which is meant.
func atMostOne(e *xmltree.Element, name xmltree.Name) (*xmltree.Element, error) {
	var found *xmltree.Element
	for _, c := range e.Elements() {
		if c.Local != name.Local {
			continue
		}
		if c.Name != name || found != nil {
			return nil, refuse(Malformed, "line %d: unexpected or repeated %s in %s", c.Line, describe(c), describe(e))
		}
		found = c
	}
	return found, nil
}

func exactlyOne(e *xmltree.Element, name xmltree.Name) (*xmltree.Element, error) {
	c, err := atMostOne(e, name)
	if err == nil && c == nil {
		err = refuse(Malformed, "line %d: no <%s> in %s", e.Line, name.Local, describe(e))
	}
	return c, err
}

// text is the content of a leaf.
func text(e *xmltree.Element) (string, error) {
	for _, c := range e.Children {
		if _, ok := c.(xmltree.Text); !ok {
			return "", refuse(Malformed, "line %d: %s may hold only text", e.Line, describe(e))
		}
	}
	return e.Text(), nil
}
