package rspec

import (
	"slices"
	"strconv"
	"strings"

	"patchbay/am/urn"
)

// AdNode is one advertised component.
type AdNode struct {
	ComponentID urn.URN
	Name        string
	// Exclusive means that one sliver takes the whole component. Then each hardware
	// type is written with one slot, because geni-lib cannot read a hardware type
	// without slots. For a shared component the number of free slots is written with
	// each hardware type or, if there is none, with the first sliver type.
	Exclusive     bool
	HardwareTypes []string
	SliverTypes   []AdSliverType
	Capabilities  []AdCapability
	Interfaces    []AdInterface
	// Location is written only if it has the country, which the schema requires, and the
	// coordinates, which clients require.
	Location *Location
}

// AdSliverType is a sliver type and the images that fit it.
type AdSliverType struct {
	Name         string
	Images       []AdImage
	Capabilities []AdCapability
}

// AdImage is a disk image; empty fields are left out.
type AdImage struct {
	Name, OS, Version, Description string
	// Default marks the image that is used when a request names none.
	Default      bool
	Capabilities []AdCapability
}

// Location is the place of a component.
type Location struct {
	// Country is an ISO 3166 code.
	Country string
	// Latitude and Longitude are WGS 84 degrees as decimal text.
	Latitude, Longitude string
}

// AdInterface is an interface of a component. Its empty fields are left out.
type AdInterface struct {
	ComponentID urn.URN
	Name, Role  string
	PublicIPv4  string
	// Capacity is the capacity of each direction in kbit/s; 0 means the capacity of
	// the link.
	Capacity int64
}

// nodeFragment is one node's text up to Advertiser.endOfNode, which all nodes share.
type nodeFragment struct {
	start      string
	kind       *nodeKind
	interfaces string
}

// nodeKind is the text that all nodes with equal types and location share.
type nodeKind struct {
	// busy is the text if no slot is free.
	busy string
	// free is the text if slots are free. The number of free slots stands between the pieces.
	free []string
}

// slotsPlaceholder stands for the number of free slots. It cannot occur in XML.
const slotsPlaceholder = "\x00"

// nodeFragments writes the nodes of a site, in their order. Nodes with equal types and location share a
// nodeKind.
func nodeFragments(s *Site) []nodeFragment {
	nodes := make([]nodeFragment, len(s.Nodes))
	type text struct{ types, location string }
	kinds := map[text]*nodeKind{}
	manager := s.Manager.String()
	var b strings.Builder
	for i := range s.Nodes {
		n, f := &s.Nodes[i], &nodes[i]
		f.start = " " + openTag(inherited, "node", "component_id", n.ComponentID.String(), "component_manager_id", manager, "component_name", n.Name,
			"exclusive", strconv.FormatBool(n.Exclusive)) + ">"
		var t text
		b.Reset()
		n.writeTypes(&b)
		t.types = b.String()
		b.Reset()
		writeLocation(&b, n.Location)
		t.location = b.String()
		if f.kind = kinds[t]; f.kind == nil {
			f.kind = &nodeKind{
				busy: strings.ReplaceAll(t.types, slotsPlaceholder, "0") + `<available now="false"/>` + t.location,
				free: strings.Split(t.types+`<available now="true"/>`+t.location, slotsPlaceholder),
			}
			kinds[t] = f.kind
		}
		b.Reset()
		for _, in := range n.Interfaces {
			in.write(&b)
		}
		f.interfaces = b.String()
	}
	return nodes
}

func (k *nodeKind) append(b []byte, slots int) []byte {
	if slots == 0 {
		return append(b, k.busy...)
	}
	b = append(b, k.free[0]...)
	for _, piece := range k.free[1:] {
		b = strconv.AppendInt(b, int64(slots), 10)
		b = append(b, piece...)
	}
	return b
}

func (f *nodeFragment) size() int {
	return len(f.start) + len(f.kind.busy) + 4*len(f.kind.free) + len(f.interfaces)
}

// writeTypes writes the hardware types, the sliver types and the capabilities of the node, with
// slotsPlaceholder for the number of free slots if the node is shared.
func (n *AdNode) writeTypes(b *strings.Builder) {
	free := slotsPlaceholder
	if n.Exclusive {
		free = "1"
	}
	slots := `<` + emulabPrefix + `:node_type type_slots="` + free + `"/>`
	for _, h := range n.HardwareTypes {
		writeAround(b, "hardware_type", slots, "name", h)
	}
	for i, t := range n.SliverTypes {
		var inner strings.Builder
		for _, image := range t.Images {
			image.write(&inner)
		}
		if i == 0 && len(n.HardwareTypes) == 0 && !n.Exclusive {
			inner.WriteString(slots)
		}
		writeCapabilities(&inner, t.Capabilities)
		writeAround(b, "sliver_type", inner.String(), "name", t.Name)
	}
	writeCapabilities(b, n.Capabilities)
}

func (n *AdNode) hasCapabilities() bool {
	return len(n.Capabilities) > 0 || slices.ContainsFunc(n.SliverTypes, func(t AdSliverType) bool {
		return len(t.Capabilities) > 0 || slices.ContainsFunc(t.Images, func(i AdImage) bool { return len(i.Capabilities) > 0 })
	})
}

func (n *AdNode) countsSlots() bool {
	return len(n.HardwareTypes) > 0 || !n.Exclusive && len(n.SliverTypes) > 0
}

func (i *AdImage) write(b *strings.Builder) {
	standard := ""
	if i.Default {
		standard = "true"
	}
	var inner strings.Builder
	writeCapabilities(&inner, i.Capabilities)
	writeAround(b, "disk_image", inner.String(), "name", i.Name, "os", i.OS, "version", i.Version, "description", i.Description, "default", standard)
}

func (i *AdInterface) write(b *strings.Builder) {
	writeElement(b, inherited, "interface", "component_id", i.ComponentID.String(), "component_name", i.Name, "role", i.Role, "public_ipv4", i.PublicIPv4)
}

func writeLocation(b *strings.Builder, l *Location) {
	if l != nil && l.Country != "" && l.Latitude != "" && l.Longitude != "" {
		writeElement(b, inherited, "location", "country", l.Country, "latitude", l.Latitude, "longitude", l.Longitude)
	}
}
