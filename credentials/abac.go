package credentials

import (
	"slices"

	"patchbay/am"
	"patchbay/credentials/rule"
	"patchbay/schemas/xmltree"
)

// abacRule is one RT0 statement: a member of all tails has the role of the head. In A.r ←
// B, the tail is a principal. In A.r ← B.s, its members are those of the role B.s. In A.r ←
// B.t.s, its members are those of every role X.s, where X is a member of B.t.
type abacRule struct {
	head  keyID
	role  string
	tails []tail
}

// tail is a principal if role is "". It is a linked role unless linking is "".
type tail struct {
	principal     keyID
	role, linking string
}

// readABAC reads an element <abac>; e is nil if it is missing, which is an error. It reads all
// forms of RT0, so that a refusal can name a form that is not allowed in a speaks-for credential.
func readABAC(e *xmltree.Element) (*abacRule, error) {
	if e == nil {
		return nil, refuse(rule.Readable, am.CredentialInvalid, "it is of the type abac but contains no <abac>")
	}
	var r abacReader
	statement := r.exactlyOne(r.children(e, "rt0"), "abac", "rt0")
	parts := r.children(statement, "version", "head", "tail")
	version := r.text(parts, "rt0", "version", true)
	if r.err == nil && version != "1.1" {
		r.err = refuse(rule.ABACVersion, am.CredentialInvalid, "its ABAC rule has the version %.40q, but only 1.1 is supported", version)
	}
	a := &abacRule{}
	if a.head, a.role, _ = r.role(r.exactlyOne(parts, "rt0", "head"), false); r.err == nil && a.role == "" {
		r.err = refuse(rule.Readable, am.CredentialInvalid, "the head of its ABAC rule has no role")
	}
	for _, e := range parts["tail"] {
		var t tail
		t.principal, t.role, t.linking = r.role(e, true)
		a.tails = append(a.tails, t)
	}
	if r.err == nil && len(a.tails) == 0 {
		r.err = refuse(rule.Readable, am.CredentialInvalid, "its ABAC rule has no tail")
	}
	return a, r.err
}

// abacReader reads nothing more after an error.
type abacReader struct{ err error }

// role reads a head or a tail. Only a tail may have a linking role.
func (r *abacReader) role(e *xmltree.Element, isTail bool) (principal keyID, role, linking string) {
	names := []string{"ABACprincipal", "role"}
	if isTail {
		names = append(names, "linking_role")
	}
	parts := r.children(e, names...)
	if r.err != nil {
		return principal, "", ""
	}
	p := r.exactlyOne(parts, e.Local, "ABACprincipal")
	role, linking = r.text(parts, e.Local, "role", false), r.text(parts, e.Local, "linking_role", false)
	id := r.text(r.children(p, "keyid", "mnemonic"), "ABACprincipal", "keyid", true)
	principal, ok := parseKeyID(id)
	if r.err == nil && !ok {
		r.err = refuse(rule.Readable, am.CredentialInvalid, "its ABAC rule has the keyid %.60q, which is not the SHA-1 of a key in 40 hexadecimal digits", id)
	}
	return principal, role, linking
}

// children returns the child elements by name. It fails for a child with another name.
func (r *abacReader) children(e *xmltree.Element, names ...string) map[string][]*xmltree.Element {
	if r.err == nil {
		r.err = checkBlankText(e)
	}
	if r.err != nil {
		return nil
	}
	parts := map[string][]*xmltree.Element{}
	for _, c := range e.Elements() {
		if c.Space != "" || !slices.Contains(names, c.Local) {
			r.err = refuse(rule.ABACForm, am.CredentialInvalid, "its ABAC rule contains <%.40s> in <%s>, where it is not allowed", c.Local, e.Local)
			return nil
		}
		parts[c.Local] = append(parts[c.Local], c)
	}
	return parts
}

// exactlyOne fails, and returns nil, if there are none or several. It also returns nil
// after an earlier error.
func (r *abacReader) exactlyOne(parts map[string][]*xmltree.Element, parent, name string) *xmltree.Element {
	const noneOrMany = "its ABAC rule contains %d <%s> in <%s> instead of one"
	n := len(parts[name])
	switch {
	case r.err != nil:
	case n == 0:
		r.err = refuse(rule.Readable, am.CredentialInvalid, noneOrMany, 0, name, parent)
	case n > 1:
		r.err = refuse(rule.Cardinality, am.CredentialInvalid, noneOrMany, n, name, parent)
	default:
		return parts[name][0]
	}
	return nil
}

// text returns "" if the child is missing and not required.
func (r *abacReader) text(parts map[string][]*xmltree.Element, parent, name string, required bool) (text string) {
	if len(parts[name]) == 0 && !required {
		return ""
	}
	if e := r.exactlyOne(parts, parent, name); r.err == nil {
		text, r.err = leafText(e)
	}
	return text
}
