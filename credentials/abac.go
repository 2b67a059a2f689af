package credentials

import (
	"patchbay/am"
	"patchbay/credentials/rule"
	"patchbay/schemas/xmltree"
)

// abacRule is one RT0 statement: whoever is in every tail is in the role of the
// head. A.r ← B names a principal, A.r ← B.s the members of a role, and
// A.r ← B.t.s those of a role that the members of another one give.
type abacRule struct {
	head  keyID
	role  string
	tails []tail
}

type tail struct {
	principal     keyID
	role, linking string
}

// readABAC reads <abac>, nil where there is none. It understands all of RT0 as
// far as telling which of it a speaks-for credential may not use.
func readABAC(e *xmltree.Element) (*abacRule, error) {
	if e == nil {
		return nil, refuse(rule.Readable, am.CredentialInvalid, "it is of the type abac but holds no <abac>")
	}
	parts, err := abacParts(e, "rt0")
	if err != nil {
		return nil, err
	}
	rt0, err := abacOne(parts, "abac", "rt0")
	if err != nil {
		return nil, err
	}
	if parts, err = abacParts(rt0, "version", "head", "tail"); err != nil {
		return nil, err
	}
	version, err := abacText(parts, "rt0", "version", true)
	if err != nil {
		return nil, err
	}
	if rule.ABACVersion.Broken(version != "1.1") {
		return nil, refuse(rule.ABACVersion, am.CredentialInvalid, "its ABAC rule is of the version %.40q, only 1.1 is read", version)
	}
	head, err := abacOne(parts, "rt0", "head")
	if err != nil {
		return nil, err
	}
	r := &abacRule{}
	if r.head, r.role, _, err = readRole(head, false); err != nil {
		return nil, err
	}
	if r.role == "" {
		return nil, refuse(rule.Readable, am.CredentialInvalid, "the head of its ABAC rule has no role")
	}
	for _, e := range parts["tail"] {
		var t tail
		if t.principal, t.role, t.linking, err = readRole(e, true); err != nil {
			return nil, err
		}
		r.tails = append(r.tails, t)
	}
	if len(r.tails) == 0 {
		return nil, refuse(rule.Readable, am.CredentialInvalid, "its ABAC rule has no tail")
	}
	return r, nil
}

// readRole reads a head, or a tail, which may have a linking role too.
func readRole(e *xmltree.Element, isTail bool) (principal keyID, role, linking string, err error) {
	names := []string{"ABACprincipal", "role"}
	if isTail {
		names = append(names, "linking_role")
	}
	parts, err := abacParts(e, names...)
	if err != nil {
		return principal, "", "", err
	}
	p, err := abacOne(parts, e.Local, "ABACprincipal")
	if err != nil {
		return principal, "", "", err
	}
	if role, err = abacText(parts, e.Local, "role", false); err != nil {
		return principal, "", "", err
	}
	if linking, err = abacText(parts, e.Local, "linking_role", false); err != nil {
		return principal, "", "", err
	}
	if parts, err = abacParts(p, "keyid", "mnemonic"); err != nil {
		return principal, "", "", err
	}
	id, err := abacText(parts, "ABACprincipal", "keyid", true)
	if err != nil {
		return principal, "", "", err
	}
	var ok bool
	if principal, ok = parseKeyID(id); !ok {
		return principal, "", "", refuse(rule.Readable, am.CredentialInvalid, "its ABAC rule has the keyid %.60q, which is not the SHA-1 of a key in 40 hexadecimal digits", id)
	}
	return principal, role, linking, nil
}

// abacParts sorts the children of e, which may be of these names only.
func abacParts(e *xmltree.Element, names ...string) (map[string][]*xmltree.Element, error) {
	if err := blankText(e); err != nil {
		return nil, err
	}
	parts := map[string][]*xmltree.Element{}
next:
	for _, c := range e.Elements() {
		for _, name := range names {
			if c.Name == (xmltree.Name{Local: name}) {
				parts[name] = append(parts[name], c)
				continue next
			}
		}
		if rule.ABACForm.Broken(true) {
			return nil, refuse(rule.ABACForm, am.CredentialInvalid, "its ABAC rule holds <%.40s> in <%s>, where it cannot stand", c.Local, e.Local)
		}
	}
	return parts, nil
}

const noneOrMany = "its ABAC rule holds %d <%s> in <%s> instead of one"

func abacOne(parts map[string][]*xmltree.Element, in, name string) (*xmltree.Element, error) {
	if len(parts[name]) == 0 {
		return nil, refuse(rule.Readable, am.CredentialInvalid, noneOrMany, 0, name, in)
	}
	if n := len(parts[name]); rule.Cardinality.Broken(n > 1) {
		return nil, refuse(rule.Cardinality, am.CredentialInvalid, noneOrMany, n, name, in)
	}
	return parts[name][0], nil
}

// abacText is the text of a child, empty where it may be absent and is.
func abacText(parts map[string][]*xmltree.Element, in, name string, required bool) (string, error) {
	if len(parts[name]) == 0 && !required {
		return "", nil
	}
	e, err := abacOne(parts, in, name)
	if err != nil {
		return "", err
	}
	return leaf(e)
}
