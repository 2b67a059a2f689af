package inventory

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/am/urn"
)

// DefaultCleaningTime is the cleaning_time of a file that has none.
const DefaultCleaningTime = time.Minute

var siteKeys = []string{
	"default_sliver_type", "managers", "unknown_image", "exclusive_on_shared", "cleaning_time", "link_types", "cross_links", "packet_loss_unit", "outbound", "provider",
	"vlans", "shared_vlans", "link_addresses", "public_addresses", "monitoring",
	"hardware_types", "locations", "gateways", "images", "sliver_types", "links", "components",
}

// site is an inventory while it is being read.
type site struct {
	reader
	*Inventory
	provider  string // of components that name none
	hardware  map[string]bool
	locations map[string]*Location
	gateways  map[string]*Gateway
	links     map[string]*Link
	linkURNs  map[string]bool       // by their keys
	tags      map[int]string        // who has a tag: vlans, or the name of a shared VLAN
	public    map[netip.Addr]string // who has an address: public_addresses, or an interface
}

// Parse reads an inventory from text; file is its name in messages. The error
// is a *FileError.
func Parse(text []byte, file, authority string) (*Inventory, error) {
	s := &site{
		reader: reader{file: file},
		Inventory: &Inventory{
			Authority:         authority,
			Manager:           urn.URN{Authority: authority, Type: urn.Authority, Name: "cm"},
			LinkTypes:         []string{"lan"},
			UnknownImage:      Refuse,
			ExclusiveOnShared: Grant,
			CrossLinks:        Refuse,
			LossUnit:          InPercent,
			Outbound:          Unknown,
			LinkAddresses:     defaultLinkAddresses,
			CleaningTime:      DefaultCleaningTime,
			byURN:             map[string]*Component{},
			byName:            map[string]*Component{},
			byPort:            map[string]*Interface{},
			shared:            map[string]*SharedVLAN{},
			types:             map[string]*SliverType{},
			images:            map[string]*Image{},
		},
		hardware:  map[string]bool{},
		locations: map[string]*Location{},
		gateways:  map[string]*Gateway{},
		links:     map[string]*Link{},
		linkURNs:  map[string]bool{},
		tags:      map[int]string{},
		public:    map[netip.Addr]string{},
	}
	if !urn.ValidAuthority(authority) {
		s.wrong(&yaml.Node{}, "the authority %q cannot stand in a URN; use a domain name", authority)
	} else if top := s.document(text); top != nil {
		s.read(top)
	}
	if len(s.problems) > 0 {
		return nil, &FileError{s.sorted()}
	}
	return s.Inventory, nil
}

// document parses the text as one YAML document.
func (s *site) document(text []byte) *yaml.Node {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	err := d.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		s.empty()
	case err == nil:
		if err = d.Decode(&more); err == nil {
			s.wrong(&more, "a second YAML document begins here; an inventory is one document")
			return nil
		}
		if errors.Is(err, io.EOF) && isNull(doc.Content[0]) {
			s.empty()
			return nil
		}
		if errors.Is(err, io.EOF) {
			return doc.Content[0]
		}
		fallthrough
	default:
		s.notYAML(text, err)
	}
	return nil
}

func (s *site) empty() {
	s.wrong(&yaml.Node{}, "the inventory is empty; it needs at least sliver_types and components")
}

// read takes the sections in the order in which they refer to each other,
// whatever their order in the file.
func (s *site) read(top *yaml.Node) {
	sections := map[string]*yaml.Node{}
	s.fields(top, "an inventory", siteKeys, func(key string, n *yaml.Node) { sections[key] = n })
	for _, read := range []struct {
		key string
		f   func(*yaml.Node)
	}{
		{"managers", s.readManagers},
		{"unknown_image", func(n *yaml.Node) { s.UnknownImage = s.choice(n, "unknown_image", Refuse, UseDefault) }},
		{"exclusive_on_shared", func(n *yaml.Node) { s.ExclusiveOnShared = s.choice(n, "exclusive_on_shared", Grant, Refuse) }},
		{"cleaning_time", s.readCleaningTime},
		{"link_types", s.readLinkTypes},
		{"cross_links", func(n *yaml.Node) { s.CrossLinks = s.choice(n, "cross_links", Refuse, Copy) }},
		{"packet_loss_unit", func(n *yaml.Node) { s.LossUnit = s.choice(n, "packet_loss_unit", InPercent, AsFraction) }},
		{"outbound", func(n *yaml.Node) { s.Outbound = s.choice(n, "outbound", Unknown, Yes, No) }},
		{"vlans", s.readVLANs},
		{"shared_vlans", s.readSharedVLANs},
		{"link_addresses", s.readLinkAddresses},
		{"public_addresses", s.readPublicAddresses},
		{"monitoring", s.readMonitoring},
		{"links", s.readLinks},
		{"provider", func(n *yaml.Node) { s.provider = s.name(n, "provider") }},
		{"hardware_types", s.readHardwareTypes},
		{"locations", s.readLocations},
		{"gateways", s.readGateways},
		{"images", s.readImages},
		{"sliver_types", s.readSliverTypes},
		{"default_sliver_type", s.readDefaultSliverType},
		{"components", s.readComponents},
	} {
		if n := sections[read.key]; n != nil {
			read.f(n)
		}
	}
	if len(s.SliverTypes) == 0 && len(s.problems) == 0 {
		s.missing(top, "the inventory", "sliver_types")
	}
}

