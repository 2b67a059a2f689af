package service

import (
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/store"
	"patchbay/inventory"
)

// TestSetInventoryReturnsPanicsAsErrors has a step of SetInventory panic. The new inventory is used, and
// the error says that the reload was not completed.
func TestSetInventoryReturnsPanicsAsErrors(t *testing.T) {
	parse := func(name string) *inventory.Inventory {
		v, err := inventory.Parse([]byte("provider: rack\nsliver_types: [{name: vm}]\ncomponents: [{name: "+name+", exclusive: true}]"), "inventory.yaml", "example.org")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	st, err := store.Open(filepath.Join(t.TempDir(), "store"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	s := New(Config{Store: st, Inventory: inForce(parse("pc1"))})
	for _, tt := range []struct {
		name string
		with func()
		want string
	}{
		{"pc2", func() {}, ""},
		{"pc3", func() { panic("half of it") }, "other settings do not match it yet"},
		{"pc4", func() {}, ""},
	} {
		err := s.SetInventory(t.Context(), parse(tt.name), tt.with)
		if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "half of it")) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		ad, err := s.AppendAdvertisement(nil, false)
		if err != nil {
			t.Fatal(err)
		}
		if s.Inventory().Components[0].Name != tt.name || !strings.Contains(string(ad), `component_name="`+tt.name+`"`) {
			t.Errorf("%s is in force, advertised is %s", s.Inventory().Components[0].Name, ad)
		}
	}
}
