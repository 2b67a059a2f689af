package credentials

import (
	"strings"

	"patchbay/am"
	"patchbay/credentials/rule"
	"patchbay/schemas/xmltree"
)

// These limit the privileges of one credential. Authorities write about a dozen.
const (
	maxPrivileges    = 100
	maxPrivilegeName = 64 // bytes
)

// privilege has its name as in the document. The name is a copy, so that it does not keep
// the document in memory.
type privilege struct {
	name     string
	delegate bool
}

// readPrivileges reads and checks the element <privileges>. It ignores unknown elements in a
// privilege.
func readPrivileges(e *xmltree.Element) ([]privilege, error) {
	if err := checkBlankText(e); err != nil {
		return nil, err
	}
	var list []privilege
	seen := map[string]bool{}
	for _, p := range e.Elements() {
		if p.Name != (xmltree.Name{Local: "privilege"}) {
			return nil, refuse(rule.Names, am.CredentialInvalid, "its privileges contain <%.40s>", p.Local)
		}
		if err := checkBlankText(p); err != nil {
			return nil, err
		}
		var name, delegate string
		var nameCount, delegateCount int
		for _, child := range p.Elements() {
			v, err := leafText(child)
			if err != nil {
				return nil, err
			}
			switch child.Local {
			case "name":
				name = v
				nameCount++
			case "can_delegate":
				delegate = v
				delegateCount++
			}
		}
		key := strings.ToLower(name)
		switch {
		case len(list) == maxPrivileges:
			return nil, refuse(rule.PrivilegeCount, am.CredentialInvalid, "it contains more than %d privileges", maxPrivileges)
		case nameCount != 1 || name == "" || delegateCount > 1:
			return nil, refuse(rule.PrivilegeForm, am.CredentialInvalid, "a privilege must have one name and at most one can_delegate")
		case !isPrivilegeName(name):
			return nil, refuse(rule.PrivilegeName, am.CredentialInvalid, "it contains the privilege %.40q, but a name must have 1 to %d visible ASCII characters", name, maxPrivilegeName)
		case delegateCount == 1 && delegate != "true" && delegate != "false" && delegate != "1" && delegate != "0":
			return nil, refuse(rule.CanDelegate, am.CredentialInvalid, "a privilege has the can_delegate %.40q, which is neither true nor false", delegate)
		case seen[key]:
			return nil, refuse(rule.PrivilegeOnce, am.CredentialInvalid, "the privilege %.40q is listed twice", name)
		}
		seen[key] = true
		list = append(list, privilege{strings.Clone(name), delegate == "true" || delegate == "1"})
	}
	return list, nil
}

// isPrivilegeName reports whether a name is short and has only visible ASCII characters.
// Other characters could make the comparison without case ambiguous.
func isPrivilegeName(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return len(s) <= maxPrivilegeName
}
