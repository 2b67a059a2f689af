package radl

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"patchbay/rspec"
	"patchbay/rspec/view"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// FromManifest describes what a manifest has: a system with one node for each sliver of a node, a
// network for each link, and the ansible sentences of the source without their secrets. Values that
// RADL cannot express are left out. Recipes are not described.
func FromManifest(text []byte) (*Document, error) {
	doc, err := view.Read(text, xmltree.Limits{})
	if err != nil {
		return nil, err
	}
	m := manifest{d: &Document{}, networks: map[string]string{}, nodes: map[string]string{}, public: map[string]bool{}, used: map[string]bool{}}
	m.addAnsibles(doc.Root)
	for _, l := range doc.Links {
		id := m.newID(l.Name, "network")
		m.d.Networks = append(m.d.Networks, Block{ID: id})
		for _, ref := range view.Children(l.Element, "interface_ref", schemas.Namespace) {
			m.networks[view.Value(ref, "client_id")] = id
		}
	}
	clear(m.used) // a system may have the name of a network
	for i := range doc.Nodes {
		if doc.Nodes[i].Sliver != "" {
			m.addNode(&doc.Nodes[i])
		}
	}
	for i, l := range doc.Links {
		m.fillNetwork(&m.d.Networks[i], l.Element)
	}
	return m.d, nil
}

// manifest is a manifest that is converted to d.
type manifest struct {
	d *Document
	// networks has the network of each interface, and nodes the system of each node, by client_id.
	networks, nodes map[string]string
	// public has the networks with public addresses.
	public map[string]bool
	// used has the names of networks, later of systems.
	used map[string]bool
}

// childAttr returns an attribute of the first such child; empty if there is none.
func childAttr(e *xmltree.Element, space, local, name string) string {
	if list := view.Children(e, local, space); len(list) > 0 {
		return view.Value(list[0], name)
	}
	return ""
}

// newID returns an unused name that is similar to the given one and valid in RADL.
func (m *manifest) newID(name, class string) string {
	name = strings.Map(func(r rune) rune {
		if r < 0x80 && (isLetter(byte(r)) || isDigit(byte(r)) || strings.ContainsRune("_.-", r)) {
			return r
		}
		return '-'
	}, name[:min(len(name), maxID-10)])
	if !isID(name) {
		name = class + "-" + name
	}
	id := name
	for i := 2; m.used[id]; i++ {
		id = fmt.Sprintf("%s-%d", name, i)
	}
	m.used[id] = true
	return id
}

func isID(name string) bool {
	t := newLexer([]byte(name)).next()
	return t.kind == wordToken && t.text == name && len(name) <= maxID && !slices.Contains(sentences, name)
}

// addAnsibles adds the ansible sentences, whose features a request carries as ansible.ID.NAME.
func (m *manifest) addAnsibles(root *xmltree.Element) {
	var blocks []*Block
	byID := map[string]*Block{}
	for _, f := range originFeatures(root) {
		name, ok := strings.CutPrefix(f[0], "ansible.")
		id, name, hasName := strings.Cut(name, ".")
		if !ok || !hasName || !isID(id) {
			continue
		}
		if byID[id] == nil {
			byID[id] = &Block{ID: id}
			blocks = append(blocks, byID[id])
		}
		byID[id].add(ansibleRules, name, f[1])
	}
	for _, b := range blocks {
		if b.text("host") != "" && b.text("credentials.username") != "" {
			b.Features = append(b.Features, Feature{Name: "credentials.password", Op: Equal, Value: Value{Kind: Text}})
			m.d.Ansibles = append(m.d.Ansibles, *b)
		}
	}
}

// originFeatures returns names and values of the features that were carried from the source.
func originFeatures(e *xmltree.Element) (list [][2]string) {
	for _, f := range view.Children(e, "feature", schemas.Origin) {
		value, _ := f.Attr("", "value") // with its blanks
		list = append(list, [2]string{view.Value(f, "name"), value})
	}
	return list
}

// maxExported limits the features of a sentence, since an aggregate may send any number.
const maxExported = 500

