package step

import "strings"

// CatalogueScheme begins the URL of a file in the site's catalogue. Requests name the file. In the
// steps of a plan, the site has added its SHA-256: only such a URL can be delivered.
const CatalogueScheme = "catalogue:"

const (
	hexDigits = "0123456789abcdef"
	wordBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
	maxName   = 128
)

// IsCatalogueName reports whether a file of the catalogue can have the name. There is no regular
// expression, since each node's agent would hold the memory of one.
func IsCatalogueName(name string) bool {
	return name != "" && len(name) <= maxName && strings.Trim(name, wordBytes+".+~-") == "" && strings.Contains(wordBytes, name[:1])
}

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
	return name, sum, ok && IsCatalogueName(name) && IsSum(sum)
}

// IsSum reports whether a text is a SHA-256 in hexadecimal.
func IsSum(text string) bool { return len(text) == 64 && strings.Trim(text, hexDigits) == "" }

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
