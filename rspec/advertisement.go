package rspec

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/am/urn"
)

// Site is what an advertisement offers.
type Site struct {
	// Manager is the aggregate, as component_manager_id and in the machines.
	Manager     urn.URN
	GeneratedBy string
	Machines    []Machine
	Nodes       []AdNode
	Links       []AdLink
	// SharedVLANs are those that links may join.
	SharedVLANs []AdSharedVLAN
	// PublicAddresses is how many the site has for nodes that ask for one.
	PublicAddresses int
	// Monitoring is what every node offers; nil if the site offers none.
	Monitoring *AdMonitoring
	// SliverInfo says that manifests of the site have the extension sliver-info.
	SliverInfo bool
}

// Availability is what changes from one advertisement of a site to the next.
type Availability struct {
	Generated time.Time
	// Free tells how many slivers node i of the site has left; a node is
	// available while there is one. It is asked once for each node.
	Free func(i int) int
	// PublicAddresses is how many of the site's are left.
	PublicAddresses int
	// OnlyFree leaves out the nodes that are not available, and what leads to
	// them alone.
	OnlyFree bool
}

// Advertiser writes advertisements from fragments that are made once. It is
// immutable.
type Advertiser struct {
	head       string // up to the value of generated
	vlans      string // from behind expires up to the number of public addresses
	addresses  string // from behind that number; empty if the site has none
	machines   string
	nodes      []nodeFragment
	endOfNode  string
	links      linkFragments
	extensions []string
	size       int // of an advertisement of everything, about
}

// NewAdvertiser prepares the advertisement of a site.
func NewAdvertiser(s Site) *Advertiser {
	a := &Advertiser{}
	var b strings.Builder
	b.WriteString("\">\n")
	writeSharedVLANs(&b, s.SharedVLANs)
	if s.PublicAddresses > 0 {
		b.WriteString(` <rspec_routable_addresses xmlns="` + emulabSpace + `" available="`)
		a.addresses = `" configured="` + strconv.Itoa(s.PublicAddresses) + "\"/>\n"
	}
	a.vlans = b.String()
	b.Reset()
	for _, m := range s.Machines {
		m.write(&b, s.Manager)
	}
	a.machines = b.String()
	b.Reset()
	writeMonitoring(&b, s.Monitoring)
	a.endOfNode = b.String() + "</node>\n"
	a.nodes = nodeFragments(&s)
	a.links = newLinkFragments(&s)

	used := extensionsOf(&s)
	a.head = rootUpToGenerated(&s, used)
	for _, x := range used {
		a.extensions = append(a.extensions, x.space)
	}
	a.size = len(a.head) + len(a.vlans) + len(a.addresses) + len(a.machines) + len(a.links.text) + 100
	for i := range a.nodes {
		a.size += a.nodes[i].size() + len(a.endOfNode)
	}
	return a
}

// rootUpToGenerated is the start of a document that uses some extensions.
func rootUpToGenerated(s *Site, used []adExtension) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<rspec xmlns="` + Namespace + `"`)
	for _, x := range used {
		if x.prefix != "" {
			b.WriteString(` xmlns:` + x.prefix + `="` + x.space + `"`)
		}
	}
	b.WriteString(` xmlns:xsi="` + xsiSpace + `" xsi:schemaLocation="` + Namespace + " " + AdSchema)
	for _, x := range used {
		b.WriteString(" " + x.space + " " + x.schema)
	}
	b.WriteString(`" type="advertisement"`)
	if s.GeneratedBy != "" {
		b.WriteString(` generated_by="` + escape(s.GeneratedBy) + `"`)
	}
	b.WriteString(` generated="`)
	return b.String()
}

// Extensions are the namespaces of the extensions that the advertisement has
// something of.
func (a *Advertiser) Extensions() []string { return slices.Clone(a.extensions) }

// Append appends an advertisement to b: ASCII, its declaration the first byte.
func (a *Advertiser) Append(b []byte, now Availability) []byte {
	b = slices.Grow(b, a.size)
	b = append(b, a.head...)
	b = append(b, stamp(now.Generated)...)
	b = append(b, a.vlans...)
	if a.addresses != "" {
		b = strconv.AppendInt(b, int64(max(0, now.PublicAddresses)), 10)
		b = append(b, a.addresses...)
	}
	b = append(b, a.machines...)
	var hidden []bool // the nodes left out; asking again may give another answer
	if now.OnlyFree && len(a.links.links) > 0 {
		hidden = make([]bool, len(a.nodes))
	}
	for i := range a.nodes {
		slots := max(0, now.Free(i))
		if now.OnlyFree && slots == 0 {
			if hidden != nil {
				hidden[i] = true
			}
			continue
		}
		n := &a.nodes[i]
		b = append(b, n.start...)
		b = n.kind.append(b, slots)
		b = append(b, n.interfaces...)
		b = append(b, a.endOfNode...)
	}
	b = a.links.append(b, hidden)
	return append(b, "</rspec>\n"...)
}
