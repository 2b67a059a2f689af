package inventory

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"patchbay/am/urn"
)

// Choice is the value of one of the site's policy keys.
type Choice string

const (
	// Refuse refuses the request.
	Refuse Choice = "refuse"
	// UseDefault takes the sliver type's default image in place of an unknown one.
	UseDefault Choice = "default"
	// Grant gives a slice exclusive use of a shared component that no other slice
	// uses.
	Grant Choice = "grant"
	// Share ignores exclusive="true" on a shared component, with a notice.
	Share Choice = "share"
	// Copy ignores an unsupported element, with a notice, and keeps it in the manifest.
	Copy Choice = "copy"
	// InPercent and AsFraction are the units of packet loss: a loss of 1 per cent is "1"
	// in InPercent and "0.01" in AsFraction.
	InPercent  Choice = "percent"
	AsFraction Choice = "fraction"
	// Yes, No and Unknown say whether nodes reach the outside network.
	Yes     Choice = "yes"
	No      Choice = "no"
	Unknown Choice = "unknown"
)

// Inventory is everything that a site offers. It is immutable, including everything it
// points to.
type Inventory struct {
	// Fingerprint is the SHA-256 of the inventory's text, in hexadecimal.
	Fingerprint string
	// Authority is the site's name in URNs.
	Authority string
	// Manager is this aggregate's own URN.
	Manager urn.URN
	// Managers are further URNs by which requests may name this aggregate.
	Managers []urn.URN

	// Components in the order of the file; Components[i].Index is i.
	Components []*Component
	// Interfaces are those of all components; Interfaces[i].Index is i.
	Interfaces []*Interface
	// SliverTypes in the order of the file; at least one.
	SliverTypes []*SliverType
	// DefaultSliverType is used for nodes that name no sliver type.
	DefaultSliverType *SliverType
	// Images in the order of the file.
	Images []*Image
	// HardwareTypes in the order of the file.
	HardwareTypes []string
	// LinkTypes are the types of link that the site's providers can create; nil for any.
	LinkTypes []string
	Gateways  []*Gateway
	Locations []*Location
	// Links are the physical links, in the order of the file; Links[i].Index is i.
	Links []*Link
	// VLANs are the tags, 1 to 4094, for links over physical links. If there are none,
	// links get no tags.
	VLANs []int
	// SharedVLANs have tags outside VLANs.
	SharedVLANs []*SharedVLAN
	// LinkAddresses is the range from which interfaces without a requested address
	// get one.
	LinkAddresses netip.Prefix
	// PublicAddresses are assigned to nodes that request one.
	PublicAddresses []netip.Addr
	// Monitoring is nil if the site offers none.
	Monitoring *Monitoring
	// Software are programs that compiled requests can install, in the order of the file.
	Software []Software
	// Galaxy has the URLs of the archives of Ansible roles and collections, by name.
	Galaxy map[string]string
	// Catalogue has the SHA-256 of the files to which Software and Galaxy refer, in hexadecimal, by
	// name, as the files were when the inventory was read.
	Catalogue map[string]string
	// Clouds are the URNs of the aggregates for which sources use other names.
	Clouds map[string]urn.URN

	// UnknownImage selects what happens with a disk image that the site does not
	// have: Refuse or UseDefault.
	UnknownImage Choice
	// ExclusiveOnShared selects what happens when exclusive use of a shared component
	// is requested: Grant, Share or Refuse.
	ExclusiveOnShared Choice
	// CrossLinks selects what happens with a link between a node of this aggregate and a
	// node of another one: Refuse, or Copy it into the manifest.
	CrossLinks Choice
	// LossUnit is the unit of packet loss in requests: InPercent or AsFraction.
	LossUnit Choice
	// OutsideAccess says whether nodes reach the outside network: Yes, No or Unknown. It
	// is only used in messages: with No, experimenters learn which parts of a request
	// cannot work.
	OutsideAccess Choice
	// CleaningTime is the usual time to clean a component after use, if its provider
	// declares no other time; see Cleaning.
	CleaningTime time.Duration

	cleaning map[string]time.Duration // by provider
	file     *Inventory               // the inventory before WithFound; nil if it was not called
	facts    map[string]Facts         // that WithFound has added
	byURN    map[string]*Component    // by the key of the URN
	byName   map[string]*Component
	byPort   map[string]*Interface // by the key of the URN
	shared   map[string]*SharedVLAN
	types    map[string]*SliverType
	patterns []pattern
	images   map[string]*Image
}

