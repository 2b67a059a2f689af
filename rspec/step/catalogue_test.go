package step

import (
	"strings"
	"testing"
)

func TestCatalogueURLs(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	for _, tt := range []struct {
		rule, url            string
		isNamed, isDelivered bool
	}{
		{"as requests name it", "catalogue:web-1.0+x~y.tar.gz", true, false},
		{"as the site delivers it", DeliveredURL("web.tar.gz", sum), false, true},
		{"a path", "catalogue:../web", false, false},
		{"a path with a digest", DeliveredURL("../web", sum), false, false},
		{"a leading dot", "catalogue:.web", false, false},
		{"a digest that is a path", DeliveredURL("web", "../../"+sum[6:]), false, false},
		{"a short digest", DeliveredURL("web", sum[1:]), false, false},
		{"capitals", "CATALOGUE:web", false, false},
		{"a URL", "http://example.org/web", false, false},
	} {
		_, isNamed := CatalogueFile(tt.url)
		_, _, isDelivered := DeliveredFile(tt.url)
		if isNamed != tt.isNamed || isDelivered != tt.isDelivered {
			t.Errorf("%s: %v, %v", tt.rule, isNamed, isDelivered)
		}
		s := Step{Kind: Install, URL: tt.url}
		if isPlain := s.IsPlain(); isPlain == strings.HasPrefix(tt.url, CatalogueScheme) {
			t.Errorf("%s: plain %v", tt.rule, isPlain)
		}
	}
}
