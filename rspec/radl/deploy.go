package radl

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"patchbay/am/display"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/generate"
)

// system is a system with new nodes at one aggregate.
type system struct {
	block *Block
	// manager is the URN of the aggregate; empty for the own one.
	manager string
	// site is nil for another aggregate, and if it is unknown.
	site *inventory.Inventory
	// node has the fields that all its nodes share.
	node       generate.Node
	comments   []string // of the first node, about all
	interfaces []netInterface
	apps       []application
	// lacksAnsible means that the image of the nodes is known, and does not list Ansible.
	lacksAnsible bool
}

// deployment is a deploy sentence.
type deployment struct {
	*Deploy
	system *system
	first  int // number of the first node
}

// netInterface is an interface of a system's nodes.
type netInterface struct {
	index      int
	at         Place
	connection string
	network    *network
	fixed      []netip.Prefix
	names      []string // DNS names, with #N# for the number of the node
}

// warnEmpty names the line that a document without nodes lacks. Such a document is valid: a later one
// may deploy its systems.
func (c *compiler) warnEmpty(d *Document) {
	switch {
	case len(d.Deploys) > 0:
		s := d.Deploys[0]
		c.warn(s.Place, fmt.Sprintf("give the number of nodes, as in: deploy %.80s 1", s.System), "no node is deployed")
	case len(d.Systems) > 0:
		s := d.Systems[len(d.Systems)-1]
		c.warn(s.Place, fmt.Sprintf("add a line such as: deploy %.80s 1", s.ID), "no node is deployed")
	default:
		c.warn(Place{}, "add a system, and a line such as: deploy SYSTEM 1", "no node is deployed")
	}
}

// deploy creates the nodes and their ends of links. It first reads all systems, because fixed addresses, roles and
// steps depend on all of them, and then adds the nodes.
func (c *compiler) deploy(d *Document) {
	nodes := 0
	for i := range d.Deploys {
		s := &d.Deploys[i]
		// The sum cannot overflow: it stops at the first number that is too large.
		if nodes += s.Count; s.Count > maxNodes || nodes > maxNodes {
			c.refuse(rspec.TooBig, s.Place, "deploy fewer, or divide them among several documents", "the document deploys more than %d nodes", maxNodes)
			return
		}
		if s.Count > 0 {
			next, system := c.nextNumber[s.System], c.systemFor(s)
			if next > 0 && next == c.afterExisting[s.System] {
				system.comments = append(system.comments, fmt.Sprintf("system %s: the numbers begin at %d, since the slice has %s-%d", s.System, next, s.System, next-1))
			}
			c.deployed = append(c.deployed, deployment{s, system, next})
			c.nextNumber[s.System] = next + s.Count
		}
		if len(c.systems) > maxSystems {
			c.refuse(rspec.TooBig, s.Place, "divide it among several documents", "the document deploys more than %d systems", maxSystems)
			return
		}
	}
	c.warnClouds()
	if nodes == 0 && len(c.o.Earlier) == 0 && !c.Failed() {
		c.warnEmpty(d)
	}
	c.checkFixed()
	c.collectRoles()
	for _, s := range c.systemOrder {
		c.addSteps(s)
	}
	for _, x := range c.deployed {
		if !c.hasRoom(x) {
			return
		}
		c.addNodes(x)
	}
}

// systemFor returns the system of a deploy sentence at its aggregate. At the first call it reads the system and its
// interfaces.
func (c *compiler) systemFor(d *Deploy) *system {
	manager := c.manager(d)
	key := [2]string{d.System, manager}
	if s := c.systems[key]; s != nil {
		return s
	}
	s := &system{block: c.systemBlocks[d.System], manager: manager}
	if manager == "" {
		s.site = c.o.Site
	}
	c.systems[key] = s
	c.systemOrder = append(c.systemOrder, s)
	if d.Cloud != "" {
		name := manager
		if manager == "" {
			name = "this one"
		}
		s.comments = append(s.comments, fmt.Sprintf("system %s: the aggregate of cloud %s is %s", d.System, d.Cloud, name))
	}
	s.interfaces = c.interfacesOf(s.block)
	for i := range s.interfaces {
		in := &s.interfaces[i]
		in.network = c.network(in.connection)
		c.checkAddresses(in)
	}
	c.countNames(s)
	c.readSystem(s)
	return s
}

// manager returns the URN of the aggregate that a deploy sentence names; empty for the own one.
func (c *compiler) manager(d *Deploy) string {
	if d.Cloud == "" {
		return ""
	}
	u := urn.URN{Authority: d.Cloud, Type: urn.Authority, Name: "cm"}
	if site := c.o.Site; site != nil {
		if alias, ok := site.Clouds[d.Cloud]; ok {
			u = alias
		}
		for _, own := range append(slices.Clip(site.Managers), site.Manager) {
			if urn.SameManager(own, u) {
				return ""
			}
		}
	}
	if !urn.ValidAuthority(u.Authority) {
		c.refuse(rspec.BadArgs, d.Place, "name an aggregate, such as example.org", "the cloud %.80q cannot be the name of an authority", d.Cloud)
	}
	return u.String()
}

