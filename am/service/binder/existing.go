package binder

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// LinkEnd is an interface of a live sliver on a link, and the component of the sliver.
type LinkEnd struct {
	Interface am.Interface
	Component urn.URN
}

// readExisting makes a link that has ends in the slice already keep their type and shared VLAN.
func (b *binding) readExisting(w *wire) {
	if len(b.Existing[w.ClientID]) == 0 {
		return
	}
	w.existing = b.Existing[w.ClientID]
	is, l := w.existing[0].Interface, *w.Link
	switch {
	case l.Type == "" || strings.EqualFold(l.Type, is.LinkType):
	case is.LinkType != "":
		b.refuseLink(w, am.BadArgs, "it has the type %.80q in the slice, not %.80q; leave link_type out", is.LinkType, l.Type)
	case isTunnel(l.Type):
		b.refuseLink(w, am.BadArgs, "it is no tunnel in the slice; leave the link_type %.80q out", l.Type)
	}
	switch {
	case l.SharedVLAN == "" || l.SharedVLAN == is.SharedVLAN:
	case is.SharedVLAN == "":
		b.refuseLink(w, am.BadArgs, "it is on no shared VLAN in the slice; leave link_shared_vlan out")
	default:
		b.refuseLink(w, am.BadArgs, "it is on the shared VLAN %.80q in the slice, not %.80q; leave link_shared_vlan out", is.SharedVLAN, l.SharedVLAN)
	}
	if is.LinkType != "" {
		l.Type = is.LinkType
	}
	l.SharedVLAN = is.SharedVLAN
	w.Link = &l
}

// checkExisting restricts the wire to the physical link that its existing ends use.
func (b *binding) checkExisting(w *wire) {
	if len(w.existing) == 0 {
		return
	}
	b.checkAddresses(w)
	if w.tunnel || w.shared != nil {
		return
	}
	tag := w.existing[0].Interface.VLAN
	if tag != 0 || len(b.x.inv.VLANs) == 0 { // else no physical link is between them
		for _, e := range w.existing {
			c, _ := b.x.inv.Component(e.Component)
			i := am.InterfaceHold{Component: []byte(e.Interface.Component.Key()), ComponentName: []byte(e.Interface.ComponentName)}
			if p := b.x.interfaceOf(&i, c); p != nil && !e.Interface.Component.IsZero() {
				w.over = p.Link
				break
			}
		}
	}
	switch {
	case w.over != nil && !w.allows(w.over):
		b.refuseLink(w, am.Unsupported, "in the slice it runs over the physical link %s; leave component_id and link_type out", w.over.Name)
	case w.over != nil:
		w.only = []*inventory.Link{w.over}
	case tag != 0:
		b.refuseLink(w, am.Unsupported, "the inventory does not have its physical link any more; make another link")
	}
}

// checkAddresses refuses addresses that the existing ends have already, and those outside of their
// networks.
func (b *binding) checkAddresses(w *wire) {
	owner := map[netip.Addr]string{}
	has := map[netip.Prefix]bool{}
	has4, has6 := false, false
	var networks string // of the existing ends
	for _, e := range w.existing {
		for _, a := range e.Interface.Addresses {
			owner[a.Addr()], has[a.Masked()] = e.Interface.ClientID, true
			has4, has6 = has4 || a.Addr().Is4(), has6 || a.Addr().Is6()
		}
	}
	for _, e := range w.ends {
		for _, a := range b.nodes[e.node].Interfaces[e.number].Addresses {
			other, taken := owner[a.Addr()]
			switch isFamily := a.Addr().Is4() && has4 || a.Addr().Is6() && has6; {
			case taken:
				b.refuseLink(w, am.BadArgs, "its interface %.80q has the address %s of the interface %.80q in the slice; write another, or leave the choice to the site", b.clientID(e), a.Addr(), other)
			case isFamily && !has[a.Masked()]:
				if networks == "" {
					networks = list(slices.SortedFunc(maps.Keys(has), netip.Prefix.Compare), netip.Prefix.String)
				}
				b.refuseLink(w, am.BadArgs, "its interface %.80q has the address %s, but in the slice the link has %s; write an address of it, or leave the choice to the site", b.clientID(e), a, networks)
			}
		}
	}
}

// existingAddresses returns the addresses of the existing ends.
func (w *wire) existingAddresses() (all []netip.Prefix) {
	for _, e := range w.existing {
		all = append(all, e.Interface.Addresses...)
	}
	return all
}

// refuseApart refuses a link without a physical link whose new ends are on other components.
func (b *binding) refuseApart(w *wire) {
	var names []string
	for _, e := range w.existing {
		name := e.Component.Name
		if c, ok := b.x.inv.Component(e.Component); ok {
			name = c.Name
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if len(names) > 10 { // list shows no more
			break
		}
	}
	b.refuseLink(w, am.Unsupported, "in the slice it is on %s, without a physical link; bind its new nodes there by component_id, or use another link", list(names, identity))
}
