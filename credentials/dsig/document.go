package dsig

import (
	"bytes"
	"slices"
	"strings"

	"patchbay/credentials/rule"
	"patchbay/schemas/xmltree"
)

const nsXML = "http://www.w3.org/XML/1998/namespace"

const (
	// maxChain is the number of credentials in a chain of parents.
	maxChain = 5
	// maxSignatures is the number of signatures in one document.
	maxSignatures = 16
)

// document is the structure of a signed credential, before verification.
type document struct {
	chain      []*xmltree.Element // outermost credential first
	ids        []string           // xml:id of each
	signatures []*xmltree.Element
}

// readShape reads the structure and checks cardinality, namespaces and ids.
func readShape(doc *xmltree.Doc) (document, error) {
	var d document
	root := doc.Root
	if !is(root, plain("signed-credential")) {
		broken := rule.Readable
		if root.Local == "signed-credential" {
			broken = rule.Names
		}
		return d, refuse(Malformed, broken, "the document is a %s, not a signed-credential", describe(root))
	}
	// A CDATA section leaves canonical octets as they were, so it could be
	// added to a signed document; no authority writes one.
	if rule.Leaf.Broken(bytes.Contains(doc.Source, []byte("<![CDATA["))) {
		return d, refuse(Malformed, rule.Leaf, "a signed credential may not hold CDATA")
	}
	if err := checkIDs(root); err != nil {
		return d, err
	}
	if err := blankBetween(root); err != nil {
		return d, err
	}
	var top, signatures *xmltree.Element
	for _, e := range root.Elements() {
		switch {
		case is(e, plain("credential")) && top == nil:
			top = e
		case is(e, plain("signatures")) && signatures == nil:
			signatures = e
		case misplaced(e, "", "credential", "signatures").Broken(true):
			return d, refuse(Malformed, misplaced(e, "", "credential", "signatures"), "line %d: unexpected or repeated %s below the root", e.Line, describe(e))
		}
	}
	if top == nil {
		return d, refuse(Malformed, rule.Readable, "there is no credential in the signed-credential")
	}
	if err := d.follow(top); err != nil {
		return d, err
	}
	if signatures == nil {
		return d, nil
	}
	if err := blankBetween(signatures); err != nil {
		return d, err
	}
	for _, s := range signatures.Elements() {
		if is(s, ds("Signature")) {
			d.signatures = append(d.signatures, s)
		} else if broken := misplaced(s, nsDS, "Signature"); broken.Broken(true) {
			return d, refuse(Malformed, broken, "line %d: %s among the signatures", s.Line, describe(s))
		}
	}
	if rule.Crowd.Broken(len(d.signatures) > maxSignatures) {
		return d, refuse(Malformed, rule.Crowd, "more than %d signatures", maxSignatures)
	}
	return d, nil
}

// follow collects the chain credential, parent, credential, …
func (d *document) follow(e *xmltree.Element) error {
	for e != nil {
		if rule.Chain.Broken(len(d.chain) == maxChain) {
			return refuse(Malformed, rule.Chain, "more than %d credentials inside each other", maxChain)
		}
		id, ok := e.Attr(nsXML, "id")
		if rule.OwnID.Broken(!ok || id == "" || id != strings.TrimSpace(id)) {
			return refuse(Malformed, rule.OwnID, "line %d: the credential has no xml:id", e.Line)
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
		broken := rule.Readable
		if len(inner) > 0 {
			broken = misplaced(inner[0], "", "credential")
		}
		if len(inner) == 0 || broken.Broken(len(inner) != 1 || !is(inner[0], plain("credential"))) {
			return refuse(Malformed, broken, "line %d: a parent must hold exactly one credential", parent.Line)
		}
		e = inner[0]
	}
	return nil
}

// concerns reports whether a signature refers to a credential of the chain, or might:
// one without a clear reference does.
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

// checkIDs refuses an id that occurs twice in the document, under any attribute that
// some reader takes as an id.
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
			if rule.OneID.Broken(seen[id]) {
				return refuse(Malformed, rule.OneID, "line %d: the id %.60q occurs twice", e.Line, id)
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
// Canonicalization drops comments, so one could be added to a signed name without
// breaking the signature, and a reader of the original would see the name split.
// It skips extensions, which are never read.
func checkLeaves(e *xmltree.Element) error {
	leaf, mark := true, false
	for _, c := range e.Children {
		switch c := c.(type) {
		case *xmltree.Element:
			leaf = false
			if c.Name == plain("extensions") || is(c, plain("parent")) {
				continue
			}
			if err := checkLeaves(c); err != nil {
				return err
			}
		case xmltree.Comment, xmltree.PI:
			mark = true
		}
	}
	if rule.Leaf.Broken(leaf && mark) {
		return refuse(Malformed, rule.Leaf, "line %d: a comment or processing instruction inside %s", e.Line, describe(e))
	}
	return nil
}

// blankBetween refuses text between elements, where nothing is signed. No authority
// writes any, so the document is damaged.
func blankBetween(e *xmltree.Element) error {
	for _, c := range e.Children {
		if t, ok := c.(xmltree.Text); rule.BlankBetween.Broken(ok && strings.Trim(string(t), " \t\r\n") != "") {
			return refuse(Malformed, rule.BlankBetween, "line %d: %s holds text between its elements", e.Line, describe(e))
		}
	}
	return nil
}

func plain(local string) xmltree.Name { return xmltree.Name{Local: local} }

func ds(local string) xmltree.Name { return xmltree.Name{Space: nsDS, Local: local} }

// is reports whether e has that name.
func is(e *xmltree.Element, name xmltree.Name) bool {
	return e.Local == name.Local && !rule.Names.Broken(e.Space != name.Space)
}

// misplaced returns the rule that forbids e among elements of these names.
func misplaced(e *xmltree.Element, space string, names ...string) rule.Rule {
	if e.Space != space && slices.Contains(names, e.Local) {
		return rule.Names
	}
	return rule.Cardinality
}

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

// atMostOne returns the child of that name, nil if there is none. It refuses a child
// with the same local name in another namespace, which another reader could choose.
func atMostOne(e *xmltree.Element, name xmltree.Name) (*xmltree.Element, error) {
	var found *xmltree.Element
	for _, c := range e.Elements() {
		if c.Local != name.Local {
			continue
		}
		if broken := misplaced(c, name.Space, name.Local); broken.Broken(!is(c, name) || found != nil) {
			return nil, refuse(Malformed, broken, "line %d: unexpected or repeated %s in %s", c.Line, describe(c), describe(e))
		}
		if found == nil {
			found = c
		}
	}
	return found, nil
}

func exactlyOne(e *xmltree.Element, name xmltree.Name) (*xmltree.Element, error) {
	c, err := atMostOne(e, name)
	if err == nil && c == nil {
		err = refuse(Malformed, rule.Readable, "line %d: no <%s> in %s", e.Line, name.Local, describe(e))
	}
	return c, err
}

// text returns the content of a leaf.
func text(e *xmltree.Element) (string, error) {
	for _, c := range e.Children {
		if _, ok := c.(xmltree.Text); rule.Leaf.Broken(!ok) {
			return "", refuse(Malformed, rule.Leaf, "line %d: %s may hold only text", e.Line, describe(e))
		}
	}
	return e.Text(), nil
}
