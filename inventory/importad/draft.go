package importad

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"patchbay/am/urn"
)

type draft struct {
	o         Options
	authority string // of the chosen manager
	manager   urn.URN
	nodes     []*node // of the manager

	hardware   []string
	locations  []*location
	images     []*disk
	types      []*sliverType
	links      []*link
	vlans      []vlan
	components []*component

	remarks    remarks
	isHardware map[string]bool
	byPlace    map[location]*location
	byImage    map[string]*disk       // by name, and by the key of the URN
	urls       map[string]bool        // of the images
	byType     map[string]*sliverType // by the name in the advertisement
	typeNames  map[string]bool        // in the inventory
	names      usedNames              // of components
	ids        map[string]bool        // of components and interfaces, by key
	addresses  map[netip.Addr]bool
}

type location struct{ name, country, latitude, longitude string }

type sliverType struct {
	name, alias string
	images      []*disk        // that any node offers
	has         map[*disk]bool // the same images
	preferred   *disk          // the default image; nil if no node names one
	differs     bool           // not all nodes offer the same images
	nodes       int            // number of nodes that offer the type

	capabilities capabilities
}

type component struct {
	node      *node
	name, id  string
	exclusive bool
	slots     int64
	guessed   bool // slots is not from the advertisement
	types     []*sliverType
	hardware  []string
	place     *location
	ports     []*interfaceDraft
	drained   bool

	capabilities capabilities
}

func newDraft(o Options) *draft {
	return &draft{
		o: o, isHardware: map[string]bool{}, byPlace: map[location]*location{}, byImage: map[string]*disk{}, urls: map[string]bool{},
		byType: map[string]*sliverType{}, typeNames: map[string]bool{}, ids: map[string]bool{}, addresses: map[netip.Addr]bool{},
	}
}

func (d *draft) readNodes(ad *advertisement) {
	typed := slices.ContainsFunc(d.nodes, func(n *node) bool { return len(n.types) > 0 })
	for _, n := range d.nodes {
		d.addNode(n, typed)
	}
	if len(d.types) == 0 {
		d.addDefaultType()
	}
	for _, t := range d.types {
		if t.differs {
			d.remarks.add("sliver types that differ from node to node in their images; here each node offers all of them", t.name, 1)
		}
	}
	if len(d.types) > 1 {
		d.remarks.add("default_sliver_type, the type of nodes that name none, is not in the advertisement; change it if your users' requests need another", d.defaultType().name, 1)
	}
	d.addLinks(ad.wires)
	for _, v := range ad.vlans {
		d.addVLAN(v)
	}
}

// addNode adds a component for a node. If typed is true, some nodes have sliver types,
// so a node without any is drained.
func (d *draft) addNode(n *node, typed bool) {
	u, err := urn.Parse(n.id)
	switch {
	case err != nil || u.Type != urn.Node:
		d.remarks.add("nodes whose component_id is no URN of a node, left out", fmt.Sprintf("%.80q", n.id), 1)
		return
	case d.ids[u.Key()]:
		d.remarks.add("nodes whose component_id occurs twice, left out", validName(n.id), 1)
		return
	}
	d.ids[u.Key()] = true
	c := &component{node: n, id: u.String()}
	want := componentName(cmp.Or(n.name, u.Name))
	if c.name = d.names.unique(cmp.Or(want, "node")); c.name != n.name && n.name != "" {
		d.remarks.add("components with another name than in the advertisement, where it occurs twice or is invalid", c.name, 1)
	}
	switch n.exclusive {
	case "true", "1":
		c.exclusive = true
	case "false", "0":
	default:
		c.exclusive = true
		d.remarks.add("components that do not say whether they are exclusive; here they are", c.name, 1)
	}
	for _, o := range n.types {
		if t := d.addSliverType(o); t != nil && !slices.Contains(c.types, t) {
			c.types = append(c.types, t)
		}
	}
	for _, i := range n.images {
		d.addImage(i)
	}
	if len(c.types) == 0 && typed {
		c.drained = true
		d.remarks.add("components that offer no sliver type, such as switches: kept under their component_ids and drained", c.name, 1)
	}
	if !c.exclusive {
		if c.slots = n.slots; c.slots == 0 {
			c.slots, c.guessed = 10, true
			d.remarks.add("shared components without a capacity in the advertisement; here it is 10 slots", c.name, 1)
		} else {
			d.remarks.add("shared components with the number of slots that were free; set the real number", c.name, 1)
		}
	}
	if n.unavailable {
		d.remarks.add("components that were not available, perhaps because they were in use; they are not drained", c.name, 1)
	}
	for _, h := range n.hardware {
		d.addHardware(c, h)
	}
	c.place, c.capabilities = d.locationOf(n), d.capabilities(n.capabilities, false)
	d.addInterfaces(c, u)
	d.components = append(d.components, c)
}

