package rspec

import (
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
	// Lifetime is for how long a client may keep an advertisement; expires is
	// not told if it is 0. It is counted in whole seconds.
	Lifetime time.Duration
	Machines []Machine
	Nodes    []AdNode
	Links    []AdLink
	// SharedVLANs are those that links may join.
	SharedVLANs []AdSharedVLAN
	// PublicAddresses is how many the site has for nodes that ask for one.
	PublicAddresses int
	// Monitoring is nil if the site offers none.
	Monitoring *AdMonitoring
}

// AdLink is a physical link, or a switch, and the interfaces it joins.
type AdLink struct {
	ComponentID urn.URN
	Name, Type  string
	// Capacity is in kbit/s; 0 tells nothing.
	Capacity   int64
	Interfaces []urn.URN
}

// AdInterface is an interface of a component.
type AdInterface struct {
	ComponentID urn.URN
	Name, Role  string
	PublicIPv4  string
}

// AdSharedVLAN is a VLAN that links of several slices may join.
type AdSharedVLAN struct {
	Name        string
	Tag         int
	Description string
	Restricted  bool
}

// AdMonitoring is infrastructure monitoring on offer.
type AdMonitoring struct {
	Type, Doc string
	Metrics   []AdMetric
}

// AdMetric is one thing that is measured.
type AdMetric struct{ ID, Description, Unit string }

// AdNode is one component on offer.
type AdNode struct {
	ComponentID urn.URN
	Name        string
	// Exclusive says that the whole component is had; a shared one tells its
	// free slots with each hardware type.
	Exclusive     bool
	HardwareTypes []string
	SliverTypes   []AdSliverType
	Interfaces    []AdInterface
	// Location is left out if it is nil or has no country.
	Location *Location
}

// AdSliverType is a sliver type and the images that fit it.
type AdSliverType struct {
	Name   string
	Images []AdImage
}

// AdImage is a disk image; empty fields are left out.
type AdImage struct {
	Name, OS, Version, Description, URL string
	// Default marks the image taken where a request names none.
	Default bool
}

// Location is where a component stands.
type Location struct {
	// Country is an ISO 3166 code.
	Country string
	// Latitude and Longitude are WGS 84 degrees as decimal text; told only together.
	Latitude, Longitude string
}

// Advertiser writes advertisements from fragments that are made once. It is
// immutable.
type Advertiser struct {
	head  string // up to the value of generated
	tail  string // from behind expires up to the first node
	lease time.Duration
	nodes []fragment
}

// fragment is the text of one node, between whose pieces go the changing
// values: the free slots behind each of the slots, then the availability.
type fragment struct {
	own   string // the start tag
	kind  string // what it shares with its like
	slots []string
	where string // up to the value of available
}

const endOfNode = `"/></node>` + "\n"

// NewAdvertiser prepares the advertisement of a site.
func NewAdvertiser(s Site) *Advertiser {
	a := &Advertiser{lease: s.Lifetime.Truncate(time.Second), nodes: make([]fragment, len(s.Nodes))}
	a.head = `<?xml version="1.0" encoding="UTF-8"?>` + "\n" +
		`<rspec xmlns="` + Namespace + `" xmlns:emulab="` + emulabSpace + `" xmlns:xsi="` + xsiSpace + `" xsi:schemaLocation="` +
		strings.Join([]string{Namespace, AdSchema, opstateSpace, opstateSchema, emulabSpace, emulabSchema}, " ") +
		`" type="advertisement"`
	if s.GeneratedBy != "" {
		a.head += ` generated_by="` + escape(s.GeneratedBy) + `"`
	}
	a.head += ` generated="`
	var b strings.Builder
	b.WriteString("\">\n")
	for _, m := range s.Machines {
		m.write(&b, s.Manager)
	}
	a.tail = b.String()

	manager := escape(s.Manager.String())
	shared := map[string]string{} // equal texts are kept once
	once := func(s string) string {
		if was, ok := shared[s]; ok {
			return was
		}
		shared[s] = s
		return s
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		f := &a.nodes[i]
		f.own = ` <node component_id="` + escape(n.ComponentID.String()) + `" component_manager_id="` + manager + `" component_name="` + escape(n.Name) +
			`" exclusive="` + strconv.FormatBool(n.Exclusive) + `">`
		b.Reset()
		writeSliverTypes(&b, n.SliverTypes)
		for _, h := range n.HardwareTypes {
			b.WriteString(`<hardware_type name="` + escape(h) + `"`)
			if n.Exclusive {
				b.WriteString("/>")
				continue
			}
			b.WriteString(`><emulab:node_type type_slots="`)
			f.slots = append(f.slots, once(b.String()))
			b.Reset()
			b.WriteString(`"/></hardware_type>`)
		}
		if len(f.slots) == 0 {
			f.kind = once(b.String())
			b.Reset()
		}
		writeLocation(&b, n.Location)
		b.WriteString(`<available now="`)
		f.where = once(b.String())
	}
	return a
}

func writeSliverTypes(b *strings.Builder, types []AdSliverType) {
	for _, t := range types {
		b.WriteString(`<sliver_type name="` + escape(t.Name) + `"`)
		if len(t.Images) == 0 {
			b.WriteString("/>")
			continue
		}
		b.WriteByte('>')
		for _, i := range t.Images {
			b.WriteString(`<disk_image name="` + escape(i.Name) + `"`)
			for _, a := range [...][2]string{{"os", i.OS}, {"version", i.Version}, {"description", i.Description}, {"url", i.URL}} {
				if a[1] != "" {
					b.WriteString(" " + a[0] + `="` + escape(a[1]) + `"`)
				}
			}
			if i.Default {
				b.WriteString(` default="true"`)
			}
			b.WriteString("/>")
		}
		b.WriteString("</sliver_type>")
	}
}

func writeLocation(b *strings.Builder, l *Location) {
	if l == nil || l.Country == "" {
		return
	}
	b.WriteString(`<location country="` + escape(l.Country) + `"`)
	if l.Latitude != "" && l.Longitude != "" {
		b.WriteString(` latitude="` + escape(l.Latitude) + `" longitude="` + escape(l.Longitude) + `"`)
	}
	b.WriteString("/>")
}

// Append appends an advertisement to b: ASCII, its declaration the first byte.
// free tells how many slivers node i of the site has left; a node is available
// while there is one. onlyFree leaves the others out.
func (a *Advertiser) Append(b []byte, generated time.Time, free func(i int) int, onlyFree bool) []byte {
	b = append(b, a.head...)
	b = append(b, stamp(generated)...)
	if a.lease > 0 {
		b = append(b, `" expires="`...)
		b = append(b, stamp(generated.Add(a.lease))...)
	}
	b = append(b, a.tail...)
	for i := range a.nodes {
		slots := max(0, free(i))
		if onlyFree && slots == 0 {
			continue
		}
		f := &a.nodes[i]
		b = append(b, f.own...)
		b = append(b, f.kind...)
		for _, s := range f.slots {
			b = append(b, s...)
			b = strconv.AppendInt(b, int64(slots), 10)
		}
		b = append(b, f.where...)
		b = strconv.AppendBool(b, slots > 0)
		b = append(b, endOfNode...)
	}
	return append(b, "</rspec>\n"...)
}
