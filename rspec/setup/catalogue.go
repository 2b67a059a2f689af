package setup

import (
	"regexp"
	"strings"
)

// CatalogueScheme begins the URL of a file in the site's catalogue. Requests name the file. In the
// steps of a plan, the site has added its SHA-256: only such a URL can be delivered.
const CatalogueScheme = "catalogue:"

var (
	catalogueName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+~-]{0,127}$`)
	catalogueSum  = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// IsCatalogueName reports whether a file of the catalogue can have the name.
func IsCatalogueName(name string) bool { return catalogueName.MatchString(name) }

// CatalogueFile returns the name of the file that a request names by a URL.
func CatalogueFile(url string) (name string, ok bool) {
	name, ok = strings.CutPrefix(url, CatalogueScheme)
	return name, ok && IsCatalogueName(name)
}

// DeliveredURL returns the URL of a file with the SHA-256, in hexadecimal, for a step of a plan.
func DeliveredURL(name, sum string) string { return CatalogueScheme + name + "#" + sum }

// DeliveredFile reads what DeliveredURL returns.
func DeliveredFile(url string) (name, sum string, ok bool) {
	url, ok = strings.CutPrefix(url, CatalogueScheme)
	name, sum, _ = strings.Cut(url, "#")
	return name, sum, ok && IsCatalogueName(name) && catalogueSum.MatchString(sum)
}

// URLs returns the URLs that the step fetches; they can be replaced.
func (s *Step) URLs() []*string {
	list := []*string{&s.URL}
	for i := range s.Files {
		list = append(list, &s.Files[i].URL)
	}
	return list
}

func (s *Step) usesCatalogue() bool {
	for _, url := range s.URLs() {
		if strings.HasPrefix(*url, CatalogueScheme) {
			return true
		}
	}
	return false
}
