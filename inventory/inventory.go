package inventory

import (
	"net/netip"
	"time"

	"patchbay/am/urn"
)

// Choice is an answer to one of the site's policy questions.
type Choice string

// Choices.
const (
	// Refuse says no.
	Refuse Choice = "refuse"
	// UseDefault takes the sliver type's default image instead of an unknown one.
	UseDefault Choice = "default"
	// Grant lets a slice have a shared component for itself while no other slice
	// is on it.
	Grant Choice = "grant"
	// Share has nodes that want a shared component alone share it all the same, with a
	// notice.
	Share Choice = "share"
	// Copy leaves what cannot be done in the manifest, with a notice.
	Copy Choice = "copy"
	// InPercent and AsFraction are units: 1 per cent is "1" or "0.01".
	InPercent  Choice = "percent"
	AsFraction Choice = "fraction"
	// Yes, No and Unknown answer whether nodes reach the network outside.
	Yes     Choice = "yes"
	No      Choice = "no"
	Unknown Choice = "unknown"
)

// Inventory is all that a site offers. It is immutable: whatever it points to
// must only be read.
type Inventory struct {
	// Fingerprint is the SHA-256 of the text it was read from, in hexadecimal.
	Fingerprint string
	// Authority is the site's name in URNs.
	Authority string
	// Manager is this aggregate's own URN.
	Manager urn.URN
	// Managers are further URNs by which requests may call this aggregate.
	Managers []urn.URN

	// Components in the order of the file; Components[i].Index is i.
	Components []*Component
	// Interfaces are those of all components; Interfaces[i].Index is i.
	Interfaces []*Interface
	// SliverTypes in the order of the file; at least one.
	SliverTypes []*SliverType
	// DefaultSliverType is for nodes of a request that name none.
	DefaultSliverType *SliverType
	// Images in the order of the file.
	Images []*Image
	// HardwareTypes in the order of the file.
	HardwareTypes []string
	// LinkTypes are the kinds of link the site's providers can make; nil for any.
	LinkTypes []string
	Gateways  []*Gateway
	Locations []*Location
	// Links are the physical links, in the order of the file; Links[i].Index is i.
	Links []*Link
	// VLANs are the tags, 1 to 4094, that links over physical links get; if it
	// is empty they get none.
	VLANs []int
	// SharedVLANs have tags outside VLANs.
	SharedVLANs []*SharedVLAN
	// LinkAddresses is the range from which interfaces of links get addresses
	// that ask for none.
	LinkAddresses netip.Prefix
	// PublicAddresses are for nodes that ask for one.
	PublicAddresses []netip.Addr
	// Monitoring is nil if the site offers none.
	Monitoring *Monitoring

	// UnknownImage is what to do with a disk image that the site does not have:
	// Refuse or UseDefault.
	UnknownImage Choice
	// ExclusiveOnShared is what to do when a shared component is asked for
	// exclusively: Grant, Share or Refuse.
	ExclusiveOnShared Choice
	// CrossLinks is what to do with a link between our nodes and another
	// aggregate's: Refuse, or Copy it into the manifest.
	CrossLinks Choice
	// LossUnit is the unit in which requests tell packet loss: InPercent or
	// AsFraction.
	LossUnit Choice
	// Outbound is whether nodes reach the network outside: Yes, No or Unknown.
	// Experimenters are told what of a request No keeps from being done; nothing else
	// depends on it.
	Outbound Choice
	// CleaningTime is how long a component is usually being cleaned after its
	// last use. Experimenters are told so; nothing else depends on it.
	CleaningTime time.Duration

	byURN    map[string]*Component
	byName   map[string]*Component
	byPort   map[string]*Interface
	shared   map[string]*SharedVLAN
	types    map[string]*SliverType
	patterns []pattern
	images   map[string]*Image
}

// Component finds a component by its URN.
func (v *Inventory) Component(u urn.URN) (*Component, bool) {
	c, ok := v.byURN[u.Key()]
	return c, ok
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

// SliverType finds what a request calls name: first one of the site's own
// names, then an alias, then the first alias pattern that matches.
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

// Image finds an image of the site by its name, URN or URL, whether or not a
// sliver type offers it.
func (v *Inventory) Image(name string) (*Image, bool) {
	i, ok := v.images[imageKey(name)]
	return i, ok
}
