package inventory

import (
	"fmt"
	"testing"
)

func TestSimulatedText(t *testing.T) {
	v, err := Parse(SimulatedText("example.org"), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Components) != 24 || v.DefaultSliverType.Name != "raw-pc" || len(v.Images) != 2 || len(v.HardwareTypes) != 2 {
		t.Fatalf("%d components, default %s, %d images, %v", len(v.Components), v.DefaultSliverType.Name, len(v.Images), v.HardwareTypes)
	}
	for i, c := range v.Components {
		name, exclusive, kind := fmt.Sprintf("pc%d", i+1), true, "raw-pc"
		if i >= 20 {
			name, exclusive, kind = fmt.Sprintf("vm%d", i-19), false, "vm"
		}
		if c.Index != i || c.Name != name || c.URN.String() != "urn:publicid:IDN+example.org+node+"+name || c.Exclusive != exclusive || c.Provider != "simulated" || c.SliverTypes[0].Name != kind {
			t.Errorf("component %d is %+v", i, *c)
		}
	}
	for _, alias := range []string{"emulab-xen", "default-vm", "emulab-openvz", "docker-container", "vm"} {
		if s, ok := v.SliverType(alias); !ok || s.Name != "vm" {
			t.Errorf("%s is %v", alias, s)
		}
	}
}
