package rspec

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"patchbay/rspec/hostname"
	"patchbay/schemas/xmltree"
)

// Wishes about networks, by the element that has them.
var (
	interfaceWishes = []string{"public", "dns", "outports", "proxy"}
	nodeWishes      = []string{"nat"}
	linkWishes      = []string{"cidr", "outports", "route", "proxy"}
)

// maxNames limits the DNS names of a node.
const maxNames = 64

// readNodeWish reads e, a wish in the node n.
func (p *requestParser) readNodeWish(e *xmltree.Element, n *Node) {
	if p.checkWish(e, "node", n.ClientID, nodeWishes) {
		n.Wishes = addWish(n.Wishes, e.Local)
	}
}

// readInterfaceWish reads e, a wish in the interface in of the node n.
func (p *requestParser) readInterfaceWish(e *xmltree.Element, n *Node, in *Interface) {
	if !p.checkWish(e, "interface", in.ClientID, interfaceWishes) {
		return
	}
	if e.Local != "dns" {
		in.Public = in.Public || e.Local == "public"
		n.RoutableIP = n.RoutableIP || in.Public
		n.Wishes = addWish(n.Wishes, e.Local)
		return
	}
	name := strings.ToLower(trimmed(e, "name"))
	switch {
	case slices.Contains(n.DNSNames, name):
	case len(n.DNSNames) == maxNames:
		p.refuse(TooBig, place{e, ""}, in.ClientID, "leave some out", "node %.80q has more than %d DNS names", n.ClientID, maxNames)
	default:
		n.DNSNames = append(n.DNSNames, name)
	}
}

// readLinkWish reads e, a wish in the link l.
func (p *requestParser) readLinkWish(e *xmltree.Element, l *Link) {
	if !p.checkWish(e, "link", l.ClientID, linkWishes) {
		return
	}
	if e.Local != "cidr" {
		l.Wishes = addWish(l.Wishes, e.Local)
		return
	}
	if l.Range.IsValid() {
		p.badArgs(place{e, ""}, l.ClientID, "keep one of them", "link %.80q has two ranges of addresses", l.ClientID)
		return
	}
	l.Range, _ = netip.ParsePrefix(trimmed(e, "range"))
}

func addWish(list []string, wish string) []string {
	if slices.Contains(list, wish) {
		return list
	}
	return append(list, wish)
}

// checkWish reports whether e is one of the wishes that an element of this kind can have, and has
// correct values. Otherwise it records a remark or a mistake.
func (p *requestParser) checkWish(e *xmltree.Element, kind, id string, wishes []string) bool {
	if !slices.Contains(wishes, e.Local) {
		p.remark(place{e, ""}, id, "use "+strings.Join(wishes, ", ")+"; "+ignored, "%s %.80q has an unknown element <%.40s> about networks", kind, id, e.Local)
		return false
	}
	attr, remedy := "", ""
	switch e.Local {
	case "dns":
		if name := trimmed(e, "name"); hostname.IsLoopback(name) {
			attr, remedy = "name", "use another name, since this one is of each node itself"
		} else if !IsDNSName(name) {
			attr, remedy = "name", "write one such as www.example.org, of letters, digits, hyphens and dots"
		}
	case "outports":
		if err := CheckPorts(trimmed(e, "ports")); err != nil {
			p.badArgs(place{e, "ports"}, id, "write ports such as 8080/tcp,9000:9100/udp", "%s %.80q has wrong outports: %v", kind, id, err)
			return false
		}
	case "route":
		if _, err := netip.ParsePrefix(trimmed(e, "to")); err != nil {
			attr, remedy = "to", "write a network such as 10.0.0.0/8"
		} else if value(e, "via") == "" {
			attr, remedy = "via", "write the client_id of a node of the slice"
		}
	case "proxy":
		attr, remedy = wrongProxy(e)
	case "cidr":
		if !isRange(trimmed(e, "range")) {
			attr, remedy = "range", "write one such as 10.1.0.0/24, in which all bits after the length are 0"
		}
	}
	if attr != "" {
		p.badArgs(place{e, attr}, id, remedy, "%s %.80q has a <%s> with %s=%.80q", kind, id, e.Local, attr, value(e, attr))
	}
	return attr == ""
}

// wrongProxy returns the first wrong attribute of a proxy with its remedy, or "".
func wrongProxy(e *xmltree.Element) (attr, remedy string) {
	switch user, host := trimmed(e, "user"), trimmed(e, "host"); {
	case user == "" || strings.ContainsAny(user, "@:/ \t\r\n"):
		return "user", "write the name of an account, without a password"
	case host == "" || strings.ContainsAny(host, "@/ \t\r\n"):
		return "host", "write a name or an address"
	}
	text, given := e.Attr("", "port")
	if n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16); given && (err != nil || n == 0) {
		return "port", "write a number from 1 to 65535, or leave it out"
	}
	return "", ""
}

// isRange requires that nodes can have addresses of the range.
func isRange(text string) bool {
	p, err := netip.ParsePrefix(text)
	a := p.Addr()
	return err == nil && p == p.Masked() && p.Bits() > 0 && !a.Is4In6() && !a.IsMulticast() && !a.IsLoopback() && !a.IsUnspecified()
}

// IsDNSName reports whether nodes can have the name. It accepts names of one label, too, but no IPv4 address
// and no name of each node itself, such as localhost.
func IsDNSName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	if len(s) > 253 || hostname.IsLoopback(s) {
		return false
	}
	last := ""
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, letters+"-") != "" || strings.Trim(label, "-") != label {
			return false
		}
		last = label
	}
	return strings.Trim(last, "0123456789") != ""
}
