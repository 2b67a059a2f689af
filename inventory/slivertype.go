package inventory

import (
	"regexp"
	"strings"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/rspec/match"
)

// SliverType is a type of sliver: its names, the capacity that it needs, and its
// images.
type SliverType struct {
	Name string
	// Aliases are other names for the type in requests, such as names at other sites; * and
	// ? are wildcards.
	Aliases []string
	// Needs is the part of a component's capacity that one sliver uses.
	Needs  am.Amount
	Images []*Image
	// DefaultImage is nil only if there are no Images.
	DefaultImage *Image
	// Capabilities are what the type determines; other features are the component's. See
	// CapabilitiesOf.
	Capabilities map[string]match.Capability

	images map[string]*Image
}

// Image finds one of the type's images by name, URN or URL.
func (t *SliverType) Image(name string) (*Image, bool) {
	i, ok := t.images[imageKey(name)]
	return i, ok
}

// Image is a disk image.
type Image struct {
	// Name is the short name or the URN, as the file spells it.
	Name string
	URN  urn.URN
	OS   string
	// Version is the version of the operating system.
	Version     string
	Description string
	// URL is where the image can be downloaded; empty if it is not public.
	URL string
	// Capabilities describe the image's software.
	Capabilities map[string]match.Capability
}

// imageKey returns the key of an image's name, URN or URL in maps. Equal URNs have one key.
func imageKey(name string) string {
	if u, err := urn.Parse(name); err == nil {
		return u.Key()
	}
	return name
}

type pattern struct {
	match *regexp.Regexp
	to    *SliverType
}

func hasWildcard(alias string) bool { return strings.ContainsAny(alias, "*?") }

// aliasPattern returns the expression for an alias with wildcards. * also matches slashes, unlike in path.Match,
// because sliver types are URLs at some sites.
func aliasPattern(alias string) *regexp.Regexp {
	e := regexp.QuoteMeta(alias)
	e = strings.ReplaceAll(e, `\*`, `.*`)
	e = strings.ReplaceAll(e, `\?`, `.`)
	return regexp.MustCompile(`(?s)^` + e + `$`)
}
