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

// The kinds of credential that are read.
const (
	kindPrivilege = "privilege"
	kindABAC      = "abac"
	kindSpeaksFor = "speaksfor" // Emulab's form of speaks-for, older than ABAC
)

// content is the parsed text of a credential. The only proven fact is that its signer
// wrote it.
type content struct {
	kind                string
	owner, target       []*cert.Certificate // the GIDs with further certificates; none in ABAC
	ownerURN, targetURN string              // empty where absent
	expires             time.Time
	privileges          []privilege
	rule                *abacRule // of an ABAC credential
}

// readContent reads a credential from the signed octets.
func readContent(signed dsig.Signed) (content, error) {
	var c content
	err := xmltree.Parse(signed.Canonical, dsig.DefaultLimits, func(d *xmltree.Doc) error {
		return c.read(d.Root)
	})
	return c, err
}

// leaves are the single-valued children of a credential; ABAC needs no GIDs.
var leaves = map[string]struct{ required, gid bool }{
	"type": {required: true}, "serial": {}, "owner_gid": {true, true}, "owner_urn": {}, "target_gid": {true, true}, "target_urn": {},
	"uuid": {}, "expires": {required: true},
}

const oddPart = "it holds <%s> more than once, or in a foreign namespace"

func (c *content) read(e *xmltree.Element) error {
	values := map[string]string{}
	parts := map[string]*xmltree.Element{}
	for _, child := range e.Elements() {
		_, isLeaf := leaves[child.Local]
		switch {
		case isLeaf:
			if _, again := values[child.Local]; rule.Cardinality.Broken(again) {
				return refuse(rule.Cardinality, am.CredentialInvalid, "it holds more than one %s", child.Local)
			}
			v, err := leaf(child)
			if err != nil {
				return err
			}
			values[child.Local] = v
		case child.Local == "privileges", child.Local == "abac":
			if rule.Names.Broken(child.Space != "") {
				return refuse(rule.Names, am.CredentialInvalid, oddPart, child.Local)
			}
			if rule.Cardinality.Broken(parts[child.Local] != nil) {
				return refuse(rule.Cardinality, am.CredentialInvalid, oddPart, child.Local)
			}
			parts[child.Local] = child
		}
	}
	c.kind = values["type"]
	for _, name := range slices.Sorted(maps.Keys(leaves)) {
		l := leaves[name]
		if _, ok := values[name]; l.required && !ok && !(l.gid && c.kind == kindABAC) {
			return refuse(rule.Readable, am.CredentialInvalid, "it holds no %s", name)
		}
	}
	if err := blankText(e); err != nil {
		return err
	}
	var err error
	if c.expires, err = parseExpires(values["expires"]); err != nil {
		return refuse(rule.Of(err), am.CredentialInvalid, "its expires, %.40q, is %v", values["expires"], err)
	}
	switch {
	case c.kind == kindABAC:
		c.rule, err = readABAC(parts["abac"])
		return err
	case rule.Kind.Broken(c.kind != kindPrivilege && c.kind != kindSpeaksFor):
		return refuse(rule.Kind, am.CredentialInvalid, "credentials of the type %.40q are not used here", c.kind)
	case rule.OneReading.Broken(c.kind == kindSpeaksFor && parts["abac"] != nil):
		return refuse(rule.OneReading, am.CredentialInvalid, "it is of the type speaksfor and holds an ABAC rule too, so it could be read in two ways")
	}
	return c.fill(values, parts["privileges"])
}

func (c *content) fill(values map[string]string, privileges *xmltree.Element) error {
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

// leaf returns the text of an element that may contain nothing else.
func leaf(e *xmltree.Element) (string, error) {
	if rule.Names.Broken(e.Space != "") {
		return "", refuse(rule.Names, am.CredentialInvalid, "its <%.40s> is in a foreign namespace", e.Local)
	}
	for _, c := range e.Children {
		if _, ok := c.(xmltree.Text); rule.Leaf.Broken(!ok) {
			return "", refuse(rule.Leaf, am.CredentialInvalid, "its %.40s may hold only text", e.Local)
		}
	}
	return strings.Trim(e.Text(), " \t\r\n"), nil
}

// blankText refuses text between elements.
func blankText(e *xmltree.Element) error {
	for _, c := range e.Children {
		if t, ok := c.(xmltree.Text); rule.BlankBetween.Broken(ok && strings.Trim(string(t), " \t\r\n") != "") {
			return refuse(rule.BlankBetween, am.CredentialInvalid, "it holds text between the elements of <%.40s>", e.Local)
		}
	}
	return nil
}
