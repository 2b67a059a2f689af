package faithful_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"patchbay/am/urn"
	"patchbay/rspec"
)

// The rules of the manifest (RSpec digest, "Request → manifest"; their numbers
// stand in the tables). There is no rule that allows what is not listed here.

// verdict is what is to become of an attribute.
type verdict struct {
	state state
	value string
}

type state byte

const (
	keep   state = iota // as it is, or absent as it is
	absent              // goes
	told                // has this value
	may                 // has this value, or stays as it is
)

func tell(value string) verdict {
	if value == "" {
		return verdict{}
	}
	return verdict{told, value}
}

func tellURN(u urn.URN, old string) verdict {
	if u.IsZero() {
		return verdict{}
	}
	if was, err := urn.Parse(strings.TrimSpace(old)); err == nil && was == u {
		return verdict{} // the same in the client's spelling
	}
	return tell(u.String())
}

// attributes are those that a manifest may set or drop on an element of ours.
var attributes = []struct {
	rule, role, name string
	verdict          func(c *check, e *elem) verdict
}{
	{"1 type", "rspec", "type", func(*check, *elem) verdict { return verdict{told, "manifest"} }},
	{"3 generated", "rspec", "generated", func(c *check, _ *elem) verdict {
		return tell(c.s.o.Generated.UTC().Format("2006-01-02T15:04:05Z"))
	}},
	{"3 generated_by", "rspec", "generated_by", func(c *check, _ *elem) verdict { return tell(c.s.o.GeneratedBy) }},
	{"3 expires", "rspec", "expires", func(c *check, _ *elem) verdict {
		return tell(c.s.o.Expires.UTC().Format("2006-01-02T15:04:05Z"))
	}},
	{"6 component_id", "node", "component_id", func(c *check, e *elem) verdict {
		return tellURN(c.node(e).ComponentID, e.get("component_id"))
	}},
	{"6 component_manager_id", "node", "component_manager_id", func(c *check, e *elem) verdict {
		if strings.TrimSpace(e.get("component_manager_id")) != "" {
			return verdict{}
		}
		return tell(c.s.o.Manager.String())
	}},
	{"6 component_name", "node", "component_name", func(c *check, e *elem) verdict { return tell(c.node(e).ComponentName) }},
	{"6, 10 sliver_id", "node", "sliver_id", func(c *check, e *elem) verdict {
		if u := c.node(e).SliverID; !u.IsZero() {
			return tellURN(u, e.get("sliver_id"))
		}
		return verdict{state: absent}
	}},
	{"6 exclusive", "node", "exclusive", func(c *check, e *elem) verdict {
		v := strings.Trim(e.get("exclusive"), blank)
		if real := c.node(e).Exclusive; (v == "true" || v == "1") && real || (v == "false" || v == "0") && !real {
			return verdict{}
		} else {
			return tell(strconv.FormatBool(real))
		}
	}},
	{"7 sliver_type", "sliver_type", "name", func(c *check, e *elem) verdict {
		if strings.TrimSpace(e.get("name")) != "" {
			return verdict{}
		}
		return verdict{may, c.node(e.parent).SliverType}
	}},
	{"12 component_id", "interface", "component_id", func(c *check, e *elem) verdict {
		return tellURN(c.end(e).ComponentID, e.get("component_id"))
	}},
	{"10, 12 mac_address", "interface", "mac_address", func(c *check, e *elem) verdict {
		if mac := c.end(e).MAC; mac != "" {
			return tell(mac)
		}
		return verdict{state: absent}
	}},
	{"13 no sliver_id on interfaces", "interface", "sliver_id", func(*check, *elem) verdict { return verdict{state: absent} }},
	{"12 address", "ip", "address", func(c *check, e *elem) verdict {
		if p, ok := c.open(e.parent)[e]; ok {
			return verdict{told, p.Addr().String()}
		}
		return verdict{}
	}},
	{"12 netmask", "ip", "netmask", func(c *check, e *elem) verdict {
		if p, ok := c.open(e.parent)[e]; ok {
			_, mask := kindAndMask(p)
			return verdict{told, mask}
		}
		return verdict{}
	}},
	{"12 type", "ip", "type", func(c *check, e *elem) verdict {
		if p, ok := c.open(e.parent)[e]; ok {
			kind, _ := kindAndMask(p)
			return verdict{may, kind}
		}
		return verdict{}
	}},
	{"13 vlantag", "link", "vlantag", func(c *check, e *elem) verdict { return tell(c.s.links[e.get("client_id")].VLANTag) }},
	{"13 no sliver_id on links", "link", "sliver_id", func(*check, *elem) verdict { return verdict{state: absent} }},
	{"13 no sliver_id on interface_refs", "interface_ref", "sliver_id", func(*check, *elem) verdict { return verdict{state: absent} }},
	{"13 component_id", "interface_ref", "component_id", func(c *check, e *elem) verdict {
		id := e.get("client_id")
		if bearer := c.r.bearer[id]; bearer != nil {
			if u := c.node(bearer).Interfaces[id].ComponentID; !u.IsZero() {
				return verdict{may, u.String()}
			}
		}
		return verdict{}
	}},
}

