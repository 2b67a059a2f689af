package inventory

import (
	"strings"
	"testing"

	"patchbay/am"
)

func TestLocalText(t *testing.T) {
	const gib = 1 << 30
	debian := Host{Name: "node7", OSVersion: "12", OSName: "Debian GNU/Linux 12 (bookworm)", Cores: 2, Memory: 24 * gib, Disk: 30 * gib}
	for _, tt := range []struct {
		rule string
		host Host
		want am.Amount
	}{
		{"four times the memory and disk, 50 slots a core", debian, am.Amount{Slots: 100, Memory: 96 << 10, Disk: 120 << 10}},
		{"sizes between", Host{Name: "a", Cores: 1, Memory: 1 << 30, Disk: 2 * gib}, am.Amount{Slots: 50, Memory: 4096, Disk: 8192}},
		{"too small for one is one", Host{Name: "a", Memory: 1 << 20, Disk: 1 << 20}, am.Amount{Slots: 50, Memory: 512, Disk: 4096}},
		{"what is unknown limits nothing", Host{Name: "a", Cores: 4}, am.Amount{Slots: 200, Memory: 100 << 10, Disk: 800 << 10}},
		{"strange words", Host{Name: "a", OSName: "A \"B\" \\ \x07: #{é}\n- x", OSVersion: "[[1]]", Cores: 1, Memory: gib, Disk: gib}, am.Amount{Slots: 50, Memory: 4096, Disk: 4096}},
	} {
		text := LocalText("lab.example.org", tt.host)
		v, err := Parse(text, "inventory.yaml", "lab.example.org")
		if err != nil {
			t.Errorf("%s: %v\n%s", tt.rule, err, text)
			continue
		}
		if len(v.Components) != 1 || v.Components[0].Capacity != tt.want || v.Components[0].Name != tt.host.Name {
			t.Errorf("%s: %+v, want %+v", tt.rule, *v.Components[0], tt.want)
		}
	}
	v, err := Parse(LocalText("lab.example.org", debian), "inventory.yaml", "lab.example.org")
	if err != nil {
		t.Fatal(err)
	}
	c := v.Components[0]
	for feature, want := range map[string]string{"memory.size": "512M..24G", "cpu.count": "1..2"} {
		if offer, ok := CapabilitiesOf(c, v.DefaultSliverType, nil)(feature); !ok || offer.String() != want {
			t.Errorf("%s is %s, want %s", feature, offer, want)
		}
	}
	if c.Exclusive || c.Provider != "local" || c.Gateway != nil || c.URN.String() != "urn:publicid:IDN+lab.example.org+node+node7" || v.DefaultSliverType.Name != "container" {
		t.Errorf("%+v", c)
	}
	for _, alias := range strings.Fields("container default-vm emulab-xen emulab-openvz docker-container vm raw-pc") {
		if s, ok := v.SliverType(alias); !ok || s.Name != "container" || s.Needs != (am.Amount{Slots: 1, Memory: containerMemory, Disk: containerDisk}) {
			t.Errorf("%s is %+v", alias, s)
		}
	}
	if i := v.DefaultSliverType.DefaultImage; i.Name != "host" || i.OS != "Linux" || i.Version != "12" || i.Description != debian.OSName {
		t.Errorf("image %+v", i)
	}
	if _, ok := v.Image("urn:publicid:IDN+emulab.net+image+UBUNTU22"); ok || v.UnknownImage != UseDefault {
		t.Errorf("a foreign image is %v and unknown_image %q", ok, v.UnknownImage)
	}
}

// TestAClassHasRoom checks that by default a host with 24 GB of memory and two cores has room for
// two containers for each of thirty users, with equal shares.
func TestAClassHasRoom(t *testing.T) {
	const users, each = 30, 2
	h := Host{Name: "node7", Cores: 2, Memory: 24 << 30, Disk: 64 << 30}
	v, err := Parse(LocalText("lab.example.org", h), "inventory.yaml", "lab.example.org")
	if err != nil {
		t.Fatal(err)
	}
	if n := am.Fits(v.Components[0].Capacity, am.Amount{}, v.DefaultSliverType.Needs, 1000); n < users*each {
		t.Errorf("the host has room for %d containers, want %d", n, users*each)
	}
	if h.NodesPerUser() < each {
		t.Errorf("a user may have %d nodes, want %d", h.NodesPerUser(), each)
	}
}
