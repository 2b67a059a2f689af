package draw

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
	component := value(e, "component_id")
	n := Node{
		Name:      value(e, "client_id"),
		Manager:   r.managerNumber(value(e, "component_manager_id"), component),
		Component: cmp.Or(componentName(value(e, "component_name")), componentName(component)),
		Exclusive: boolValue(e, "exclusive"),
		Sliver:    value(e, "sliver_id"),
	}
	n.Name = cmp.Or(n.Name, n.Component)
	for _, t := range r.children(e, "sliver_type") {
		n.SliverTypes = addNew(n.SliverTypes, lastName(value(t, "name")))
		n.Image = cmp.Or(n.Image, imageName(r.firstChild(t, "disk_image")))
	}
	n.Image = cmp.Or(n.Image, imageName(r.firstChild(e, "disk_image")))
	if r.p.Kind == Advertisement {
		n.Component, n.Image = "", ""
	}
	for _, h := range r.children(e, "hardware_type") {
		n.HardwareType = cmp.Or(n.HardwareType, lastName(value(h, "name")))
		for _, t := range childrenOf(h, "node_type", schemas.Emulab) {
			if slots, err := strconv.Atoi(value(t, "type_slots")); err == nil && slots > n.Slots {
				n.Slots = min(slots, maxSlots)
			}
		}
	}
	n.Available = boolValue(r.firstChild(e, "available"), "now")
	for _, h := range r.children(e, "host") {
		n.Hosts = append(n.Hosts, Host{value(h, "name"), value(h, "ipv4")})
	}
	for _, s := range r.children(e, "services") {
		for _, l := range r.children(s, "login") {
			n.Logins = append(n.Logins, Login{value(l, "username"), value(l, "hostname"), value(l, "port")})
		}
		for _, p := range childrenOf(s, "proxy", schemas.Proxy) {
			n.Proxies = append(n.Proxies, Proxy{value(p, "proxy"), value(p, "for")})
		}
		for _, u := range childrenOf(s, "services_user", schemas.User, schemas.OldUser) {
			n.Accounts = append(n.Accounts, value(u, "login"))
		}
	}
	for _, info := range childrenOf(e, "geni_sliver_info", schemas.SliverInfo) {
		n.State, n.Error = value(info, "state"), value(info, "error")
	}
	n.Monitored = monitored(e)
	for _, i := range r.children(e, "interface") {
		n.Interfaces = append(n.Interfaces, r.readInterface(i, interfaceIndex{len(r.p.Nodes), len(n.Interfaces)}))
	}
	r.p.Nodes = append(r.p.Nodes, n)
}

// readInterface records, for readLink, the names by which links refer to the interface.
func (r *reader) readInterface(i *xmltree.Element, index interfaceIndex) Interface {
	client, component := value(i, "client_id"), value(i, "component_id")
	in := Interface{Name: cmp.Or(client, componentName(component)), MAC: value(i, "mac_address")}
	for _, name := range []string{client, component} {
		// Several interfaces of a manifest may share a component.
		if _, taken := r.interfaces[name]; !taken && name != "" {
			r.interfaces[name] = index
		}
	}
	for _, ip := range r.children(i, "ip") {
		if a := value(ip, "address"); a != "" {
			in.Addresses = append(in.Addresses, a)
		}
	}
	return in
}

const (
	maxTypes = 64      // types in each list of sliver types, link types or speeds
	maxSlots = 1 << 20 // a larger number is reduced to this
)

// monitored accepts both namespaces of the extension.
func monitored(e *xmltree.Element) bool {
	for _, m := range childrenOf(e, "monitoring", schemas.Monitoring, schemas.OldMonitoring) {
		if isTrue(m, "enabled") || isTrue(m, "supported") {
			return true
		}
	}
	return false
}

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
	name := lastName(cmp.Or(value(e, "name"), value(e, "url")))
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