// stale are the children that an earlier manifest left on elements of ours
// (rule 10).
var stale = []struct {
	role, space, name string
	goes              func(c *check, parent *elem) bool
}{
	{"node", core, "host", always},
	{"services", core, "login", always},
	{"services", userExt, "services_user", always},
	{"services", userExtPG, "services_user", always},
	{"services", proxyExt, "proxy", always},
	{"node", infoExt, "geni_sliver_info", func(c *check, n *elem) bool { return c.node(n).Sliver != nil }},
	{"node", emulabExt, "vnode", func(c *check, n *elem) bool { return c.node(n).VNode != nil }},
}

func always(*check, *elem) bool { return true }

// check holds one manifest against its request.
type check struct {
	in, out *doc
	r       *reading
	s       story
}

func (c *check) node(e *elem) rspec.NodeFacts { return c.s.nodes[e.get("client_id")] }

// left tells what a manifest of a part of the slice leaves out (rule 22): own
// nodes of which nothing is told, and own links that touch no other own node.
func (c *check) left(e *elem) bool {
	switch c.r.role[e] {
	case "node":
		_, told := c.s.nodes[e.get("client_id")]
		return !told
	case "link":
		for _, ref := range e.all(core, "interface_ref") {
			if n := c.r.bearer[ref.get("client_id")]; n != nil && !c.left(n) {
				return false
			}
		}
		return true
	}
	return false
}

func (c *check) end(e *elem) rspec.InterfaceFacts {
	return c.node(e.parent).Interfaces[e.get("client_id")]
}

// compare lists what is wrong with a manifest.
func compare(request, manifest []byte, managers []urn.URN, s story) []string {
	in, err := parse(request)
	if err != nil {
		return []string{"the request: " + err.Error()}
	}
	out, err := parse(manifest)
	if err != nil {
		return []string{"the manifest: " + err.Error()}
	}
	if in.root.name != out.root.name {
		return []string{fmt.Sprintf("the root <%s> became <%s>", in.root.name, out.root.name)}
	}
	c := &check{in: in, out: out, r: read(in, managers), s: s}
	var wrong []string
	for _, fresh := range []bool{false, true} {
		edits, err := diff(in, out, fresh)
		if err != nil {
			return []string{err.Error()}
		}
		if wrong = c.edits(edits); len(wrong) == 0 {
			break
		}
	}
	return append(wrong, c.complete()...)
}

// edits lists those that no rule allows.
func (c *check) edits(list []edit) (wrong []string) {
	grown := map[*elem]bool{} // what got children
	added := map[*elem][]*elem{}
	for _, e := range list {
		if e.newElem != nil && e.old == "" {
			grown[e.in] = true
			added[e.in] = append(added[e.in], e.newElem)
		}
	}
	for _, e := range list {
		if why := c.forbidden(e, grown); why != "" {
			wrong = append(wrong, fmt.Sprintf("%v: %s", e, why))
		}
	}
	for e, got := range added {
		if why := c.children(e, got); why != "" {
			wrong = append(wrong, fmt.Sprintf("%s: %s", e.path(), why))
		}
	}
	return wrong
}