func (d *draft) addHardware(c *component, name string) {
	h := validName(name)
	if h == "" || slices.Contains(c.hardware, h) {
		return
	}
	if h != name {
		d.remarks.add("hardware types with another name than in the advertisement, where it is invalid", h, 1)
	}
	if !d.isHardware[h] {
		d.isHardware[h] = true
		d.hardware = append(d.hardware, h)
	}
	c.hardware = append(c.hardware, h)
}

// locationOf returns nil if the node names no valid country.
func (d *draft) locationOf(n *node) *location {
	country := strings.ToUpper(n.country)
	if country == "" {
		return nil
	}
	if len(country) != 2 || country[0] < 'A' || country[0] > 'Z' || country[1] < 'A' || country[1] > 'Z' {
		d.remarks.add("locations without a country of two letters, left out", fmt.Sprintf("%.40q", n.country), 1)
		return nil
	}
	l := location{country: country, latitude: degrees(n.latitude, 90), longitude: degrees(n.longitude, 180)}
	if l.latitude == "" || l.longitude == "" {
		l.latitude, l.longitude = "", ""
	}
	known := d.byPlace[l]
	if known == nil {
		known = &location{fmt.Sprintf("%s-%d", country, len(d.locations)+1), l.country, l.latitude, l.longitude}
		d.byPlace[l] = known
		d.locations = append(d.locations, known)
	}
	return known
}

// degrees returns a coordinate as decimal text; "" if it is invalid.
func degrees(s string, limit float64) string {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || math.Abs(f) > limit {
		return ""
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// reserved are addresses that no interface of an inventory may have.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("224.0.0.0/3"),
	netip.MustParsePrefix("10.128.0.0/9"),
}

// addInterfaces adds the interfaces of c, whose URN is owner.
func (d *draft) addInterfaces(c *component, owner urn.URN) {
	var local usedNames
	for _, p := range c.node.ports {
		u, err := urn.Parse(p.id)
		switch {
		case err != nil || u.Type != urn.Interface:
			d.remarks.add("interfaces whose component_id is no URN of an interface, left out", fmt.Sprintf("%.80q", p.id), 1)
			continue
		case d.ids[u.Key()]:
			d.remarks.add("interfaces whose component_id occurs twice, left out", validName(p.id), 1)
			continue
		}
		d.ids[u.Key()] = true
		short := strings.TrimPrefix(u.Name, owner.Name+":")
		s := &interfaceDraft{port: p, key: u.Key(), cloud: c.node.cloud}
		s.id, s.name = u.String(), local.unique(cmp.Or(validName(p.name), validName(short)))
		switch p.role {
		case "control", "experimental", "mixed":
		default:
			s.role = ""
		}
		s.address = d.address(p.address)
		c.ports = append(c.ports, s)
	}
}

// address returns the public address in text, or "" if it is invalid, reserved or
// already used.
func (d *draft) address(text string) string {
	if text == "" {
		return ""
	}
	a, err := netip.ParseAddr(text)
	bad := err != nil || !a.Is4() || d.addresses[a] || slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) })
	if bad {
		d.remarks.add("invalid public addresses of interfaces, left out", fmt.Sprintf("%.40q", text), 1)
		return ""
	}
	d.addresses[a] = true
	return a.String()
}

func (d *draft) addVLAN(v vlan) {
	name := validName(v.name)
	tag, err := strconv.Atoi(v.tag)
	taken := slices.ContainsFunc(d.vlans, func(x vlan) bool { return x.name == name || x.tag == v.tag })
	switch {
	case name == "" || err != nil || tag < 1 || tag > 4094 || taken:
		d.remarks.add("shared VLANs without a tag of their own, which an inventory needs; add them to shared_vlans", name, 1)
	case len(d.vlans) < 4094:
		d.vlans = append(d.vlans, vlan{name, strconv.Itoa(tag), oneLine(v.description), v.restricted})
	}
}
