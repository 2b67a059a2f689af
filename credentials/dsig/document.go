package dsig

import (
	"bytes"
	"slices"
	"strings"

	"patchbay/am/display"
	"patchbay/credentials/rule"
	"patchbay/schemas/xmltree"
)

const nsXML = "http://www.w3.org/XML/1998/namespace"

const (
	// maxChain is the maximum number of nested credentials.
	maxChain = 5
	// maxSignatures is the maximum number of signatures in a document.
	maxSignatures = 16
)

// document is the structure of a credential before verification.
type document struct {
	chain      []*xmltree.Element // outermost credential first
	ids        []string           // xml:id of each credential in the chain
	signatures []*xmltree.Element
}

// readDocument returns the credentials and signatures of a document. It checks how often each
// element occurs, the namespaces and the ids.
func readDocument(doc *xmltree.Doc) (document, error) {
	var d document
	root := doc.Root
	if !hasName(root, noNamespace("signed-credential")) {
		broken := rule.Readable
		if root.Local == "signed-credential" {
			broken = rule.Names
		}
		return d, refuse(Malformed, broken, "the document is a %s, not a signed-credential", describe(root))
	}
	// A CDATA section does not change the canonical bytes, so an attacker could add a CDATA
	// section to a signed document. No authority writes CDATA sections.
	if bytes.Contains(doc.Source, []byte("<![CDATA[")) {
		return d, refuse(Malformed, rule.TextOnly, "a signed credential must not contain CDATA")
	}
	if err := checkIDs(root); err != nil {
		return d, err
	}
	if err := checkBlankText(root); err != nil {
		return d, err
	}
	var top, signatures *xmltree.Element
	for _, e := range root.Elements() {
		switch {
		case hasName(e, noNamespace("credential")) && top == nil:
			top = e
		case hasName(e, noNamespace("signatures")) && signatures == nil:
			signatures = e
		default:
			return d, refuse(Malformed, misplacedRule(e, "", "credential", "signatures"), "line %d: unexpected or repeated %s below the root", e.Line, describe(e))
		}
	}
	if top == nil {
		return d, refuse(Malformed, rule.Readable, "there is no credential in the signed-credential")
	}
	if err := d.collectChain(top); err != nil {
		return d, err
	}
	if signatures == nil {
		return d, nil
	}
	if err := checkBlankText(signatures); err != nil {
		return d, err
	}
	for _, s := range signatures.Elements() {
		if !hasName(s, dsName("Signature")) {
			return d, refuse(Malformed, misplacedRule(s, nsDS, "Signature"), "line %d: %s among the signatures", s.Line, describe(s))
		}
		d.signatures = append(d.signatures, s)
	}
	if len(d.signatures) > maxSignatures {
		return d, refuse(Malformed, rule.SignatureCount, "more than %d signatures", maxSignatures)
	}
	return d, nil
}

// collectChain adds the credentials from the outermost to the innermost.
func (d *document) collectChain(e *xmltree.Element) error {
	for e != nil {
		if len(d.chain) == maxChain {
			return refuse(Malformed, rule.Chain, "more than %d nested credentials", maxChain)
		}
		id, ok := e.Attr(nsXML, "id")
		if !ok || id == "" || id != strings.TrimSpace(id) {
			return refuse(Malformed, rule.OwnID, "line %d: the credential has no xml:id", e.Line)
		}
		if err := checkLeaves(e); err != nil {
			return err
		}
		d.chain, d.ids = append(d.chain, e), append(d.ids, id)
		parent, err := atMostOne(e, noNamespace("parent"))
		if err != nil || parent == nil {
			return err
		}
		inner := parent.Elements()
		broken := rule.Readable
		if len(inner) > 0 {
			broken = misplacedRule(inner[0], "", "credential")
		}
		if len(inner) != 1 || !hasName(inner[0], noNamespace("credential")) {
			return refuse(Malformed, broken, "line %d: a parent must contain exactly one credential", parent.Line)
		}
		e = inner[0]
	}
	return nil
}