// forbidden says why an edit stands in no rule; empty if one allows it.
func (c *check) forbidden(e edit, grown map[*elem]bool) string {
	role := c.r.role[e.in]
	switch {
	case e.what == "front":
		if e.new != "" || strings.Trim(strings.TrimPrefix(e.old, "\ufeff"), blank) != "" {
			return "only a byte order mark and blanks go"
		}
		return ""
	case e.what == "declaration":
		if i := strings.Index(e.old, "1.1"); i < 0 || e.new != e.old[:i]+"1.0"+e.old[i+3:] {
			return "only version 1.1 becomes 1.0"
		}
		return ""
	case role == "":
		return "this is not ours"
	case e.what == "form":
		if !grown[e.in] || !e.in.empty || e.old != "/" && e.old != "" || e.old == "" && e.new != "</"+e.in.name+">" {
			return "an empty tag opens only for new children"
		}
		return ""
	case e.what == "attribute":
		return c.attribute(role, e)
	case e.what == "child" && e.new == "":
		if isBlank(e.old[0]) && c.behindText(e.oldElem) {
			return "white space of a text went"
		}
		if c.left(e.oldElem) {
			return "" // rule 22
		}
		for _, s := range stale {
			if s.role == role && e.oldElem.is(s.space, s.name) && s.goes(c, e.in) {
				return ""
			}
		}
		return "this child is no stale fact"
	case e.what == "child":
		raw := e.new
		switch {
		case !e.last:
			return "new children stand at the end of their parent"
		case raw[0] != '<':
			return "white space came with a child"
		case !isASCII(raw):
			return "what is put in is ASCII"
		case e.newElem.declared[prefixOf(e.newElem.name)] != e.newElem.space:
			return "what is put in declares its own namespace"
		}
		return ""
	}
	return "no rule allows it"
}

// behindText tells whether text that is not blank ends where an element begins.
func (c *check) behindText(e *elem) bool {
	items := e.parent.items
	at := slices.IndexFunc(items, func(i item) bool { return i.el == e })
	for at--; at >= 0; at-- {
		if k := items[at].kind; k != text && k != cdata {
			return false
		}
		raw := c.in.bytes(items[at].start, items[at].end)
		said := strings.TrimSuffix(strings.TrimPrefix(raw, "<![CDATA["), "]]>")
		if items[at].kind == text {
			said, _ = decode(raw, false) // read before without an error
		}
		if strings.Trim(said, blank) != "" {
			return true
		}
	}
	return false
}

func prefixOf(name string) string {
	if prefix, _, ok := strings.Cut(name, ":"); ok {
		return prefix
	}
	return ""
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 127 }) < 0
}

func (c *check) attribute(role string, e edit) string {
	a := e.newAttr
	if a == nil {
		a = e.oldAttr
	}
	if e.old != "" && e.new != "" {
		if c.in.bytes(e.at, e.oldAttr.val) != c.out.bytes(e.mat, e.newAttr.val) {
			return "the spelling, or the quotes, changed"
		}
	}
	if e.old == "" && (!e.last || e.new[0] != ' ' || isBlank(e.new[1])) {
		return "new attributes stand behind the others, each after a space"
	}
	if !isASCII(e.new) && (e.oldAttr == nil || isASCII(e.old)) {
		return "what is put in is ASCII"
	}
	if role == "rspec" && a.space == instance && a.local == "schemaLocation" && e.new != "" {
		return c.schemaLocation(e)
	}
	if role == "rspec" && a.space == "xmlns" && a.value == instance && e.old == "" && c.in.root.attr(instance, "schemaLocation") == nil {
		return "" // for the schemaLocation that is added
	}
	for _, rule := range attributes {
		if rule.role != role || a.space != "" || rule.name != a.local {
			continue
		}
		switch v := rule.verdict(c, e.in); {
		case v.state == absent && e.new == "":
			return ""
		case (v.state == told || v.state == may) && e.new != "" && a.value == v.value && (e.oldAttr == nil || e.oldAttr.value != v.value):
			return ""
		default:
			return fmt.Sprintf("rule %s: want %+v", rule.rule, v)
		}
	}
	return "no rule allows it"
}

