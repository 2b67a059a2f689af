package credentials

import (
	"maps"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/credentials/cert"
	"patchbay/credentials/dsig"
	"patchbay/credentials/rule"
	"patchbay/schemas/xmltree"
)

const (
	kindPrivilege = "privilege"
	kindABAC      = "abac"
	kindSpeaksFor = "speaksfor" // Emulab's form of speaks-for, older than ABAC
)

// content is the parsed text of a credential. The signature proves only who wrote this
// text.
type content struct {
	kind                string
	owner, target       []*cert.Certificate // the certificates in each GID, the GID's own first; none in ABAC
	ownerURN, targetURN string              // "" if the credential has none
	expires             time.Time
	privileges          []privilege
	rule                *abacRule // of an ABAC credential
}

// readContent parses only the signed bytes.
func readContent(signed dsig.Signed) (content, error) {
	var c content
	err := xmltree.Parse(signed.Canonical, dsig.DefaultLimits, func(d *xmltree.Doc) error {
		return c.read(d.Root)
	})
	return c, err
}

// leafElements contain only text, and occur at most once. An ABAC credential needs no gid.
var leafElements = map[string]struct{ required, gid bool }{
	"type": {required: true}, "serial": {}, "owner_gid": {true, true}, "owner_urn": {}, "target_gid": {true, true}, "target_urn": {},
	"uuid": {}, "expires": {required: true},
}

const errRepeated = "it contains <%s> more than once, or in a foreign namespace"

// read reads the element <credential>. It refuses known elements that are missing, repeated or in
// a foreign namespace, and ignores unknown elements.
func (c *content) read(e *xmltree.Element) error {
	values := map[string]string{}
	parts := map[string]*xmltree.Element{}
	for _, child := range e.Elements() {
		_, isLeaf := leafElements[child.Local]
		switch {
		case isLeaf:
			if _, again := values[child.Local]; again {
				return refuse(rule.Cardinality, am.CredentialInvalid, "it contains more than one %s", child.Local)
			}
			v, err := leafText(child)
			if err != nil {
				return err
			}
			values[child.Local] = v
		case child.Local == "privileges", child.Local == "abac":
			if child.Space != "" {
				return refuse(rule.Names, am.CredentialInvalid, errRepeated, child.Local)
			}
			if parts[child.Local] != nil {
				return refuse(rule.Cardinality, am.CredentialInvalid, errRepeated, child.Local)
			}
			parts[child.Local] = child
		}
	}
	c.kind = values["type"]
	for _, name := range slices.Sorted(maps.Keys(leafElements)) {
		l := leafElements[name]
		isNeeded := l.required && !(l.gid && c.kind == kindABAC)
		if _, ok := values[name]; isNeeded && !ok {
			return refuse(rule.Readable, am.CredentialInvalid, "it contains no %s", name)
		}
	}
	if err := checkBlankText(e); err != nil {
		return err
	}
	var err error
	if c.expires, err = parseExpires(values["expires"]); err != nil {
		return refuse(rule.Of(err), am.CredentialInvalid, "its expiry time %.40q is invalid: %v", values["expires"], err)
	}
	switch {
	case c.kind == kindABAC:
		c.rule, err = readABAC(parts["abac"])
		return err
	case c.kind != kindPrivilege && c.kind != kindSpeaksFor:
		return refuse(rule.Kind, am.CredentialInvalid, "credentials of the type %.40q are not supported", c.kind)
	case c.kind == kindSpeaksFor && parts["abac"] != nil:
		return refuse(rule.Unambiguous, am.CredentialInvalid, "it is of the type speaksfor but also contains an ABAC rule, so its meaning is ambiguous")
	}
	return c.readGIDs(values, parts["privileges"])
}

func (c *content) readGIDs(values map[string]string, privileges *xmltree.Element) error {
	var err error
	if c.owner, err = cert.ParsePEM([]byte(values["owner_gid"])); err != nil {
		return refuse(rule.Of(err), am.CredentialInvalid, "its owner_gid cannot be read: %v", err)
	}
	if c.target, err = cert.ParsePEM([]byte(values["target_gid"])); err != nil {
		return refuse(rule.Of(err), am.CredentialInvalid, "its target_gid cannot be read: %v", err)
	}
	c.ownerURN, c.targetURN = values["owner_urn"], values["target_urn"]
	if privileges == nil {
		return nil
	}
	c.privileges, err = readPrivileges(privileges)
	return err
}

// leafText fails if the element contains other elements.
func leafText(e *xmltree.Element) (string, error) {
	if e.Space != "" {
		return "", refuse(rule.Names, am.CredentialInvalid, "its <%.40s> is in a foreign namespace", e.Local)
	}
	for _, c := range e.Children {
		if _, ok := c.(xmltree.Text); !ok {
			return "", refuse(rule.TextOnly, am.CredentialInvalid, "its %.40s may contain only text", e.Local)
		}
	}
	return strings.Trim(e.Text(), " \t\r\n"), nil
}

func checkBlankText(e *xmltree.Element) error {
	for _, c := range e.Children {
		if t, ok := c.(xmltree.Text); ok && strings.Trim(string(t), " \t\r\n") != "" {
			return refuse(rule.BlankBetween, am.CredentialInvalid, "it contains text between the elements of <%.40s>", e.Local)
		}
	}
	return nil
}
