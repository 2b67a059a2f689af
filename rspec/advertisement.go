package rspec

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/am/urn"
)

// Site is the content of an advertisement.
type Site struct {
	// Manager is the aggregate, used as component_manager_id and in the machines.
	Manager     urn.URN
	GeneratedBy string
	Machines    []Machine
	Nodes       []AdNode
	Links       []AdLink
	// SharedVLANs are the VLANs that links may join.
	SharedVLANs []AdSharedVLAN
	// PublicAddresses is the number of addresses for nodes that request one.
	PublicAddresses int
	// Monitoring is offered on every node; nil if the site offers none.
	Monitoring *AdMonitoring
	// SliverInfo says that the site's manifests use the extension sliver-info.
	SliverInfo bool
	// Leases says that the site reserves nodes for the time of a lease, and advertises windows. AdLeases says that it
	// advertises what is taken in them, too.
	Leases, AdLeases bool
	// Templates says that the site compiles templates in requests.
	Templates bool
}

// Availability is the part of an advertisement that changes.
type Availability struct {
	Generated time.Time
	// Free returns the number of slivers that node i of the site can still hold. The node is
	// available if the number is positive. Append calls Free once for each node.
	Free func(i int) int
	// PublicAddresses is the number of free public addresses.
	PublicAddresses int
	// OnlyFree leaves out the nodes that are not available, and links that lead only
	// to them.
	OnlyFree bool
	// Window is the time that the advertisement is about; nil for the present.
	Window *AdWindow
}

// Advertiser writes advertisements from fragments that are prepared once. It is immutable.
type Advertiser struct {
	head       string // up to the value of generated
	vlans      string // from the value of generated up to the number of public addresses
	addresses  string // after that number; empty if the site has none
	machines   string
	nodes      []nodeFragment
	endOfNode  string
	links      linkFragments
	extensions []string
	size       int // estimated size of a complete advertisement
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
	if s.Leases {
		a.extensions = append(a.extensions, scheduleSpace)
	}
	if s.AdLeases {
		a.extensions = append(a.extensions, nitosSpace)
	}
	a.size = len(a.head) + len(a.vlans) + len(a.addresses) + len(a.machines) + len(a.links.text) + 100
	for i := range a.nodes {
		a.size += a.nodes[i].size() + len(a.endOfNode)
	}
	return a
}

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

// Extensions returns the namespaces of the extensions that the advertisement uses.
func (a *Advertiser) Extensions() []string { return slices.Clone(a.extensions) }

// Append appends an advertisement to b. It is ASCII and starts with the XML declaration.
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
	b = now.Window.append(b)
	refs := now.Window.leaseRefs(len(a.nodes))
	var hidden []bool // the nodes left out; stored, because Free could return another number later
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
		if refs != nil {
			b = appendLeaseRefs(b, refs[i])
		}
		b = append(b, a.endOfNode...)
	}
	b = a.links.append(b, hidden)
	return append(b, "</rspec>\n"...)
}