// schemaLocation (rule 2): the RSpec's own schema becomes the manifest's, pairs
// are added at the end, and nothing else changes, not even white space.
func (c *check) schemaLocation(e edit) string {
	ours := map[string]bool{core: true, userExt: true, proxyExt: true, infoExt: true, emulabExt: true}
	var old, now []word
	if e.oldAttr != nil {
		old = words(c.in.bytes(e.oldAttr.val, e.oldAttr.end-1))
	}
	now = words(c.out.bytes(e.newAttr.val, e.newAttr.end-1))
	if len(now) < len(old) {
		return "a pair is gone"
	}
	had := map[string]bool{}
	for i, w := range old {
		had[w.text] = had[w.text] || i%2 == 0
		n := now[i]
		same := w.raw == n.raw
		if w.text == rspec.RequestSchema || i%2 == 1 && old[i-1].text == core {
			same = same || n.text == rspec.ManifestSchema
		}
		if w.before != n.before || !same {
			return fmt.Sprintf("%q became %q", w.before+w.raw, n.before+n.raw)
		}
	}
	for i := len(old); i+1 < len(now); i += 2 {
		if space := now[i].text; !ours[space] || had[space] || space == core && now[i+1].text != rspec.ManifestSchema {
			return fmt.Sprintf("the pair %q %q is added", space, now[i+1].text)
		}
	}
	if (len(now)-len(old))%2 != 0 {
		return "half a pair is added"
	}
	return ""
}

// word is a word of a list, and the white space before it as written.
type word struct{ before, raw, text string }

func words(raw string) (list []word) {
	all, _ := units(raw, true)
	var w word
	for _, u := range append(all, unit{"", ' '}) {
		switch {
		case strings.ContainsRune(blank, u.r):
			if w.raw != "" {
				list, w = append(list, w), word{}
			}
			w.before += u.raw
		default:
			w.raw += u.raw
			w.text += string(u.r)
		}
	}
	return list
}

// children compares what was put into an element with the facts.
func (c *check) children(e *elem, got []*elem) string {
	var list []string
	for _, g := range got {
		list = append(list, canon(c.out, g))
	}
	slices.Sort(list)
	want := c.wanted(e)
	slices.Sort(want)
	if !slices.Equal(list, want) {
		return fmt.Sprintf("was given\n\t%s\nand should have been given\n\t%s", strings.Join(list, "\n\t"), strings.Join(want, "\n\t"))
	}
	return ""
}

// wanted are the children that facts put into an element of the request.
func (c *check) wanted(e *elem) (list []string) {
	switch c.r.role[e] {
	case "node":
		f := c.node(e)
		if len(e.all(core, "sliver_type")) == 0 && f.SliverType != "" {
			image := ""
			if f.DiskImage != "" {
				image = canonText(core, "disk_image", "", "name", f.DiskImage)
			}
			list = append(list, canonText(core, "sliver_type", image, "name", f.SliverType))
		}
		if len(e.all(core, "hardware_type")) == 0 && f.HardwareType != "" {
			list = append(list, canonText(core, "hardware_type", "", "name", f.HardwareType))
		}
		for _, h := range f.Hosts {
			list = append(list, canonText(core, "host", "", "name", h.Name, "ipv4", h.IPv4))
		}
		if services := c.doors(f); len(e.all(core, "services")) == 0 && len(services) > 0 {
			list = append(list, canonText(core, "services", strings.Join(services, "")))
		}
		if i := f.Sliver; i != nil {
			list = append(list, canonText(infoExt, "geni_sliver_info", "", "creator_urn", i.Creator.String(),
				"creation_time", i.Created.UTC().Format("2006-01-02T15:04:05Z"),
				"expiration_time", i.Expires.UTC().Format("2006-01-02T15:04:05Z"), "state", i.State, "error", i.Error))
		}
		if v := f.VNode; v != nil {
			list = append(list, canonText(emulabExt, "vnode", "", "name", v.Name, "hardware_type", v.HardwareType))
		}
	case "services":
		if e.parent.all(core, "services")[0] == e {
			return c.doors(c.node(e.parent))
		}
	case "sliver_type":
		f := c.node(e.parent)
		if len(e.all(core, "disk_image")) == 0 && f.DiskImage != "" && e.parent.all(core, "sliver_type")[0] == e {
			list = append(list, canonText(core, "disk_image", "", "name", f.DiskImage))
		}
	case "interface":
		if asks(e) {
			return nil
		}
		filled := map[netip.Prefix]bool{}
		for _, p := range c.open(e) {
			filled[p] = true
		}
		for _, p := range c.end(e).Addresses {
			if filled[p] {
				continue
			}
			kind, mask := kindAndMask(p)
			list = append(list, canonText(core, "ip", "", "address", p.Addr().String(), "netmask", mask, "type", kind))
		}
	}
	return list
}

