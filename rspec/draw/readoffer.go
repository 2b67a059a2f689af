package draw

import (
	"strconv"
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

func (r *reader) readOffers(root *xmltree.Element) {
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
		r.p.Addresses = &Addresses{countOrUnknown(value(e, "available")), countOrUnknown(value(e, "configured"))}
	}
}

func countOrUnknown(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// assignUnmanaged assigns nodes without a manager to the document's only named manager,
// because the aggregate that receives the document does the same. If several managers are
// named, these nodes keep a manager without a name.
func (r *reader) assignUnmanaged() {
	unnamed, known := r.managers[""]
	if !known || len(r.p.Managers) != 2 {
		return
	}
	r.p.Managers = []Manager{r.p.Managers[1-unnamed]}
	for i := range r.p.Nodes {
		r.p.Nodes[i].Manager = 0
	}
}

// authorityOf also reads URNs that are too long or contain blanks.
func authorityOf(id string) string {
	if u, err := urn.Parse(id); err == nil {
		return u.Authority
	}
	if parts := strings.SplitN(id, "+", 4); len(parts) == 4 && strings.EqualFold(parts[0], "urn:publicid:IDN") {
		return parts[1]
	}
	return ""
}
