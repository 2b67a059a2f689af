package blueprint

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/generate"
	"patchbay/rspec/match"
)

// takeName returns id, the client_id for a new node or link, and refuses it if it is in use.
func (c *compiler) takeName(at *value, id string) string {
	if c.taken[id] {
		c.wrong(at, "rename it", "the name %.80q is already in use", id)
	}
	c.taken[id] = true
	return id
}

// place labels the parts, and makes the nodes and the links between them.
func (c *compiler) place() {
	for _, p := range c.parts {
		if p.label = p.id; p.label == "" {
			kind := strings.Map(func(r rune) rune {
				if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
					return r
				}
				return '-'
			}, p.kind.name)
			p.label = fmt.Sprintf("%s-%d", kind, c.implied[kind])
			c.implied[kind]++
		}
		switch p.kind.form {
		case isNode:
			c.addNode(p, p.label, 0)
		case isNetwork:
			c.addLink(p.at, p.label)
		case isGroup:
			c.addGroup(p)
		}
		if c.stopped() {
			return
		}
	}
	for _, p := range c.parts {
		if c.nodesOf(p); p.kind.form == isSoftware && len(p.nodes) == 0 && !c.isVague {
			c.warn(p.at, "refer to it by run, or add host:", "the component %.80q is on no node", p.label)
		}
	}
	for _, p := range c.parts {
		for _, n := range p.requirements {
			c.connect(p, n)
		}
	}
}

// addGroup makes the nodes of a group, and its LAN with them.
func (c *compiler) addGroup(p *part) {
	size, text := 1, p.attribute("initialSize")
	at := cmp.Or(p.value("initialSize"), p.at)
	switch n, err := strconv.Atoi(text); {
	case err != nil || n < 0:
		c.wrong(at, "write a number", "the initialSize of %.80q is %.80q", p.label, text)
	case n == 0:
		c.warn(at, "write at least 1 to get nodes", "the initialSize of %.80q is 0, so it has no nodes, and its requirements have no effect", p.label)
		fallthrough
	default:
		size = n
	}
	c.addLink(p.at, p.label)
	for i := 0; i < size && !c.stopped(); i++ {
		c.addNode(p, fmt.Sprintf("%s-%d", p.label, i), i)
		c.join(p.label, len(c.request.Nodes)-1)
	}
}

