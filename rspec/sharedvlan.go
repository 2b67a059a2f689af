package rspec

import (
	"patchbay/schemas/xmltree"
)

// isSharedVLAN knows the wish for a shared VLAN in both of its namespaces.
func isSharedVLAN(e *xmltree.Element) bool {
	return e.Local == "link_shared_vlan" && (e.Space == sharedVLANSpace || e.Space == oldSharedVLANSpace)
}

// joinVLANs reads which shared VLAN a link joins; its wishes must not differ.
func (p *requestParser) joinVLANs(l *Link, wishes []*xmltree.Element) {
	for _, e := range wishes {
		name, tag := trimmed(e, "name"), trimmed(e, "vlantag")
		switch {
		case name == "":
			p.wrong(place{e, "name"}, l.ClientID, "name one of the advertisement", "link %.80q joins a shared VLAN without a name", l.ClientID)
		case l.SharedVLAN != "" && name != l.SharedVLAN:
			p.refuse(Unsupported, place{e, "name"}, l.ClientID, "keep one of them, or make a link for each", "link %.80q joins two shared VLANs, %.80q and %.80q", l.ClientID, l.SharedVLAN, name)
		case l.SharedTag != "" && tag != "" && tag != l.SharedTag:
			p.wrong(place{e, "vlantag"}, l.ClientID, "keep one of them", "link %.80q asks for two tags of the shared VLAN %.80q, %.20q and %.20q", l.ClientID, name, l.SharedTag, tag)
		default:
			l.SharedVLAN = name
			if tag != "" {
				l.SharedTag = tag
			}
		}
	}
}

// joinEnds reads the wishes in the interfaces that a link ends at. They stand
// for the link's where all name one VLAN; else each is for a VLAN of that
// interface alone, as some switches translate them, which is not done here.
func (p *requestParser) joinEnds(l *Link, wishes []*xmltree.Element) {
	name := l.SharedVLAN
	for _, e := range wishes {
		other := trimmed(e, "name")
		if other == "" || name != "" && other != name {
			p.remark(place{e, "name"}, l.ClientID, "it is copied, and nothing is done about it", "link %.80q ends at interfaces with shared VLANs of their own", l.ClientID)
			return
		}
		name = other
	}
	p.joinVLANs(l, wishes)
}
