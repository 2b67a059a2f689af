package service

import (
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/inventory"
	"patchbay/rspec/step"
)

// TestDeliver checks that digests are added to the steps of a sliver and not to the stored request.
func TestDeliver(t *testing.T) {
	inv := &inventory.Inventory{Catalogue: map[string]string{"web.tar.gz": strings.Repeat("0a", 32)}}
	for _, tt := range []struct{ rule, url, want, problem string }{
		{"a file of the catalogue", "catalogue:web.tar.gz", step.DeliveredURL("web.tar.gz", strings.Repeat("0a", 32)), ""},
		{"a file that the inventory does not name", "catalogue:db.tar.gz", "", `node "a": the site's catalogue has no file "db.tar.gz"; compile the document again, or ask the operator to put the file into the folder catalogue of the site and to name it in inventory.yaml, under software or galaxy`},
		{"a URL", "http://example.org/web.tar.gz", "http://example.org/web.tar.gz", ""},
	} {
		requested := []step.File{{URL: tt.url, Path: "a"}}
		steps := []step.Step{{Kind: step.Install, URL: tt.url}, {Kind: step.Execute, Script: "a", Files: requested}}
		err := deliver(inv, "a", steps)
		if tt.problem != "" {
			if err == nil || am.CodeOf(err) != am.Unsupported || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("%s: %v", tt.rule, err)
			}
			continue
		}
		if err != nil || steps[0].URL != tt.want || steps[1].Files[0].URL != tt.want || requested[0].URL != tt.url {
			t.Errorf("%s: %+v of %+v, %v", tt.rule, steps, requested, err)
		}
	}
}
