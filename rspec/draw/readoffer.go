package draw

import (
	"strconv"
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// offers are what an advertisement tells beside nodes and links.
func (r *reader) offers(root *xmltree.Element) {
	if r.p.Kind != Advertisement {
		return
	}
	for _, list := range childrenOf(root, "rspec_shared_vlan", schemas.SharedVLAN, schemas.OldSharedVLAN) {
		for _, e := range childrenOf(list, "available", schemas.SharedVLAN, schemas.OldSharedVLAN) {
			r.p.SharedVLANs = append(r.p.SharedVLANs, SharedVLAN{
				Name:        value(e, "name"),
				Tag:         value(e, "localTag"),
				Description: value(e, "description"),
				Restricted:  isTrue(e, "restricted"),
			})
		}
	}
	for _, e := range childrenOf(root, "rspec_routable_addresses", schemas.Emulab) {
		r.p.Addresses = &Addresses{amount(value(e, "available")), amount(value(e, "configured"))}
	}
}

// amount is a number that is not negative, or -1.
func amount(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// settle puts the nodes that name no manager with the only one that others
// name: whoever gets the document takes them as its own. Where several are
// named nobody can tell, and they stay apart.
func (r *reader) settle() {
	nobody, known := r.managers[""]
	if !known || len(r.p.Managers) != 2 {
		return
	}
	r.p.Managers = []Manager{r.p.Managers[1-nobody]}
	for i := range r.p.Nodes {
		r.p.Nodes[i].Manager = 0
	}
}

// authorityOf is the authority in a component's URN, even in one that is longer
// than a URN may be or holds blanks.
func authorityOf(id string) string {
	if u, err := urn.Parse(id); err == nil {
		return u.Authority
	}
	if parts := strings.SplitN(id, "+", 4); len(parts) == 4 && strings.EqualFold(parts[0], "urn:publicid:IDN") {
		return parts[1]
	}
	return ""
}
