package site

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const rackInventory = `provider: rack
sliver_types: [{name: raw-pc}]
components: [{name: pc1, exclusive: true, sliver_types: [raw-pc]}]
`

const rackMetadata = `provider: {type: node, invoke: json, suitable: true, cleaning: 7m, attributes: {
  name: {}, ensure: {type: "enum[present,absent]"}, component: {}}}
`

// TestInventoryHasCleaningTimesOfProviders opens a site and reloads its inventory. Both
// inventories must have the time that the provider declares.
func TestInventoryHasCleaningTimesOfProviders(t *testing.T) {
	dir := made(t)
	for name, text := range map[string]string{InventoryName: rackInventory, "providers/rack.prov": "#!/bin/sh\n", "providers/rack.yaml": rackMetadata} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c, err := ReadConfig(filepath.Join(dir, ConfigName))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), c, c.Log.New(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check := func(when string) {
		t.Helper()
		inv := s.inventory.Load()
		if got := inv.Cleaning(inv.Components[0]); got != 7*time.Minute {
			t.Errorf("%s: %v, want 7m", when, got)
		}
	}
	check("at the start")
	if _, err := s.reloadInventory(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	check("after a reload")
}