// asks tells whether an interface asks for an address that it names.
func asks(e *elem) bool {
	return slices.ContainsFunc(e.all(core, "ip"), func(ip *elem) bool { return strings.TrimSpace(ip.get("address")) != "" })
}

// open are the ip elements of an interface that leave the address to us, and
// what they get: each the next address of its type.
func (c *check) open(e *elem) map[*elem]netip.Prefix {
	got := map[*elem]netip.Prefix{}
	if asks(e) {
		return got
	}
	for _, p := range c.end(e).Addresses {
		kind, _ := kindAndMask(p)
		for _, ip := range e.all(core, "ip") {
			wish := strings.TrimSpace(ip.get("type"))
			if _, taken := got[ip]; !taken && (wish == kind || wish == "") {
				got[ip] = p
				break
			}
		}
	}
	return got
}

// kindAndMask are how an address is told; all stories tell 24 bits, or 64.
func kindAndMask(p netip.Prefix) (kind, mask string) {
	if p.Addr().Is4() {
		return "ipv4", "255.255.255.0"
	}
	return "ipv6", "64"
}

// doors are the ways into a node.
func (c *check) doors(f rspec.NodeFacts) (list []string) {
	for _, l := range f.Logins {
		port := l.Port
		if port == 0 {
			port = 22
		}
		list = append(list, canonText(core, "login", "", "authentication", "ssh-keys", "hostname", l.Hostname,
			"port", strconv.Itoa(port), "username", l.Username))
	}
	for _, u := range f.Users {
		keys, name := "", ""
		for _, k := range u.Keys {
			keys += canonText(userExt, "public_key", k)
		}
		if !u.URN.IsZero() {
			name = u.URN.String()
		}
		list = append(list, canonText(userExt, "services_user", keys, "login", u.Login, "user_urn", name))
	}
	for _, p := range f.Proxies {
		list = append(list, canonText(proxyExt, "proxy", "", "proxy", p.Proxy, "for", p.For))
	}
	return list
}

// canon writes an element so that equal meaning is equal text.
func canon(d *doc, e *elem) string {
	var pairs []string
	for _, a := range e.attrs {
		if a.space != "xmlns" {
			pairs = append(pairs, strings.TrimPrefix("{"+a.space+"}"+a.local, "{}"), a.value)
		}
	}
	var content strings.Builder
	for _, i := range e.items {
		switch i.kind {
		case element:
			content.WriteString(canon(d, i.el))
		case text:
			s, _ := decode(d.bytes(i.start, i.end), false)
			content.WriteString(s)
		case cdata:
			content.WriteString(lines(d.bytes(i.start+9, i.end-3)))
		}
	}
	return canonText(e.space, e.local, content.String(), pairs...)
}

func lines(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// canonText does so with pairs of names and values; empty values are no values.
func canonText(space, local, content string, pairs ...string) string {
	var list []string
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			list = append(list, fmt.Sprintf("%s=%q", pairs[i], pairs[i+1]))
		}
	}
	slices.Sort(list)
	return fmt.Sprintf("<{%s}%s %s>%s</>", space, local, strings.Join(list, " "), content)
}

