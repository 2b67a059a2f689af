package rspec

import (
	"strconv"
	"strings"

	"patchbay/am/urn"
	"patchbay/schemas/xmltree"
)

// annotate edits the own node e for a manifest: it removes facts of an earlier manifest, and writes f.
func (s *splices) annotate(e *xmltree.Element, f *NodeFacts, manager urn.URN) {
	t := s.startTag(e)
	if !f.ComponentID.IsZero() {
		t.setURN("component_id", f.ComponentID)
	}
	if trimmed(e, "component_manager_id") == "" { // an own node that names a manager names this aggregate
		t.set("component_manager_id", manager.String())
	}
	if f.ComponentName != "" {
		t.set("component_name", f.ComponentName)
	}
	if f.SliverID.IsZero() {
		t.drop("", "sliver_id")
	} else {
		t.setURN("sliver_id", f.SliverID)
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
		s.annotateInterface(i, f.Interfaces[value(i, "client_id")])
	}
	s.annotateServices(e, f, &added)
	s.annotateExtensions(e, f, &added)
	s.appendTo(e, added.String())
}

// annotateType adds an image to the requested sliver type if the type has none. It removes
// further sliver types, because they have no effect. If the request has no sliver type,
// annotateType writes one to added, the text for the end of the node.
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
		for _, more := range types[1:] {
			s.cut(more)
		}
	case f.SliverType != "":
		added.WriteString(openTag(Namespace, "sliver_type", "name", f.SliverType) + ">")
		image(added, inherited)
		added.WriteString(`</sliver_type>`)
	}
}

// annotateServices replaces the logins, users and proxies of an earlier manifest. If the
// request has no services element, a new one goes to added.
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
		space = inherited // the new services element declares the namespace
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
		s.addExtension(userSpace, userSchema)
		b.WriteString(openTag(userSpace, "services_user", "login", u.Login, "user_urn", u.URN.String()) + ">")
		for _, k := range u.Keys {
			b.WriteString("<public_key>" + escape(strings.TrimSpace(k)) + "</public_key>")
		}
		b.WriteString("</services_user>")
	}
	for _, p := range f.Proxies {
		s.addExtension(proxySpace, proxySchema)
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

// isAccount reports whether e is a login, user or proxy, which only manifests contain.
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

// annotateExtensions writes the granted values, the sliver's times and state, and the node's
// physical identity in place of those of an earlier manifest.
func (s *splices) annotateExtensions(e *xmltree.Element, f *NodeFacts, added *strings.Builder) {
	sliver, vnode := f.Sliver.complete(), f.VNode != nil && f.VNode.Name != ""
	for _, c := range e.Elements() {
		isSliver := c.Space == sliverSpace && c.Local == "geni_sliver_info"
		isVNode := c.Space == emulabSpace && c.Local == "vnode"
		isGranted := c.Space == matchSpace && c.Local == "granted"
		if isSliver && sliver || isVNode && vnode || isGranted || isNotice(c) {
			s.cut(c)
		}
	}
	for _, g := range f.Granted {
		s.addExtension(matchSpace, matchSchema)
		writeElement(added, matchSpace, "granted", "feature", g.Feature, "value", g.Value)
	}
	s.writeNotices(added, f.Notices)
	if sliver {
		s.addExtension(sliverSpace, sliverSchema)
		i := f.Sliver
		writeElement(added, sliverSpace, "geni_sliver_info", "creator_urn", i.Creator.String(), "creation_time", stamp(i.Created),
			"expiration_time", stamp(i.Expires), "state", i.State, "resource_id", i.ResourceID, "error", i.Error)
	}
	if vnode {
		s.addExtension(emulabSpace, vnodeSchema)
		writeElement(added, emulabSpace, "vnode", "name", f.VNode.Name, "hardware_type", f.VNode.HardwareType)
	}
}

func isNotice(e *xmltree.Element) bool { return e.Space == originSpace && e.Local == "notice" }

func (s *splices) writeNotices(b *strings.Builder, notices []string) {
	for _, text := range notices {
		s.addExtension(originSpace, originSchema)
		b.WriteString(openTag(originSpace, "notice") + ">" + escape(text) + "</notice>")
	}
}

// inherited means the namespace of the enclosing element, which needs no declaration.
const inherited = ""

// openTag returns a start tag without its closing bracket. attrs has names and values in turn; attributes with
// an empty value are left out.
func openTag(space, local string, attrs ...string) string {
	tag := "<" + local
	if space != inherited {
		tag += ` xmlns="` + space + `"`
	}
	for i := 0; i < len(attrs); i += 2 {
		if attrs[i+1] != "" {
			tag += " " + attrs[i] + `="` + escape(attrs[i+1]) + `"`
		}
	}
	return tag
}

// writeElement writes an empty element; attrs is as in openTag.
func writeElement(b *strings.Builder, space, local string, attrs ...string) {
	b.WriteString(openTag(space, local, attrs...) + "/>")
}

// writeAround writes an element with the content inner, or an empty element if there is none.
func writeAround(b *strings.Builder, local, inner string, attrs ...string) {
	if inner == "" {
		writeElement(b, inherited, local, attrs...)
		return
	}
	b.WriteString(openTag(inherited, local, attrs...) + ">" + inner + "</" + local + ">")
}
