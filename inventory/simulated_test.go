package inventory

import (
	"fmt"
	"regexp"
	"strings"
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

// TestSimulatedTextExamples removes the comment signs of the examples, which must all be valid.
func TestSimulatedTextExamples(t *testing.T) {
	var text, components strings.Builder // what belongs under components comes last
	key, item := regexp.MustCompile(`^# ([a-z_]+:(?: .*)?\n)`), regexp.MustCompile(`^# (  .*\n)`)
	inKey := false
	for line := range strings.Lines(string(SimulatedText("example.org"))) {
		if m := key.FindStringSubmatch(line); m != nil {
			text.WriteString(m[1])
			inKey = true
		} else if m := item.FindStringSubmatch(line); m != nil && inKey {
			text.WriteString(m[1])
		} else if m != nil {
			components.WriteString(m[1])
		} else {
			text.WriteString(line)
			inKey = false
		}
	}
	v, err := Parse([]byte(text.String()+components.String()), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatalf("%v\n%s%s", err, &text, &components)
	}
	pc30, ok := v.ComponentNamed("pc30")
	if !ok || len(pc30.Interfaces) != 3 || pc30.Interfaces[1].URN.String() != "urn:publicid:IDN+example.org+interface+pc30:eth1" || !pc30.IsWired() {
		t.Errorf("pc30 is %+v", pc30)
	}
	if len(v.Locations) != 1 || len(v.Gateways) != 1 || len(v.Links) != 1 || len(v.Links[0].Interfaces) != 20 || len(v.VLANs) != 101 || len(v.SharedVLANs) != 1 || len(v.PublicAddresses) != 11 || v.Monitoring == nil || len(v.Monitoring.Metrics) != 1 {
		t.Errorf("the examples make %+v", v)
	}
}