// warnClouds warns about clouds that the site does not know. An authority of another aggregate is no
// mistake, unless nothing is left for this site.
func (c *compiler) warnClouds() {
	site := c.o.Site
	if site == nil {
		return
	}
	isOwn := func(x deployment) bool { return x.system.manager == "" }
	isForeign := !slices.ContainsFunc(c.deployed, isOwn)
	for _, x := range c.deployed {
		if _, known := site.Clouds[x.Cloud]; isOwn(x) || known || strings.Contains(x.Cloud, ".") && !isForeign {
			continue
		}
		remedy := "leave the cloud out to deploy them here"
		if len(site.Clouds) > 0 {
			remedy += "; clouds of this site: " + display.Cut(strings.Join(sorted(site.Clouds), ", "), 80)
		}
		c.warn(x.Place, remedy, "this site knows no cloud %.80q, so these nodes are for another aggregate, %s", x.Cloud, x.system.manager)
	}
}

// hasRoom counts what the nodes of x need, and refuses too many.
func (c *compiler) hasRoom(x deployment) bool {
	elements, bytes := x.system.size()
	c.elements += elements * x.Count
	c.bytes += bytes * x.Count
	if c.elements <= maxElements && c.bytes <= maxBytes {
		return true
	}
	c.refuse(rspec.TooBig, x.Place, "deploy fewer nodes, or put long texts into files that the nodes fetch", "the nodes, with their recipes, features and interfaces, take more than %d elements or %d bytes", maxElements, maxBytes)
	return false
}

// size returns about how much one node takes in the request.
func (s *system) size() (elements, bytes int) {
	n := &s.node
	elements = 2 + len(n.Require) + len(n.Origin.Features)
	for _, p := range n.Prefer {
		elements += 1 + len(p.Constraints)
	}
	for _, f := range n.Origin.Features {
		bytes += len(f.Name) + len(f.Value)
	}
	parameters := 0
	for _, p := range n.Parameters {
		elements++
		parameters += len(p.Name) + len(p.Value) + 8
	}
	for _, in := range s.interfaces {
		elements += 4 + len(in.names)
		for _, name := range in.names {
			bytes += len(name)
		}
	}
	for i := range n.Steps {
		step := &n.Steps[i]
		elements += 1 + len(step.Files)
		bytes += parameters + len(step.Body) + len(step.URL) + len(step.Path)
		for _, f := range step.Files {
			bytes += len(f.Path) + base64.StdEncoding.EncodedLen(len(f.Body)) + 32 // as package rspec counts
		}
	}
	return elements, bytes + len(n.DiskImage) + len(s.block.ID)*(2+2*len(s.interfaces))
}

// addNodes creates the nodes of x. It stops at the first mistake.
func (c *compiler) addNodes(x deployment) {
	s := x.system
	for i := x.first; i < x.first+x.Count; i++ {
		n := s.node // Steps and others are shared
		n.ClientID = fmt.Sprintf("%s-%d", s.block.ID, i)
		n.Origin.Ordinal = i
		n.Comments, s.comments = s.comments, nil
		n.Interfaces = make([]generate.Interface, len(s.interfaces))
		for k := range s.interfaces {
			n.Interfaces[k] = c.addInterface(&n, &s.interfaces[k], i)
			if c.Failed() {
				return
			}
		}
		c.request.Nodes = append(c.request.Nodes, n)
	}
}

// addInterface returns the interface of the node n with the number i, and adds it to its link.
func (c *compiler) addInterface(n *generate.Node, in *netInterface, i int) generate.Interface {
	x := generate.Interface{ClientID: fmt.Sprintf("%s:%d", n.ClientID, in.index), Public: in.network.isPublic, Addresses: in.fixed}
	for _, name := range in.names {
		x.DNSNames = append(x.DNSNames, strings.ReplaceAll(name, "#N#", fmt.Sprint(i)))
	}
	// Other aggregates do not know the range.
	if in.network.prefix.IsValid() && len(in.fixed) == 0 && !(c.o.GivesAddresses && n.Manager == "") {
		a, ok := in.network.takeAddress()
		if !ok {
			f, _ := in.network.block.find("cidr")
			c.refuse(rspec.TooBig, f.Place, "give it a larger range", "network %.80q: %s has too few addresses for its nodes", in.network.block.ID, in.network.prefix)
			return x
		}
		x.Addresses = []netip.Prefix{a}
	}
	n.Public = n.Public || x.Public
	l := in.network.linkAt(n.Manager)
	l.Interfaces = append(l.Interfaces, x.ClientID)
	return x
}