// value returns an attribute as it is written, or nil.
func (p *part) value(name string) *value {
	for _, f := range p.attributes {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// attribute returns an attribute as text, or its default.
func (p *part) attribute(name string) string {
	if v := p.value(name); v != nil {
		return flat(v)
	}
	for _, a := range p.kind.attributes {
		if a.name == name {
			return a.value
		}
	}
	return ""
}

// addNode makes a node of the part p. The nodes of a group must be added one after the other with ordinals from 0:
// each gets the type, the image and the constraints of the node before it, which the first one chooses.
func (c *compiler) addNode(p *part, name string, ordinal int) {
	if len(c.request.Nodes) >= maxNodes {
		c.refuse(rspec.TooBig, p.at, "make tiers smaller", "the blueprint has more than %d nodes", maxNodes)
		return
	}
	n := generate.Node{ClientID: c.takeName(p.at, name), ComponentID: p.urn}
	n.HardwareType = cmp.Or(p.attribute("hardware_type"), p.kind.hardwareType)
	n.Origin = generate.Origin{ID: p.label, Ordinal: ordinal}
	used := append(names(p.kind.attributes), "sliver_type", "image") // the others are only copied
	n.Origin.Features = features("", slices.DeleteFunc(slices.Clone(p.attributes), func(f field) bool { return slices.Contains(used, f.name) }))
	if ordinal > 0 {
		before := &c.request.Nodes[len(c.request.Nodes)-1]
		n.SliverType, n.DiskImage, n.Require, n.Comments = before.SliverType, before.DiskImage, before.Require, before.Comments
	} else {
		c.chooseType(p, &n)
	}
	if c.elements += len(n.Require) + len(n.Origin.Features) + len(n.Comments) + 3; c.elements > maxElements {
		c.refuse(rspec.TooBig, p.at, "make tiers smaller", "the request would have more than %d elements", maxElements)
	}
	for _, f := range n.Origin.Features {
		c.spend(p.at, len(f.Value))
	}
	p.nodes = append(p.nodes, len(c.request.Nodes))
	c.request.Nodes = append(c.request.Nodes, n)
}

// Features. The requirement os is a flavour such as debian, or one of the systems that have flavours.
const (
	osFlavour = "disk.0.os.flavour"
	osName    = "disk.0.os.name"
	country   = "location.country"
)

var osNames = []string{"linux", "windows", "freebsd"}

// chooseType sets the sliver type, the image and the constraints of n, a node of the part p. At a known site it
// also names the image that providers.allow requires, and the type for an image.
func (c *compiler) chooseType(p *part, n *generate.Node) {
	w := generate.Want{SliverType: cmp.Or(p.attribute("sliver_type"), p.kind.sliverType)}
	if image := cmp.Or(p.attribute("image"), p.kind.image); image != "" {
		if w.Images = []string{image}; !c.isAllowed(image) {
			c.wrong(p.at, "choose another one, or allow it", "providers.allow excludes the image %.80q of the component %.80q", image, p.label)
		}
	}
	if c.country != "" {
		c.request.Terms = append(c.request.Terms, country, "jurisdiction")
		w.Require = append(w.Require, match.Constraint{Feature: country, Op: match.Equal, Value: c.country})
	}
	for _, r := range p.requirements {
		v := r.get(r.kind.defaultName)
		if r.kind.effect != byMatch {
			continue
		}
		if v == nil || v.kind != yaml.ScalarNode {
			c.wrong(r.at, "give "+r.kind.defaultName, "the requirement %.80q has no value", r.kind.name)
			continue
		}
		k := match.Constraint{Feature: r.kind.feature, Op: r.kind.op, Value: flat(v)}
		if k.Feature == osFlavour && slices.Contains(osNames, strings.ToLower(k.Value)) {
			k.Feature = osName
		}
		if strings.HasSuffix(k.Feature, ".size") {
			k.Value = strings.ToUpper(k.Value)
		}
		c.request.Terms = append(c.request.Terms, k.Feature, r.kind.name)
		w.Require = append(w.Require, k)
		if _, err := match.New(w.Require, nil); err != nil || len(w.Require) > match.MaxConstraints {
			c.wrong(v, "correct the value", "the requirement %.80q: %.300v", r.kind.name, err)
			return
		}
	}
	n.SliverType, n.Require = w.SliverType, w.Require
	if c.o.Site != nil && c.allow != nil && len(w.Images) == 0 {
		w.Images = c.allowedImage(p, w)
	}
	if n.DiskImage, _ = w.Image(c.o.Site); c.o.Site == nil || n.DiskImage == "" || w.SliverType != "" {
		return
	}
	if t := w.TypeAt(c.o.Site, c.o.Work); t != nil { // an RSpec that names an image names a type too
		n.SliverType = t.Name
	}
}

// allowedImage returns the image that a node must name, because providers.allow excludes others: the
// first one that satisfies w. A node without constraints may name none if the default image is allowed.
func (c *compiler) allowedImage(p *part, w generate.Want) []string {
	site := c.o.Site
	t, ok := site.SliverType(w.SliverType)
	if !ok {
		t = site.DefaultSliverType
	}
	if t.DefaultImage == nil || len(w.Require) == 0 && c.isAllowed(t.DefaultImage.Name) {
		return nil
	}
	for _, i := range append([]*inventory.Image{t.DefaultImage}, site.Images...) {
		if w.Images = []string{i.Name}; c.isAllowed(i.Name) && w.TypeAt(site, c.o.Work) != nil {
			return w.Images
		}
	}
	c.wrong(p.at, "name an image that is allowed, or allow more", "providers.allow excludes the image %.80q, which %.80q would get", t.DefaultImage.Name, p.label)
	return nil
}

// addLink adds a LAN with the name, once.
func (c *compiler) addLink(at *value, name string) {
	if _, exists := c.links[name]; !exists {
		c.links[name] = len(c.request.Links)
		c.request.Links = append(c.request.Links, generate.Link{ClientID: c.takeName(at, name), LAN: true, Origin: generate.Origin{ID: name}})
	}
}

// join gives a node an interface on a link, once.
func (c *compiler) join(link string, node int) {
	n := &c.request.Nodes[node]
	if key := [2]string{link, n.ClientID}; !c.joined[key] {
		c.joined[key] = true
		i := generate.Interface{ClientID: fmt.Sprintf("%s:%d", n.ClientID, len(n.Interfaces))}
		n.Interfaces = append(n.Interfaces, i)
		l := &c.request.Links[c.links[link]]
		l.Interfaces = append(l.Interfaces, i.ClientID)
	}
}

// nodesOf returns the nodes of a part. Those of software are the nodes that run it: nodesOf finds and keeps them at
// the first call, and p.isPlaced ends circles.
func (c *compiler) nodesOf(p *part) []int {
	if p.isPlaced || p.kind.form != isSoftware {
		return p.nodes
	}
	p.isPlaced = true
	seen := map[int]bool{}
	add := func(from *part) {
		for _, n := range c.nodesOf(from) {
			if !seen[n] {
				seen[n] = true
				p.nodes = append(p.nodes, n)
			}
		}
	}
	for _, n := range p.pointing {
		if n.kind.effect == bySetup {
			add(n.source)
		}
	}
	for _, n := range p.requirements {
		if n.kind.host {
			for _, t := range n.targets {
				add(t)
			}
		}
	}
	return p.nodes
}

// connect puts the nodes of a relation on a common link.
func (c *compiler) connect(p *part, n *need) {
	if n.kind.effect != byRelation || n.kind.host {
		return
	}
	for _, t := range n.targets {
		if len(p.nodes) == 0 || len(t.nodes) == 0 && t.kind.form != isNetwork {
			continue
		}
		link := t.label + "-net"
		switch {
		case p.kind.form == isGroup && t.kind.form != isNetwork:
			link = p.label
		case t.kind.form == isGroup, t.kind.form == isNetwork:
			link = t.label
		default:
			c.addLink(t.at, link)
		}
		if c.elements += len(p.nodes) + len(t.nodes); c.elements > maxElements {
			c.refuse(rspec.TooBig, p.at, "make tiers smaller", "the request would have more than %d elements", maxElements)
			return
		}
		for _, i := range slices.Concat(t.nodes, p.nodes) {
			c.join(link, i)
		}
	}
}
