package inventory

import (
	"regexp"
	"strings"

	"patchbay/am"
	"patchbay/am/urn"
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
}

// imageKey returns the key of an image in the maps of images. For a URN it is the URN's key;
// any other text is its own key.
func imageKey(name string) string {
	if u, err := urn.Parse(name); err == nil {
		return u.Key()
	}
	return name
}

// pattern is an alias with wildcards.
type pattern struct {
	match *regexp.Regexp
	to    *SliverType
}

// hasWildcard reports whether an alias is a pattern.
func hasWildcard(alias string) bool { return strings.ContainsAny(alias, "*?") }

// compile returns the regular expression for an alias with wildcards. Unlike in path.Match,
// * matches slashes, because sliver types are URLs at some sites.
func compile(alias string) *regexp.Regexp {
	e := regexp.QuoteMeta(alias)
	e = strings.ReplaceAll(e, `\*`, `.*`)
	e = strings.ReplaceAll(e, `\?`, `.`)
	return regexp.MustCompile(`(?s)^` + e + `$`)
}
