package view

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

func (r *reader) readNode(e *xmltree.Element) {
	component := Value(e, "component_id")
	n := Node{
		Element:   e,
		Name:      Value(e, "client_id"),
		Manager:   r.managerNumber(Value(e, "component_manager_id"), component),
		Component: cmp.Or(componentName(Value(e, "component_name")), componentName(component)),
		Exclusive: boolValue(e, "exclusive"),
		Sliver:    Value(e, "sliver_id"),
	}
	n.Name = cmp.Or(n.Name, n.Component)
	for _, t := range r.children(e, "sliver_type") {
		n.SliverTypes = addNew(n.SliverTypes, lastName(Value(t, "name")))
		n.Image = cmp.Or(n.Image, imageName(r.firstChild(t, "disk_image")))
	}
	n.Image = cmp.Or(n.Image, imageName(r.firstChild(e, "disk_image")))
	if r.d.Kind == Advertisement {
		n.Component, n.Image = "", ""
	}
	for _, h := range r.children(e, "hardware_type") {
		n.HardwareType = cmp.Or(n.HardwareType, lastName(Value(h, "name")))
		for _, t := range Children(h, "node_type", schemas.Emulab) {
			if slots, err := strconv.Atoi(Value(t, "type_slots")); err == nil && slots > n.Slots {
				n.Slots = min(slots, maxSlots)
			}
		}
	}
	n.Available = boolValue(r.firstChild(e, "available"), "now")
	for _, h := range r.children(e, "host") {
		n.Hosts = append(n.Hosts, Host{Value(h, "name"), Value(h, "ipv4")})
	}
	for _, s := range r.children(e, "services") {
		for _, l := range r.children(s, "login") {
			n.Logins = append(n.Logins, Login{Value(l, "username"), Value(l, "hostname"), Value(l, "port")})
		}
		for _, p := range Children(s, "proxy", schemas.Proxy) {
			n.Proxies = append(n.Proxies, Proxy{Value(p, "proxy"), Value(p, "for")})
		}
		for _, u := range Children(s, "services_user", schemas.User, schemas.OldUser) {
			n.Accounts = append(n.Accounts, Value(u, "login"))
		}
	}
	for _, info := range Children(e, "geni_sliver_info", schemas.SliverInfo) {
		n.State, n.Error = Value(info, "state"), Value(info, "error")
	}
	n.Monitored = monitored(e)
	for _, i := range r.children(e, "interface") {
		n.Interfaces = append(n.Interfaces, r.readInterface(i, interfaceIndex{len(r.d.Nodes), len(n.Interfaces)}))
	}
	r.d.Nodes = append(r.d.Nodes, n)
}

// readInterface returns the interface of the element i. It records the names by which links refer to it, for readLink.
func (r *reader) readInterface(i *xmltree.Element, index interfaceIndex) Interface {
	client, component := Value(i, "client_id"), Value(i, "component_id")
	in := Interface{Name: cmp.Or(client, componentName(component)), MAC: Value(i, "mac_address")}
	for _, name := range []string{client, component} {
		// Several interfaces of a manifest may share a component.
		if _, taken := r.interfaces[name]; !taken && name != "" {
			r.interfaces[name] = index
		}
	}
	for _, ip := range r.children(i, "ip") {
		if a := Value(ip, "address"); a != "" {
			in.Addresses = append(in.Addresses, a)
		}
	}
	return in
}

const (
	maxTypes = 64      // types in each list of sliver types, link types or speeds
	maxSlots = 1 << 20 // a larger number is reduced to this
)

// monitored reports whether monitoring is enabled or supported, in either namespace of the extension.
func monitored(e *xmltree.Element) bool {
	for _, m := range Children(e, "monitoring", schemas.Monitoring, schemas.OldMonitoring) {
		if isTrue(m, "enabled") || isTrue(m, "supported") {
			return true
		}
	}
	return false
}

// componentName returns the name in a URN; other texts remain.
func componentName(id string) string {
	if u, err := urn.Parse(id); err == nil {
		return u.Name
	}
	// Some URNs exceed the length limit or contain blanks, and urn.Parse rejects them.
	if parts := strings.SplitN(id, "+", 4); len(parts) == 4 && strings.HasPrefix(id, "urn:publicid:") {
		return parts[3]
	}
	return id
}

// imageName returns the short name of a URN, a name or a URL.
func imageName(e *xmltree.Element) string {
	name := lastName(cmp.Or(Value(e, "name"), Value(e, "url")))
	// Emulab writes PROJECT:IMAGE.
	if i := strings.LastIndexByte(name, ':'); i >= 0 && i < len(name)-1 {
		name = name[i+1:]
	}
	return name
}

// String returns a command line for the login: "ssh -p 2022 user@host". If a
// name could have a meaning for a shell or for ssh, it returns user@host:port.
func (l Login) String() string {
	s := l.Host
	if l.User != "" {
		s = l.User + "@" + s
	}
	if !plainName(l.Host) || l.User != "" && !plainName(l.User) || strings.Trim(l.Port, "0123456789") != "" {
		return s + ":" + l.Port
	}
	if l.Port != "" && l.Port != "22" {
		s = "-p " + l.Port + " " + s
	}
	return "ssh " + s
}

// plainNames matches names without a meaning for a shell or for ssh.
var plainNames = regexp.MustCompile(`^[a-zA-Z0-9._:][a-zA-Z0-9._:-]*$`)

func plainName(s string) bool {
	return plainNames.MatchString(s)
}
