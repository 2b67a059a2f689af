package view

import (
	"strconv"
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

func (r *reader) readOffers(root *xmltree.Element) {
	if r.d.Kind != Advertisement {
		return
	}
	for _, list := range Children(root, "rspec_shared_vlan", schemas.SharedVLAN, schemas.OldSharedVLAN) {
		for _, e := range Children(list, "available", schemas.SharedVLAN, schemas.OldSharedVLAN) {
			r.d.SharedVLANs = append(r.d.SharedVLANs, SharedVLAN{
				Name:        Value(e, "name"),
				Tag:         Value(e, "localTag"),
				Description: Value(e, "description"),
				Restricted:  isTrue(e, "restricted"),
			})
		}
	}
	for _, e := range Children(root, "rspec_routable_addresses", schemas.Emulab) {
		r.d.Addresses = &Addresses{countOrUnknown(Value(e, "available")), countOrUnknown(Value(e, "configured"))}
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
	if !known || len(r.d.Managers) != 2 {
		return
	}
	r.d.Managers = []Manager{r.d.Managers[1-unnamed]}
	for i := range r.d.Nodes {
		r.d.Nodes[i].Manager = 0
	}
}

// authorityOf returns the authority in a URN, also if that is too long or contains blanks; "" for other texts.
func authorityOf(id string) string {
	if u, err := urn.Parse(id); err == nil {
		return u.Authority
	}
	if parts := strings.SplitN(id, "+", 4); len(parts) == 4 && strings.EqualFold(parts[0], "urn:publicid:IDN") {
		return parts[1]
	}
	return ""
}
