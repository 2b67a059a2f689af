package inventory

import (
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/urn"
)

func TestWithFound(t *testing.T) {
	plain, err := Parse([]byte(capable), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	record := func(component, provider string, items ...string) am.FoundComponent {
		u := urn.URN{Authority: "example.org", Type: urn.Node, Name: component}
		return am.FoundComponent{URN: u, Name: component, Provider: provider, Capabilities: items}
	}
	for _, tt := range []struct {
		rule      string
		found     am.FoundComponent
		component string
		feature   string
		want      string // "" if the component does not have it
	}{
		{"a feature that the file does not give", record("pc", "rack", "gpu.count=2"), "pc", "gpu.count", "2"},
		{"several values", record("pc", "rack", "radio=ble", "radio=lora"), "pc", "radio", "ble, lora"},
		{"the file comes first", record("pc", "rack", "cpu.count=4"), "pc", "cpu.count", "8"},
		{"another provider", record("pc", "other", "gpu.count=2"), "pc", "gpu.count", ""},
		{"a shared component", record("host", "rack", "radio=ble"), "host", "radio", ""},
		{"an unknown component", record("gone", "rack", "gpu.count=2"), "pc", "gpu.count", ""},
	} {
		v := plain.WithFound([]am.FoundComponent{tt.found}, nil)
		c, _ := v.ComponentNamed(tt.component)
		got, ok := c.Capabilities[tt.feature]
		if ok != (tt.want != "") || ok && got.String() != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.rule, got, ok, tt.want)
		}
		again := v.WithFound([]am.FoundComponent{record("pc", "rack", "kind=pc")}, nil)
		if pc, _ := again.ComponentNamed("pc"); len(pc.Capabilities) != len(plain.Components[1].Capabilities)+1 {
			t.Errorf("%s: a later record does not replace it: %v", tt.rule, pc.Capabilities)
		}
		if changes := Compare(plain, v.WithFound(nil, nil)); len(changes) != 0 {
			t.Errorf("%s: without records: %v", tt.rule, changes)
		}
	}
}

// TestCloneSharesNothing checks that all pointers of a clone are to its own components,
// interfaces and links.
func TestCloneSharesNothing(t *testing.T) {
	v, err := Parse([]byte(strings.Replace(compared, "slots: 4}}", "slots: 4}, interfaces: [{name: eth2, link: core}, {name: eth3}]}", 1)), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	w := v.clone()
	if changes := Compare(v, w); len(changes) != 0 || len(w.Interfaces) != 3 || len(w.Links) != 1 {
		t.Fatalf("changes %v, %d interfaces, %d links", changes, len(w.Interfaces), len(w.Links))
	}
	for i, c := range w.Components {
		byURN, _ := w.Component(c.URN)
		byName, _ := w.ComponentNamed(c.Name)
		if c == v.Components[i] || byURN != c || byName != c {
			t.Errorf("component %s is shared or not found", c.Name)
		}
		for _, p := range c.Interfaces {
			if p.Component != c || p != w.Interfaces[p.Index] {
				t.Errorf("interface %s of %s is shared", p.Name, c.Name)
			}
		}
	}
	for i, p := range w.Interfaces {
		at, _ := w.Interface(p.URN)
		if p == v.Interfaces[i] || at != p || p.Link != nil && p.Link != w.Links[p.Link.Index] {
			t.Errorf("interface %s is shared or not found", p.Name)
		}
	}
	if l := w.Links[0]; l == v.Links[0] || len(l.Interfaces) != 2 || l.Interfaces[0] != w.Interfaces[0] {
		t.Errorf("link %s is shared", l.Name)
	}
}