// add adds a feature, unless it has no value, b has it already, or RADL does not allow it.
func (b *Block) add(rules map[string]featureRule, name, value string) {
	f := Feature{Name: name, Op: Equal, Value: Value{Kind: Text, Text: value}}
	switch rules[ruleName(name)].kind {
	case count, size, real:
		f.Value = typed(value)
	}
	_, has := b.find(name)
	isLine := isWord(strings.ReplaceAll(value, " ", "_")) && !strings.HasSuffix(value, `\`) && !strings.Contains(value, parameterBegin)
	if has || !isLine || !isHarmless(name, value) || !isFeatureName(name) || len(b.Features) == maxExported {
		return
	}
	var p parser
	if _, ok := p.checkFeature(&f, rules); ok {
		b.Features = append(b.Features, f)
	}
}

// isHarmless reports whether programs that get a value do not take it for an option, such as ssh, or for a
// template, such as Ansible.
func isHarmless(name, value string) bool {
	isLogin := name == "host" || name == "proxy_host" || strings.HasSuffix(name, "username")
	return !strings.HasPrefix(value, "-") && !strings.Contains(value, "@-") && !strings.Contains(value, "{{") && !strings.Contains(value, "{%") &&
		!(isLogin && strings.ContainsAny(value, " ;&|$`'\"()<>"))
}

// addNode adds a system for a node of the manifest, and a sentence that deploys it.
func (m *manifest) addNode(node *view.Node) {
	b := Block{ID: m.newID(node.Name, "system")}
	m.nodes[node.Name] = b.ID
	n := node.Element
	set := func(name, value string) { b.add(systemRules, name, value) }
	set("instance_id", node.Sliver)
	if list := view.Children(n, "sliver_type", schemas.Namespace); len(list) > 0 {
		set("instance_type", view.Value(list[0], "name"))
		set(imageURL, childAttr(list[0], schemas.Namespace, "disk_image", "name"))
		set(imageURL, childAttr(list[0], schemas.Namespace, "disk_image", "url"))
	}
	carry := func(name, value string) {
		disk, _, isDisk := numbered(name, "disk")
		_, _, isInterface := numbered(name, "net_interface")
		isNumbered := isDisk && disk > 0 || isInterface // numbers must have no gaps
		isUnknown := name == "ansible_host" && !slices.ContainsFunc(m.d.Ansibles, func(a Block) bool { return a.ID == value })
		if !isNumbered && !isUnknown {
			set(name, value)
		}
	}
	for _, g := range view.Children(n, "granted", schemas.Match) {
		carry(view.Value(g, "feature"), view.Value(g, "value"))
	}
	if len(node.Logins) > 0 {
		set(credentials+"username", node.Logins[0].User)
	}
	if len(view.Children(n, "nat", schemas.Net)) > 0 {
		set("nat_instance", "yes")
	}
	m.setInterfaces(n, set)
	for _, f := range originFeatures(n) {
		carry(f[0], f[1])
	}
	m.d.Systems = append(m.d.Systems, b)
	m.d.Deploys = append(m.d.Deploys, Deploy{System: b.ID, Count: 1})
}

// setInterfaces sets the features of the interfaces of a node that are on a network, with numbers without gaps. It
// also records which networks are public.
func (m *manifest) setInterfaces(node *xmltree.Element, set func(name, value string)) {
	i := 0
	for _, in := range view.Children(node, "interface", schemas.Namespace) {
		network := m.networks[view.Value(in, "client_id")]
		if network == "" {
			continue
		}
		prefix := "net_interface." + strconv.Itoa(i) + "."
		set(prefix+"connection", network)
		for _, ip := range view.Children(in, "ip", schemas.Namespace) {
			if a, err := netip.ParseAddr(view.Value(ip, "address")); err == nil && isHost(a) {
				name := "ip"
				if a.Is6() {
					name = "ipv6"
				}
				set(prefix+name, a.String())
			}
		}
		for _, dns := range view.Children(in, "dns", schemas.Net) {
			if name := view.Value(dns, "name"); rspec.IsDNSName(name) {
				set(prefix+"dns_name", name)
			}
		}
		m.public[network] = m.public[network] || len(view.Children(in, "public", schemas.Net)) > 0
		i++
	}
}

// fillNetwork adds the features of the network of a link.
func (m *manifest) fillNetwork(b *Block, l *xmltree.Element) {
	set := func(name, value string) { b.add(networkRules, name, value) }
	if m.public[b.ID] {
		set("outbound", "yes")
	}
	if p, err := netip.ParsePrefix(childAttr(l, schemas.Net, "cidr", "range")); err == nil {
		set("cidr", p.String())
	}
	if ports := childAttr(l, schemas.Net, "outports", "ports"); rspec.CheckPorts(ports) == nil {
		set("outports", ports)
	}
	if r := view.Children(l, "route", schemas.Net); len(r) > 0 && m.nodes[view.Value(r[0], "via")] != "" {
		if to, err := netip.ParsePrefix(view.Value(r[0], "to")); err == nil {
			set("router", to.String()+","+m.nodes[view.Value(r[0], "via")])
		}
	}
	if p := view.Children(l, "proxy", schemas.Net); len(p) > 0 && isWord(view.Value(p[0], "user")) && isWord(view.Value(p[0], "host")) {
		set("proxy_host", view.Value(p[0], "user")+"@"+view.Value(p[0], "host")+":"+view.Value(p[0], "port"))
	}
	for _, f := range originFeatures(l) {
		set(f[0], f[1])
	}
}
