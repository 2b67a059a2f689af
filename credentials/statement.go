package credentials

import (
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/credentials/dsig"
	"patchbay/schemas/xmltree"
)

// statement is what one verified credential says, and how long that holds.
type statement struct {
	owner, target urn.URN
	privileges    []string
	issuers       []*cert.Certificate // above the owner's certificate, verified
	// since is when it was verified, until the earliest expiry of the credential
	// and of every certificate behind it.
	since, until time.Time
	fingerprint  string
	sha1         bool
}

func (s *statement) holds(now time.Time) bool { return !now.Before(s.since) && now.Before(s.until) }

// mismatch says why the statement is not about a slice.
func (s *statement) mismatch(slice urn.URN) string {
	if s.target.Type != urn.Slice {
		return "it is on the " + s.target.Type + " " + s.target.String() + "; present the credential of the slice " + slice.String()
	}
	return "it is for the slice " + s.target.String() + ", not for " + slice.String()
}

// content is what is written in a credential; nothing of it is trusted but
// that its signer wrote it.
type content struct {
	owner, target       []*cert.Certificate // the GIDs, with what came along
	ownerURN, targetURN string              // empty where absent
	expires             time.Time
	privileges          []string
}

// readContent reads a credential from the octets that were signed.
func readContent(signed dsig.Signed) (content, error) {
	var c content
	err := xmltree.Parse(signed.Canonical, dsig.DefaultLimits, func(d *xmltree.Doc) error {
		return c.read(d.Root)
	})
	return c, err
}

// single-valued children of a credential.
var leaves = map[string]struct{ required bool }{
	"type": {true}, "serial": {}, "owner_gid": {true}, "owner_urn": {}, "target_gid": {true}, "target_urn": {}, "uuid": {}, "expires": {true},
}

func (c *content) read(e *xmltree.Element) error {
	values := map[string]string{}
	var privileges *xmltree.Element
	for _, child := range e.Elements() {
		_, isLeaf := leaves[child.Local]
		switch {
		case isLeaf:
			if _, again := values[child.Local]; again {
				return faultf(am.CredentialInvalid, "it holds more than one %s", child.Local)
			}
			v, err := leaf(child)
			if err != nil {
				return err
			}
			values[child.Local] = v
		case child.Local == "privileges":
			if child.Space != "" || privileges != nil {
				return faultf(am.CredentialInvalid, "it holds more than one list of privileges, or one in a foreign namespace")
			}
			privileges = child
		}
	}
	for name, rule := range leaves {
		if _, ok := values[name]; rule.required && !ok {
			return faultf(am.CredentialInvalid, "it holds no %s", name)
		}
	}
	if t := values["type"]; t != "privilege" {
		return faultf(am.CredentialInvalid, "credentials of the type %.40q are not used here", t)
	}
	if err := blankText(e); err != nil {
		return err
	}
	return c.fill(values, privileges)
}

func (c *content) fill(values map[string]string, privileges *xmltree.Element) error {
	var err error
	if c.expires, err = parseExpires(values["expires"]); err != nil {
		return faultf(am.CredentialInvalid, "its expires, %.40q, is %v", values["expires"], err)
	}
	if c.owner, err = cert.ParsePEM([]byte(values["owner_gid"])); err != nil {
		return faultf(am.CredentialInvalid, "its owner_gid cannot be read: %v", err)
	}
	if c.target, err = cert.ParsePEM([]byte(values["target_gid"])); err != nil {
		return faultf(am.CredentialInvalid, "its target_gid cannot be read: %v", err)
	}
	c.ownerURN, c.targetURN = values["owner_urn"], values["target_urn"]
	if privileges == nil {
		return nil
	}
	c.privileges, err = readPrivileges(privileges)
	return err
}

func readPrivileges(e *xmltree.Element) ([]string, error) {
	if err := blankText(e); err != nil {
		return nil, err
	}
	var list []string
	seen := map[string]bool{}
	for _, p := range e.Elements() {
		if p.Name != (xmltree.Name{Local: "privilege"}) {
			return nil, faultf(am.CredentialInvalid, "its privileges hold <%.40s>", p.Local)
		}
		if err := blankText(p); err != nil {
			return nil, err
		}
		var name, delegate string
		var names, delegates int
		for _, child := range p.Elements() {
			v, err := leaf(child)
			if err != nil {
				return nil, err
			}
			switch child.Local {
			case "name":
				name = v
				names++
			case "can_delegate":
				delegate = v
				delegates++
			}
		}
		key := strings.ToLower(name)
		switch {
		case names != 1 || name == "" || delegates > 1:
			return nil, faultf(am.CredentialInvalid, "a privilege must have one name and at most one can_delegate")
		case delegates == 1 && delegate != "true" && delegate != "false" && delegate != "1" && delegate != "0":
			return nil, faultf(am.CredentialInvalid, "a privilege has the can_delegate %.40q", delegate)
		case seen[key]:
			return nil, faultf(am.CredentialInvalid, "the privilege %.40q is listed twice", name)
		}
		seen[key] = true
		list = append(list, name)
	}
	return list, nil
}

// leaf is the text of an element that may hold nothing else.
func leaf(e *xmltree.Element) (string, error) {
	if e.Space != "" {
		return "", faultf(am.CredentialInvalid, "its <%.40s> is in a foreign namespace", e.Local)
	}
	for _, c := range e.Children {
		if _, ok := c.(xmltree.Text); !ok {
			return "", faultf(am.CredentialInvalid, "its %.40s may hold only text", e.Local)
		}
	}
	return strings.Trim(e.Text(), " \t\r\n"), nil
}

// blankText refuses text between elements.
func blankText(e *xmltree.Element) error {
	for _, c := range e.Children {
		if t, ok := c.(xmltree.Text); ok && strings.Trim(string(t), " \t\r\n") != "" {
			return faultf(am.CredentialInvalid, "it holds text between the elements of <%.40s>", e.Local)
		}
	}
	return nil
}