// concerns reports whether a signature may refer to a credential of the chain. It returns
// true if the signature has no reference, or one with an unclear target.
func (d *document) concerns(signature *xmltree.Element) bool {
	hasReference, concerned := false, false
	var walk func(e *xmltree.Element)
	walk = func(e *xmltree.Element) {
		if e.Local == "Reference" {
			uri, _ := e.Attr("", "URI")
			id, isID := strings.CutPrefix(uri, "#")
			hasReference = true
			concerned = concerned || !isID || strings.HasPrefix(id, "xpointer") || slices.Contains(d.ids, strings.TrimSpace(id))
		}
		for _, c := range e.Elements() {
			walk(c)
		}
	}
	walk(signature)
	return concerned || !hasReference
}

// checkIDs fails if an id occurs twice. It checks every attribute that some XML reader
// treats as an id.
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

// checkLeaves refuses comments and processing instructions inside text. Canonicalization
// drops comments, so an attacker could add a comment inside a signed name. The signature
// would stay valid, but some readers of the document would see only a part of the name.
// checkLeaves skips extensions, which are never read, and the parent, which another call
// checks.
func checkLeaves(e *xmltree.Element) error {
	isLeaf, hasComment := true, false
	for _, c := range e.Children {
		switch c := c.(type) {
		case *xmltree.Element:
			isLeaf = false
			if c.Name == noNamespace("extensions") || hasName(c, noNamespace("parent")) {
				continue
			}
			if err := checkLeaves(c); err != nil {
				return err
			}
		case xmltree.Comment, xmltree.PI:
			hasComment = true
		}
	}
	if isLeaf && hasComment {
		return refuse(Malformed, rule.TextOnly, "line %d: a comment or processing instruction inside %s", e.Line, describe(e))
	}
	return nil
}

// checkBlankText refuses text between child elements. No authority writes such text, and no
// signature covers it outside a credential.
func checkBlankText(e *xmltree.Element) error {
	for _, c := range e.Children {
		if t, ok := c.(xmltree.Text); ok && strings.Trim(string(t), " \t\r\n") != "" {
			return refuse(Malformed, rule.BlankBetween, "line %d: %s contains text between its elements", e.Line, describe(e))
		}
	}
	return nil
}

func noNamespace(local string) xmltree.Name { return xmltree.Name{Local: local} }

func dsName(local string) xmltree.Name { return xmltree.Name{Space: nsDS, Local: local} }

func hasName(e *xmltree.Element, name xmltree.Name) bool {
	return e.Name == name
}

// misplacedRule returns the rule that a misplaced element breaks. The parameters namespace
// and names are those allowed in that place. The rule is rule.Names if only the element's
// namespace is wrong, else rule.Cardinality.
func misplacedRule(e *xmltree.Element, namespace string, names ...string) rule.Rule {
	if e.Space != namespace && slices.Contains(names, e.Local) {
		return rule.Names
	}
	return rule.Cardinality
}

// describe shortens the name and leaves out the namespace.
func describe(e *xmltree.Element) string {
	name := display.Cut(e.Local, 40)
	switch e.Space {
	case "", nsDS:
		return "<" + name + ">"
	}
	return "<" + name + "> of another namespace"
}

// atMostOne returns nil if there is no child with the name. It fails for several. It also
// fails for the same local name in another namespace, since another reader could use that
// child.
func atMostOne(e *xmltree.Element, name xmltree.Name) (*xmltree.Element, error) {
	var found *xmltree.Element
	for _, c := range e.Elements() {
		if c.Local != name.Local {
			continue
		}
		if broken := misplacedRule(c, name.Space, name.Local); !hasName(c, name) || found != nil {
			return nil, refuse(Malformed, broken, "line %d: unexpected or repeated %s in %s", c.Line, describe(c), describe(e))
		}
		found = c
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

// leafText fails if the element contains other elements.
func leafText(e *xmltree.Element) (string, error) {
	for _, c := range e.Children {
		if _, ok := c.(xmltree.Text); !ok {
			return "", refuse(Malformed, rule.TextOnly, "line %d: %s may contain only text", e.Line, describe(e))
		}
	}
	return e.Text(), nil
}
