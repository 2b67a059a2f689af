package credentials

import (
	"strings"

	"patchbay/am"
	"patchbay/schemas/xmltree"
)

// privilege is one right as written, and whether it may be handed on.
type privilege struct {
	name     string
	delegate bool
}

func readPrivileges(e *xmltree.Element) ([]privilege, error) {
	if err := blankText(e); err != nil {
		return nil, err
	}
	var list []privilege
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
		list = append(list, privilege{name, delegate == "true" || delegate == "1"})
	}
	return list, nil
}
