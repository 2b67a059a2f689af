package check

import (
	"slices"
	"testing"

	"patchbay/inventory"
)

func TestImagesThatTheProviderDoesNotHave(t *testing.T) {
	host, ghost := &inventory.Image{Name: "host"}, &inventory.Image{Name: "ghost"}
	both := &inventory.SliverType{Images: []*inventory.Image{host, ghost}}
	inv := &inventory.Inventory{Components: []*inventory.Component{
		{Provider: "local", SliverTypes: []*inventory.SliverType{both, both}},
		{Provider: "rack", SliverTypes: []*inventory.SliverType{{Images: []*inventory.Image{{Name: "theirs"}}}}},
	}}
	if got := missingImages("local", inv, []string{"host", "more"}); !slices.Equal(got, []string{"ghost"}) {
		t.Errorf("missing: %q", got)
	}
	for _, inv := range []*inventory.Inventory{inv, nil} {
		if got := missingImages("local", inv, nil); got != nil {
			t.Errorf("missing where nothing is known: %q", got)
		}
	}
}
