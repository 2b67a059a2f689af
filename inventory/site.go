package inventory

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/am/urn"
	"patchbay/schemas/yamlfile"
)

// DefaultCleaningTime is used when a file has no cleaning_time.
const DefaultCleaningTime = time.Minute

// site reads an inventory: it has the Inventory so far, and what its sections refer to by name.
type site struct {
	reader
	*Inventory
	catalogue string // the folder
	provider  string // the provider of components that name none
	hardware  map[string]bool
	locations map[string]*Location
	gateways  map[string]*Gateway
	links     map[string]*Link
	linkURNs  map[string]bool       // keys of URNs
	tags      map[int]string        // tag → the entry that uses it: vlans, or the name of a shared VLAN
	public    map[netip.Addr]string // address → the entry that uses it: public_addresses, or an interface
}

const maxFile = 64 << 20

// Load reads an inventory file of the site authority. It must be a regular file of at most 64
// MiB. The error is of the file system or a *yamlfile.Error.
func Load(file, authority string) (*Inventory, error) {
	text, err := yamlfile.Load(file, maxFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the inventory: %w", err)
	}
	return Parse(text, file, authority)
}

// Parse reads an inventory from text; file is its name in messages, and the catalogue is in its
// folder. It fails with a *yamlfile.Error.
func Parse(text []byte, file, authority string) (*Inventory, error) {
	s := &site{
		reader: reader{yamlfile.Reader{File: file}},
		Inventory: &Inventory{
			Fingerprint:       fmt.Sprintf("%x", sha256.Sum256(text)),
			Authority:         authority,
			Manager:           urn.URN{Authority: authority, Type: urn.Authority, Name: "cm"},
			LinkTypes:         []string{"lan"},
			UnknownImage:      Refuse,
			ExclusiveOnShared: Grant,
			CrossLinks:        Refuse,
			LossUnit:          InPercent,
			OutsideAccess:     Unknown,
			LinkAddresses:     defaultLinkAddresses,
			CleaningTime:      DefaultCleaningTime,
			byURN:             map[string]*Component{},
			byName:            map[string]*Component{},
			byPort:            map[string]*Interface{},
			shared:            map[string]*SharedVLAN{},
			types:             map[string]*SliverType{},
			images:            map[string]*Image{},
			Catalogue:         map[string]string{},
		},
		catalogue: filepath.Join(filepath.Dir(file), CatalogueFolder),
		hardware:  map[string]bool{},
		locations: map[string]*Location{},
		gateways:  map[string]*Gateway{},
		links:     map[string]*Link{},
		linkURNs:  map[string]bool{},
		tags:      map[int]string{},
		public:    map[netip.Addr]string{},
	}
	if !urn.ValidAuthority(authority) {
		s.Wrong(nil, "the authority %q is not valid in a URN; use a domain name", authority)
	} else if doc := s.Document(text); doc != nil {
		s.readSections(doc.Content[0])
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	return s.Inventory, nil
}

// readSections reads each section after the sections to which it refers, whatever their order
// in the file.
func (s *site) readSections(top *yaml.Node) {
	if yamlfile.IsNull(top) {
		s.Wrong(nil, "the inventory is empty; it needs at least sliver_types and components")
		return
	}
	type section struct {
		key  string
		read func(*yaml.Node)
	}
	sections := []section{
		{"managers", s.readManagers},
		{"unknown_image", func(n *yaml.Node) {
			s.UnknownImage = yamlfile.Choice(&s.Reader, n, "unknown_image", Refuse, UseDefault)
		}},
		{"exclusive_on_shared", func(n *yaml.Node) {
			s.ExclusiveOnShared = yamlfile.Choice(&s.Reader, n, "exclusive_on_shared", Grant, Share, Refuse)
		}},
		{"cleaning_time", s.readCleaningTime},
		{"link_types", s.readLinkTypes},
		{"cross_links", func(n *yaml.Node) { s.CrossLinks = yamlfile.Choice(&s.Reader, n, "cross_links", Refuse, Copy) }},
		{"packet_loss_unit", func(n *yaml.Node) {
			s.LossUnit = yamlfile.Choice(&s.Reader, n, "packet_loss_unit", InPercent, AsFraction)
		}},
		{"outbound", func(n *yaml.Node) { s.OutsideAccess = yamlfile.Choice(&s.Reader, n, "outbound", Unknown, Yes, No) }},
		{"vlans", s.readVLANs},
		{"shared_vlans", s.readSharedVLANs},
		{"link_addresses", s.readLinkAddresses},
		{"public_addresses", s.readPublicAddresses},
		{"monitoring", s.readMonitoring},
		{"links", s.readLinks},
		{"software", s.readSoftware},
		{"galaxy", s.readGalaxy},
		{"clouds", s.readClouds},
		{"provider", func(n *yaml.Node) { s.provider = s.name(n, "provider") }},
		{"hardware_types", s.readHardwareTypes},
		{"locations", s.readLocations},
		{"gateways", s.readGateways},
		{"images", s.readImages},
		{"sliver_types", s.readSliverTypes},
		{"default_sliver_type", s.readDefaultSliverType},
		{"components", s.readComponents},
	}
	given := map[string]*yaml.Node{}
	s.Fields(top, "an inventory", namesOf(sections, func(x section) string { return x.key }), func(key string, n *yaml.Node) { given[key] = n })
	for _, x := range sections {
		if n := given[x.key]; n != nil {
			x.read(n)
		}
	}
	if len(s.SliverTypes) == 0 && s.Mistakes() == 0 {
		s.Missing(top, "the inventory", "sliver_types")
	}
}

func (s *site) readManagers(n *yaml.Node) {
	for _, item := range s.Texts(n, "managers") {
		u, err := urn.Parse(item.Value)
		if err != nil || u.Type != urn.Authority {
			s.Wrong(item, "%q is not a manager's URN; write urn:publicid:IDN+AUTHORITY+authority+cm", item.Value)
			continue
		}
		s.Managers = append(s.Managers, u)
	}
}

// readLinkTypes reads the types of links; * means all types.
func (s *site) readLinkTypes(n *yaml.Node) {
	s.LinkTypes = textsOf(s.names(n, "link_types"))
	if slices.Contains(s.LinkTypes, "*") {
		s.LinkTypes = nil
	}
}

func (s *site) readCleaningTime(n *yaml.Node) {
	d, err := time.ParseDuration(n.Value)
	if err != nil || d <= 0 {
		s.Wrong(n, "cleaning_time must be a duration such as 30s or 5m")
		return
	}
	s.CleaningTime = d
}

func (s *site) readHardwareTypes(n *yaml.Node) {
	for _, item := range s.names(n, "hardware_types") {
		if s.hardware[item.Value] {
			s.Wrong(item, "the hardware type %q is listed twice; remove one", item.Value)
			continue
		}
		s.hardware[item.Value] = true
		s.HardwareTypes = append(s.HardwareTypes, item.Value)
	}
}

func (s *site) readLocations(n *yaml.Node) {
	for _, item := range s.Items(n, "locations") {
		l := &Location{}
		s.Keys(item, "a location",
			yamlfile.Into("name", &l.Name, s.Text),
			yamlfile.With("country", func(n *yaml.Node) {
				if l.Country = s.Text(n, "country"); len(l.Country) != 2 || strings.ToUpper(l.Country) != l.Country {
					s.Wrong(n, "country must be two capital letters, such as BE")
				}
			}),
			yamlfile.With("latitude", func(n *yaml.Node) { l.Latitude = s.degrees(n, "latitude", 90) }),
			yamlfile.With("longitude", func(n *yaml.Node) { l.Longitude = s.degrees(n, "longitude", 180) }),
		)
		switch {
		case l.Name == "":
			s.Missing(item, "a location", "name")
		case l.Country == "":
			s.Missing(item, "location "+l.Name, "country")
		case (l.Latitude == "") != (l.Longitude == ""):
			s.Wrong(item, "location %s has only one of latitude and longitude; give both or neither", l.Name)
		case s.locations[l.Name] != nil:
			s.Wrong(item, "there are two locations %q; rename one", l.Name)
		default:
			s.locations[l.Name] = l
			s.Locations = append(s.Locations, l)
		}
	}
}

func (s *site) degrees(n *yaml.Node, label string, limit float64) string {
	if f, err := strconv.ParseFloat(n.Value, 64); err != nil || !(f >= -limit && f <= limit) {
		s.Wrong(n, "%s must be decimal degrees from -%g to %g", label, limit, limit)
		return ""
	}
	return n.Value
}

func (s *site) readGateways(n *yaml.Node) {
	for _, item := range s.Items(n, "gateways") {
		g := &Gateway{Port: 22}
		s.Keys(item, "a gateway",
			yamlfile.Into("name", &g.Name, s.name),
			yamlfile.Into("host", &g.Host, s.Text),
			yamlfile.With("port", func(n *yaml.Node) {
				if g.Port = int(s.Whole(n, "port")); g.Port < 1 || g.Port > 65535 {
					s.Wrong(n, "port must be from 1 to 65535")
				}
			}),
			yamlfile.Into("user", &g.User, s.Text),
		)
		switch {
		case g.Name == "":
			s.Missing(item, "a gateway", "name")
		case g.Host == "":
			s.Missing(item, "gateway "+g.Name, "host")
		case s.gateways[g.Name] != nil:
			s.Wrong(item, "there are two gateways %q; rename one", g.Name)
		default:
			s.gateways[g.Name] = g
			s.Gateways = append(s.Gateways, g)
		}
	}
}

func textsOf(nodes []*yaml.Node) []string {
	return namesOf(nodes, func(n *yaml.Node) string { return n.Value })
}
