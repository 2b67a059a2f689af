package rspec

import (
	"patchbay/schemas/xmltree"
)

// isSharedVLAN accepts both namespaces of the extension.
func isSharedVLAN(e *xmltree.Element) bool {
	return e.Local == "link_shared_vlan" && (e.Space == sharedVLANSpace || e.Space == oldSharedVLANSpace)
}

// readSharedVLANs sets the shared VLAN and the tag of the link from the elements, which must all name the same
// VLAN, and must not request different tags.
func (p *requestParser) readSharedVLANs(l *Link, elements []*xmltree.Element) {
	for _, e := range elements {
		name, tag := trimmed(e, "name"), trimmed(e, "vlantag")
		switch {
		case name == "":
			p.badArgs(place{e, "name"}, l.ClientID, "name one of the advertisement", "link %.80q joins a shared VLAN without a name", l.ClientID)
		case l.SharedVLAN != "" && name != l.SharedVLAN:
			p.refuse(Unsupported, place{e, "name"}, l.ClientID, "keep one of them, or make a link for each", "link %.80q joins two shared VLANs, %.80q and %.80q", l.ClientID, l.SharedVLAN, name)
		case l.SharedTag != "" && tag != "" && tag != l.SharedTag:
			p.badArgs(place{e, "vlantag"}, l.ClientID, "keep one of them", "link %.80q asks for two tags of the shared VLAN %.80q, %.20q and %.20q", l.ClientID, name, l.SharedTag, tag)
		default:
			l.SharedVLAN = name
			if tag != "" {
				l.SharedTag = tag
			}
		}
	}
}

// readEndVLANs reads the shared VLANs that the interfaces of a link request. The link joins a
// VLAN if all these requests, and the link's own request if there is one, name the same VLAN.
// Otherwise the requests of the interfaces get a remark and are ignored.
func (p *requestParser) readEndVLANs(l *Link, elements []*xmltree.Element) {
	name := l.SharedVLAN
	for _, e := range elements {
		other := trimmed(e, "name")
		if other == "" || name != "" && other != name {
			p.remark(place{e, "name"}, l.ClientID, ignored, "the interfaces of link %.80q do not all request the same shared VLAN", l.ClientID)
			return
		}
		name = other
	}
	p.readSharedVLANs(l, elements)
}