// complete lists what should have changed and did not.
func (c *check) complete() (wrong []string) {
	bad := func(e *elem, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("%s: %s", e.path(), fmt.Sprintf(format, args...)))
	}
	root := c.out.root
	if c.out.declaration[0] != 0 {
		bad(root, "something stands in front of the document")
	}
	if strings.Contains(c.out.bytes(c.out.declaration[0], c.out.declaration[1]), "1.1") {
		bad(root, "the declaration says 1.1")
	}
	if a := root.attr(instance, "schemaLocation"); a == nil {
		bad(root, "no schemaLocation")
	} else if w := strings.Fields(a.value); !slices.Contains(w, rspec.ManifestSchema) || slices.Contains(w, rspec.RequestSchema) {
		bad(root, "schemaLocation is %q", a.value)
	}
	out := read(c.out, c.r.managers)
	if a, b := c.ids(c.in.root), c.ids(root); !slices.Equal(a, b) {
		bad(root, "the client_ids were %q and are %q", a, b)
		return wrong
	}
	nodes, links := slices.DeleteFunc(slices.Clone(c.r.nodes), c.left), slices.DeleteFunc(slices.Clone(c.r.links), c.left)
	match := func(in, made *elem) {
		role := c.r.role[in]
		for _, rule := range attributes {
			if rule.role != role {
				continue
			}
			v, a := rule.verdict(c, in), made.attr("", rule.name)
			if v.state == absent && a != nil || v.state == told && (a == nil || a.value != v.value) {
				bad(made, "rule %s: want %+v, got %+v", rule.rule, v, a)
			}
		}
		for _, s := range stale {
			if s.role != role || !s.goes(c, in) {
				continue
			}
			var want []string
			all := made.all(s.space, s.name)
			if role != "services" || in.parent.all(core, "services")[0] == in {
				want = c.wantedNow(in, s.space, s.name)
			}
			var got []string
			for _, e := range all {
				got = append(got, canon(c.out, e))
			}
			if !slices.Equal(got, want) {
				bad(made, "has\n\t%s\nand should have\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
			}
		}
	}
	match(c.in.root, root)
	if len(out.nodes) != len(nodes) || len(out.links) < len(links) {
		bad(root, "%d own nodes and %d links should be %d and %d", len(out.nodes), len(out.links), len(nodes), len(links))
		return wrong
	}
	for i, in := range nodes {
		made := out.nodes[i]
		match(in, made)
		for _, kind := range []string{"services", "sliver_type", "interface"} {
			before, after := in.all(core, kind), made.all(core, kind)
			for j, e := range before {
				if j < len(after) {
					match(e, after[j])
					for k, ip := range e.all(core, "ip") {
						if ips := after[j].all(core, "ip"); kind == "interface" && k < len(ips) {
							match(ip, ips[k])
						}
					}
					if kind != "services" { // those were compared name by name
						c.grew(bad, e, after[j])
					}
				}
			}
			if len(before) == 0 && len(after) == 0 && kind == "services" && len(c.doors(c.node(in))) > 0 {
				bad(made, "no services")
			}
		}
		c.grew(bad, in, made)
	}
	made := slices.DeleteFunc(root.all(core, "link"), func(l *elem) bool {
		return !slices.ContainsFunc(links, func(in *elem) bool { return in.get("client_id") == l.get("client_id") })
	})
	for i, in := range links {
		match(in, made[i])
		for j, ref := range in.all(core, "interface_ref") {
			match(ref, made[i].all(core, "interface_ref")[j])
		}
	}
	return wrong
}

// grew tells of wanted children that are not there.
func (c *check) grew(bad func(*elem, string, ...any), in, made *elem) {
	var have []string
	for _, i := range made.items {
		if i.kind == element {
			have = append(have, canon(c.out, i.el))
		}
	}
	for _, w := range c.wanted(in) {
		if !slices.Contains(have, w) {
			bad(made, "was not given %s", w)
		}
	}
}

// wantedNow are the wanted children of one name, in their order.
func (c *check) wantedNow(in *elem, space, name string) (list []string) {
	for _, w := range c.wanted(in) {
		if strings.HasPrefix(w, fmt.Sprintf("<{%s}%s ", space, name)) {
			list = append(list, w)
		}
	}
	return list
}

// ids are all client_ids of the RSpec's own elements, in document order, but of
// those that are left out.
func (c *check) ids(e *elem) (list []string) {
	if c.left(e) {
		return nil
	}
	if a := e.attr("", "client_id"); a != nil && e.space == core {
		list = append(list, e.local+" "+a.value)
	}
	for _, i := range e.items {
		if i.kind == element {
			list = append(list, c.ids(i.el)...)
		}
	}
	return list
}
