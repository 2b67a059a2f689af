package site

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// TestFoundCapabilitiesAreInTheInventory checks that found capabilities count at once, after a
// reload and after a restart.
func TestFoundCapabilitiesAreInTheInventory(t *testing.T) {
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
	open := func() *Site {
		t.Helper()
		s, err := Open(t.Context(), c, c.Log.New(io.Discard))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	check := func(s *Site, when, want string) {
		t.Helper()
		pc1, _ := s.inventory.Load().ComponentNamed("pc1")
		if got := pc1.Capabilities["cpu.count"]; got.String() != want {
			t.Errorf("%s: cpu.count is %s, want %s", when, got, want)
		}
	}
	find := func(s *Site, item string) {
		t.Helper()
		u := urn.URN{Authority: "testbed.example.org", Type: urn.Node, Name: "pc1"}
		if err := s.store.Commit(t.Context(), func(*store.View) (cs store.ChangeSet, err error) {
			cs.PutComponent(am.FoundComponent{URN: u, Name: "pc1", Provider: "rack", Capabilities: []string{item}})
			return cs, nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.useFound(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s := open()
	find(s, "cpu.count=8")
	check(s, "when it was found", "8")
	report, err := s.reloadInventory(t.Context(), "alice")
	if err != nil || len(report.Changes) != 0 {
		t.Errorf("a reload reports %v, %v", report.Changes, err)
	}
	check(s, "after a reload", "8")
	find(s, "cpu.count=16")
	check(s, "when something else was found", "16")
	s.Close()
	s = open()
	defer s.Close()
	check(s, "after a restart", "16")
	s.reloading.Lock()
	defer s.reloading.Unlock()
	find(s, "cpu.count=32")
	if len(s.found) != 1 {
		t.Error("during a reload it does not ask to be called again")
	}
}