// WithCleaning returns a copy of v with the cleaning times that providers declare, by the
// provider's name.
func (v *Inventory) WithCleaning(times map[string]time.Duration) *Inventory {
	c := *v
	c.cleaning = times
	if v.file != nil {
		c.file = v.file.WithCleaning(times)
	}
	return &c
}

// Cleaning returns the usual time to clean c after use: the time that its provider declares,
// otherwise CleaningTime. It is only used in messages.
func (v *Inventory) Cleaning(c *Component) time.Duration {
	return cmp.Or(v.cleaning[c.Provider], v.CleaningTime)
}

// Component finds a component by its URN.
func (v *Inventory) Component(u urn.URN) (*Component, bool) {
	c, ok := v.byURN[u.Key()]
	return c, ok
}

// ComponentWithKey finds a component by the key of its URN.
func (v *Inventory) ComponentWithKey(key []byte) (*Component, bool) {
	c, ok := v.byURN[string(key)]
	return c, ok
}

// InterfaceWithKey finds a physical interface by the key of its URN.
func (v *Inventory) InterfaceWithKey(key []byte) (*Interface, bool) {
	i, ok := v.byPort[string(key)]
	return i, ok
}

// RequestLinkTypes returns the types that links of requests may have; nil for any: LinkTypes, and
// the types of the physical links.
func (v *Inventory) RequestLinkTypes() []string {
	if v.LinkTypes == nil {
		return nil
	}
	types := slices.Clone(v.LinkTypes)
	for _, l := range v.Links {
		if l.Type != "" && !slices.Contains(types, l.Type) {
			types = append(types, l.Type)
		}
	}
	return types
}

// LinksOfType returns the physical links whose type is name, without regard to case. It returns nil if there are none,
// if name is empty, and if LinkTypes has it: providers create such a link.
func (v *Inventory) LinksOfType(name string) (all []*Link) {
	if name == "" || slices.ContainsFunc(v.LinkTypes, func(t string) bool { return strings.EqualFold(t, name) }) {
		return nil
	}
	for _, l := range v.Links {
		if strings.EqualFold(l.Type, name) {
			all = append(all, l)
		}
	}
	return all
}

// ComponentNamed finds a component by its short name.
func (v *Inventory) ComponentNamed(name string) (*Component, bool) {
	c, ok := v.byName[name]
	return c, ok
}

// Interface finds a physical interface by its URN.
func (v *Inventory) Interface(u urn.URN) (*Interface, bool) {
	i, ok := v.byPort[u.Key()]
	return i, ok
}

// SharedVLAN finds a shared VLAN by its name.
func (v *Inventory) SharedVLAN(name string) (*SharedVLAN, bool) {
	s, ok := v.shared[name]
	return s, ok
}

// SliverType finds the type for a name in a request: first among the site's own
// names, then among aliases, then by the first matching alias pattern.
func (v *Inventory) SliverType(name string) (*SliverType, bool) {
	if t, ok := v.types[name]; ok {
		return t, true
	}
	for _, p := range v.patterns {
		if p.match.MatchString(name) {
			return p.to, true
		}
	}
	return nil, false
}

// Image finds an image of the site by its name, URN or URL, whether or not a sliver
// type offers it.
func (v *Inventory) Image(name string) (*Image, bool) {
	i, ok := v.images[imageKey(name)]
	return i, ok
}