func (s *site) readManagers(n *yaml.Node) {
	for _, item := range s.texts(n, "managers") {
		u, err := urn.Parse(item.Value)
		if err != nil || u.Type != urn.Authority {
			s.wrong(item, "%q is no manager's URN; write urn:publicid:IDN+AUTHORITY+authority+cm", item.Value)
			continue
		}
		s.Managers = append(s.Managers, u)
	}
}

func (s *site) readLinkTypes(n *yaml.Node) {
	s.LinkTypes = values(s.names(n, "link_types"))
	if slices.Contains(s.LinkTypes, "*") {
		s.LinkTypes = nil
	}
}

func (s *site) readCleaningTime(n *yaml.Node) {
	d, err := time.ParseDuration(n.Value)
	if err != nil || d <= 0 {
		s.wrong(n, "cleaning_time must be a time such as 30s or 5m")
		return
	}
	s.CleaningTime = d
}

func (s *site) readHardwareTypes(n *yaml.Node) {
	for _, item := range s.names(n, "hardware_types") {
		if s.hardware[item.Value] {
			s.wrong(item, "the hardware type %q is here twice; drop one", item.Value)
			continue
		}
		s.hardware[item.Value] = true
		s.HardwareTypes = append(s.HardwareTypes, item.Value)
	}
}

func (s *site) readLocations(n *yaml.Node) {
	for _, item := range s.items(n, "locations") {
		l := &Location{}
		s.fields(item, "a location", []string{"name", "country", "latitude", "longitude"}, func(key string, n *yaml.Node) {
			switch key {
			case "name":
				l.Name = s.text(n, "name")
			case "country":
				if l.Country = s.text(n, "country"); len(l.Country) != 2 || strings.ToUpper(l.Country) != l.Country {
					s.wrong(n, "country must be two capital letters, such as BE")
				}
			case "latitude":
				l.Latitude = s.degrees(n, key, 90)
			case "longitude":
				l.Longitude = s.degrees(n, key, 180)
			}
		})
		switch {
		case l.Name == "":
			s.missing(item, "a location", "name")
		case l.Country == "":
			s.missing(item, "location "+l.Name, "country")
		case (l.Latitude == "") != (l.Longitude == ""):
			s.wrong(item, "location %s has only one of latitude and longitude; give both or neither", l.Name)
		case s.locations[l.Name] != nil:
			s.wrong(item, "there are two locations %q; rename one", l.Name)
		default:
			s.locations[l.Name] = l
			s.Locations = append(s.Locations, l)
		}
	}
}

// degrees checks a coordinate and keeps its spelling.
func (s *site) degrees(n *yaml.Node, what string, limit float64) string {
	if f, err := strconv.ParseFloat(n.Value, 64); err != nil || !(f >= -limit && f <= limit) {
		s.wrong(n, "%s must be decimal degrees from -%g to %g", what, limit, limit)
		return ""
	}
	return n.Value
}

func (s *site) readGateways(n *yaml.Node) {
	for _, item := range s.items(n, "gateways") {
		g := &Gateway{Port: 22}
		s.fields(item, "a gateway", []string{"name", "host", "port", "user"}, func(key string, n *yaml.Node) {
			switch key {
			case "name":
				g.Name = s.name(n, "name")
			case "host":
				g.Host = s.text(n, "host")
			case "port":
				if g.Port = int(s.whole(n, "port")); g.Port < 1 || g.Port > 65535 {
					s.wrong(n, "port must be from 1 to 65535")
				}
			case "user":
				g.User = s.text(n, "user")
			}
		})
		switch {
		case g.Name == "":
			s.missing(item, "a gateway", "name")
		case g.Host == "":
			s.missing(item, "gateway "+g.Name, "host")
		case s.gateways[g.Name] != nil:
			s.wrong(item, "there are two gateways %q; rename one", g.Name)
		default:
			s.gateways[g.Name] = g
			s.Gateways = append(s.Gateways, g)
		}
	}
}

func values(nodes []*yaml.Node) []string {
	list := make([]string, len(nodes))
	for i, n := range nodes {
		list[i] = n.Value
	}
	return list
}
