package inventory

import (
	"regexp"
	"strings"

	"patchbay/am"
	"patchbay/am/urn"
)

// SliverType is a kind of sliver: what it is called, what it takes of a
// component, and what can run on it.
type SliverType struct {
	Name string
	// Aliases are names that requests written for other sites use; * and ? are
	// wildcards.
	Aliases []string
	// Needs is what one sliver takes of a component's capacity.
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
	// Name as the file spells it, short or a URN.
	Name string
	URN  urn.URN
	OS   string
	// Version of the operating system.
	Version     string
	Description string
	// URL is where the image can be had; empty if it is not public.
	URL string
}

// imageKey is what an image is found by: URNs compare as URNs, all else as text.
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

func hasWildcard(alias string) bool { return strings.ContainsAny(alias, "*?") }

// compile makes an expression of an alias; unlike path.Match its * crosses
// slashes, because sliver types are URLs at some sites.
func compile(alias string) *regexp.Regexp {
	e := regexp.QuoteMeta(alias)
	e = strings.ReplaceAll(e, `\*`, `.*`)
	e = strings.ReplaceAll(e, `\?`, `.`)
	return regexp.MustCompile(`(?s)^` + e + `$`)
}
