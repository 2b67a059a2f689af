package rspec

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

// NodeFacts are what a manifest tells about an own node. An empty field tells
// nothing, except that Hosts, Logins, Users and Proxies always replace what the
// request had of them.
type NodeFacts struct {
	ComponentID, SliverID urn.URN
	ComponentName         string
	Exclusive             bool
	// SliverType and DiskImage are told only where the request names none;
	// so is HardwareType.
	SliverType, DiskImage, HardwareType string

	Hosts   []Host
	Logins  []Login
	Users   []User
	Proxies []Proxy

	// Interfaces are told by client_id.
	Interfaces map[string]InterfaceFacts
	// Sliver is told as geni_sliver_info, VNode as Emulab's vnode; what the
	// request had of them is replaced then, and else copied.
	Sliver *SliverInfo
	VNode  *VNode
}

// InterfaceFacts are what a manifest tells about an interface of an own node.
type InterfaceFacts struct {
	// ComponentID is the physical interface.
	ComponentID urn.URN
	// MAC is told as it is written here.
	MAC string
	// Addresses are told where the request names none.
	Addresses []netip.Prefix
}

// LinkFacts are what a manifest tells about an own link.
type LinkFacts struct {
	// VLANTag is the tag of its VLAN; empty if there is none.
	VLANTag string
}

// SliverInfo is the life of a sliver, for the sliver-info extension.
type SliverInfo struct {
	Creator          urn.URN
	Created, Expires time.Time
	// State is the operational state, Error what went wrong last.
	State, Error string
}

// VNode is the physical identity of a node, for the Emulab extension.
type VNode struct{ Name, HardwareType string }

// Host is a name, and perhaps an address, of a node.
type Host struct{ Name, IPv4 string }

// Login is a way to log in with an SSH key.
type Login struct {
	Hostname string
	// Port is 22 if it is 0.
	Port     int
	Username string
}

// User is an account of a node and the keys that open it.
type User struct {
	Login string
	URN   urn.URN
	Keys  []string
}

// Proxy is an SSH gateway in front of a login, both user@host:port.
type Proxy struct{ Proxy, For string }

// annotate writes the facts into an own node.
func (s *splices) annotate(e *xmltree.Element, f *NodeFacts, manager urn.URN) {
	t := s.startTag(e)
	if !f.ComponentID.IsZero() {
		t.set("component_id", f.ComponentID.String())
	}
	if strings.TrimSpace(value(e, "component_manager_id")) == "" { // else it names us
		t.set("component_manager_id", manager.String())
	}
	if f.ComponentName != "" {
		t.set("component_name", f.ComponentName)
	}
	if f.SliverID.IsZero() {
		t.drop("sliver_id")
	} else {
		t.set("sliver_id", f.SliverID.String())
	}
	if v, ok := boolean(value(e, "exclusive")); !ok || v != f.Exclusive {
		t.set("exclusive", strconv.FormatBool(f.Exclusive))
	}

	var added strings.Builder
	s.annotateType(e, f, &added)
	if f.HardwareType != "" && len(children(e, "hardware_type")) == 0 {
		writeElement(&added, Namespace, "hardware_type", "name", f.HardwareType)
	}
	for _, h := range children(e, "host") {
		s.cut(h)
	}
	for _, h := range f.Hosts {
		writeElement(&added, Namespace, "host", "name", h.Name, "ipv4", h.IPv4)
	}
	for _, i := range children(e, "interface") {
		t := s.startTag(i)
		t.drop("sliver_id")
		t.drop("mac_address")
		for _, h := range children(i, "host") {
			s.cut(h)
		}
	}
	s.annotateServices(e, f, &added)
	s.appendTo(e, added.String())
}

// annotateType tells sliver type and image where the request is silent.
func (s *splices) annotateType(e *xmltree.Element, f *NodeFacts, added *strings.Builder) {
	image := func(b *strings.Builder, space string) {
		if f.DiskImage != "" {
			writeElement(b, space, "disk_image", "name", f.DiskImage)
		}
	}
	types := children(e, "sliver_type")
	switch {
	case len(types) > 0:
		if len(children(types[0], "disk_image")) == 0 {
			var b strings.Builder
			image(&b, Namespace)
			s.appendTo(types[0], b.String())
		}
	case f.SliverType != "":
		added.WriteString(`<sliver_type xmlns="` + Namespace + `" name="` + escape(f.SliverType) + `">`)
		image(added, inherited)
		added.WriteString(`</sliver_type>`)
	}
}

// annotateServices drops the accounts of an earlier manifest and tells ours.
func (s *splices) annotateServices(e *xmltree.Element, f *NodeFacts, added *strings.Builder) {
	services := children(e, "services")
	for _, v := range services {
		for _, c := range v.Elements() {
			if isAccount(c) {
				s.cut(c)
			}
		}
	}
	space := Namespace
	if len(services) == 0 {
		space = inherited // from the services element of our own
	}
	var b strings.Builder
	for _, l := range f.Logins {
		port := l.Port
		if port == 0 {
			port = 22
		}
		writeElement(&b, space, "login", "authentication", "ssh-keys", "hostname", l.Hostname, "port", strconv.Itoa(port), "username", l.Username)
	}
	for _, u := range f.Users {
		b.WriteString(`<services_user xmlns="` + userSpace + `" login="` + escape(u.Login) + `"`)
		if !u.URN.IsZero() {
			b.WriteString(` user_urn="` + escape(u.URN.String()) + `"`)
		}
		b.WriteByte('>')
		for _, k := range u.Keys {
			b.WriteString("<public_key>" + escape(strings.TrimSpace(k)) + "</public_key>")
		}
		b.WriteString("</services_user>")
	}
	for _, p := range f.Proxies {
		writeElement(&b, proxySpace, "proxy", "proxy", p.Proxy, "for", p.For)
	}
	switch {
	case b.Len() == 0:
	case len(services) > 0:
		s.appendTo(services[0], b.String())
	default:
		added.WriteString(`<services xmlns="` + Namespace + `">` + b.String() + `</services>`)
	}
}

// isAccount tells what in services is a fact of a manifest.
func isAccount(e *xmltree.Element) bool {
	switch e.Space {
	case Namespace:
		return e.Local == "login"
	case userSpace, oldUserSpace:
		return e.Local == "services_user"
	case proxySpace:
		return e.Local == "proxy"
	}
	return false
}

// annotateLink drops the facts of an earlier manifest: links and interfaces are
// no slivers here.
func (s *splices) annotateLink(e *xmltree.Element) {
	s.startTag(e).drop("sliver_id")
	for _, ref := range children(e, "interface_ref") {
		s.startTag(ref).drop("sliver_id")
	}
}

// inherited is the namespace of an element inside one of our own.
const inherited = ""

// writeElement writes an empty element that declares its namespace, with
// attributes given as name, value; those without a value are left out.
func writeElement(b *strings.Builder, space, local string, attrs ...string) {
	b.WriteString("<" + local)
	if space != inherited {
		b.WriteString(` xmlns="` + space + `"`)
	}
	for i := 0; i < len(attrs); i += 2 {
		if attrs[i+1] != "" {
			b.WriteString(" " + attrs[i] + `="` + escape(attrs[i+1]) + `"`)
		}
	}
	b.WriteString("/>")
}
