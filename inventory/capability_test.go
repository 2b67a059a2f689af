package inventory

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/rspec/match"
	"patchbay/schemas/yamlfile"
)

const capable = `provider: rack
locations: [{name: hall, country: BE}]
images:
  - {name: debian, capabilities: {disk.0.os.flavour: [debian, linux], disk.0.os.version: 12, site: image}}
sliver_types:
  - {name: vm, needs: {memory: 2G}, images: [debian], capabilities: {cpu.count: 1..4, kind: vm, site: type}}
  - {name: raw, images: [debian]}
components:
  - name: host
    exclusive: false
    sliver_types: [vm, raw]
    location: hall
    capacity: {slots: 10, cores: 16, memory: 64G}
    capabilities: {cpu.count: 64, memory.size: 128G, gpu.count: 0..2, disk.size: 1G..1000G, kind: host, site: host}
  - name: pc
    exclusive: true
    sliver_types: [raw, vm]
    capabilities: {cpu.count: 8, memory.size: 1G..64G, location.country: NO}
`

// capableSite returns the inventory and its host, its PC, and the types vm and raw.
func capableSite(t *testing.T) (v *Inventory, host, pc *Component, vm, raw *SliverType) {
	t.Helper()
	v, err := Parse([]byte(capable), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	return v, v.Components[0], v.Components[1], v.SliverTypes[0], v.SliverTypes[1]
}

func TestCapabilitiesOf(t *testing.T) {
	v, host, pc, vm, raw := capableSite(t)
	for _, tt := range []struct {
		rule    string
		c       *Component
		t       *SliverType
		i       *Image
		feature string
		want    string // "" if it is not offered
	}{
		{"type before component", host, vm, nil, "kind", "vm"},
		{"type before image", host, vm, v.Images[0], "site", "type"},
		{"image before component", host, raw, v.Images[0], "site", "image"},
		{"component without an image", host, raw, nil, "site", "host"},
		{"only the image has it", pc, raw, v.Images[0], "disk.0.os.flavour", "debian, linux"},
		{"the type's range", host, vm, nil, "cpu.count", "1..4"},
		{"the type's needs on a shared component", host, vm, nil, "memory.size", "2G"},
		{"the component's range where the type needs nothing", host, vm, nil, "gpu.count", "0..2"},
		{"the component's point where the type needs nothing", host, raw, nil, "cpu.count", "64"},
		{"needs do not count on an exclusive component", pc, vm, nil, "memory.size", "1G..64G"},
		{"country of a location without coordinates", host, raw, nil, "location.country", "BE"},
		{"country of the component itself", pc, raw, nil, "location.country", "NO"},
		{"unknown feature", pc, raw, v.Images[0], "gpu.count", ""},
	} {
		c, ok := CapabilitiesOf(tt.c, tt.t, tt.i)(tt.feature)
		if got := c.String(); ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.rule, got, ok, tt.want)
		}
	}
}

func TestCapabilitiesWithin(t *testing.T) {
	_, host, pc, vm, raw := capableSite(t)
	left := am.Amount{Slots: 1, Cores: 3, GPUs: 0, Memory: 1, Disk: 1 << 9}
	for _, tt := range []struct {
		rule    string
		c       *Component
		t       *SliverType
		feature string
		want    string // "" if it is not offered
	}{
		{"a range ends at what is left", host, vm, "cpu.count", "1..3"},
		{"nothing is left of a range from 0", host, vm, "gpu.count", "0"},
		{"less than the minimum is left", host, vm, "disk.size", ""},
		{"the needs are a point", host, vm, "memory.size", "2G"},
		{"a point is not counted", host, raw, "cpu.count", "64"},
		{"other features", host, vm, "kind", "vm"},
		{"an exclusive component", pc, vm, "memory.size", "1G..64G"},
		{"unknown feature", host, vm, "cpu.arch", ""},
	} {
		c, ok := CapabilitiesWithin(tt.c, tt.t, nil, left)(tt.feature)
		if got := c.String(); ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.rule, got, ok, tt.want)
		}
	}
	unlimited := *host
	unlimited.Capacity.Cores = 0
	if c, _ := CapabilitiesWithin(&unlimited, vm, nil, am.Amount{})("cpu.count"); c.String() != "1..4" {
		t.Errorf("cores without a limit: %s, want 1..4", c)
	}
}

func TestAmountFor(t *testing.T) {
	_, host, pc, vm, raw := capableSite(t)
	needs := am.Amount{Slots: 1, Memory: 2048}
	for _, tt := range []struct {
		rule    string
		c       *Component
		t       *SliverType
		granted match.Granted
		want    am.Amount
	}{
		{"a value of a range replaces the need", host, vm, match.Granted{Feature: "cpu.count", Number: 3}, am.Amount{Slots: 1, Cores: 3, Memory: 2048}},
		{"no GPU of 0..2", host, vm, match.Granted{Feature: "gpu.count"}, needs},
		{"one GPU of 0..2", host, vm, match.Granted{Feature: "gpu.count", Number: 1}, am.Amount{Slots: 1, GPUs: 1, Memory: 2048}},
		{"bytes are rounded up to MiB", host, vm, match.Granted{Feature: "disk.size", Number: 1<<30 + 1}, am.Amount{Slots: 1, Memory: 2048, Disk: 1025}},
		{"the need itself", host, vm, match.Granted{Feature: "memory.size", Number: 2 << 30}, needs},
		{"a point is not counted", host, raw, match.Granted{Feature: "cpu.count", Number: 64}, am.Amount{Slots: 1}},
		{"a text", host, vm, match.Granted{Feature: "kind", Value: "vm"}, needs},
		{"an exclusive component", pc, vm, match.Granted{Feature: "cpu.count", Number: 3}, needs},
	} {
		if got := tt.t.AmountFor(tt.c, match.Grant{Values: []match.Granted{tt.granted}}); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.rule, got, tt.want)
		}
	}
}

// A host without a limit for a capability with a range gets the range's end as the limit.
func TestRangesLimitSharedComponents(t *testing.T) {
	_, host, pc, _, _ := capableSite(t)
	if want := (am.Amount{Slots: 10, Cores: 16, GPUs: 2, Memory: 64 << 10, Disk: 1000 << 10}); host.Capacity != want {
		t.Errorf("the host has %+v, want %+v", host.Capacity, want)
	}
	if want := (am.Amount{Slots: 1}); pc.Capacity != want {
		t.Errorf("the exclusive PC has %+v, want %+v", pc.Capacity, want)
	}
	const shared = "provider: rack\nsliver_types: [{name: vm, needs: %s}]\ncomponents:\n  - {name: h, exclusive: false, capabilities: {cpu.count: 1..8}}\n"
	for _, tt := range []struct {
		rule, needs string
		want        string // "" if the file is right
	}{
		{"the range limits the slivers", "{cores: 2}", ""},
		{"the range does not limit slivers without cores", "{slots: 1}", "4: component h is shared and has no limit for slivers of type vm"},
		{"the range is too small for one", "{cores: 9}", "4: component h is too small for one vm"},
	} {
		_, err := Parse([]byte(fmt.Sprintf(shared, tt.needs)), "f", "example.org")
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.rule, err, tt.want)
		}
	}
}

func TestMistakesOfCapabilities(t *testing.T) {
	many := make([]string, maxCapabilities+1)
	for i := range many {
		many[i] = fmt.Sprintf("f%d: 1", i)
	}
	const old = "capabilities: {cpu.count: 8, memory.size: 1G..64G, location.country: NO}"
	for _, tt := range []struct{ rule, old, new, want string }{
		{"no mapping", old, "capabilities: [cpu.count]", "18: capabilities must be a list of features and values"},
		{"name of a feature", old, "capabilities: {cpu count: 8}", `18: capabilities: "cpu count" is not the name of a feature, such as cpu.count`},
		{"no number", old, "capabilities: {cpu.count: many}", `18: capabilities: cpu.count: "many" is not a number`},
		{"range backwards", old, "capabilities: {cpu.count: 4..2}", "18: capabilities: cpu.count: 4 is above 2"},
		{"two numbers", old, "capabilities: {cpu.count: [2, 4]}", "18: capabilities: cpu.count has 2 values; give one number, or a range"},
		{"no value", old, "capabilities: {cpu.count: }", "18: capabilities: cpu.count has no value"},
		{"size without a unit", old, "capabilities: {memory.size: 4096}", "18: capabilities: memory.size has no unit; write a size such as 512M or 64G"},
		{"mapping as a value", old, "capabilities: {cpu.count: {a: b}}", "18: cpu.count must be a list"},
		{"feature twice", old, "capabilities: {kind: a, kind: b}", `18: capabilities has the feature "kind" twice; drop one`},
		{"too many", old, "capabilities: {" + strings.Join(many, ", ") + "}", "18: capabilities has 65 features; list at most 64"},
		{"of an image", "site: image", "cpu.count: 2", "4: an image has no cpu.count; write it in a sliver type or a component"},
		{"of a type", "kind: vm, site: type", "kind: {}", "6: kind must be a list"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if !strings.Contains(capable, tt.old) {
				t.Fatalf("%q is not in the file", tt.old)
			}
			_, err := Parse([]byte(strings.Replace(capable, tt.old, tt.new, 1)), "inventory.yaml", "example.org")
			var e *yamlfile.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), "inventory.yaml:"+tt.want) {
				t.Errorf("error is\n%v\nwant %s", err, tt.want)
			}
		})
	}
	right := strings.Replace(capable, old, "capabilities: {"+strings.Join(many[1:], ", ")+"}", 1)
	if _, err := Parse([]byte(right), "inventory.yaml", "example.org"); err != nil {
		t.Errorf("%d features: %v", maxCapabilities, err)
	}
}

func TestFeatures(t *testing.T) {
	v, _, _, _, _ := capableSite(t)
	want := "cpu.count disk.0.free_size disk.0.os.flavour disk.0.os.version disk.size gpu.count kind location.country memory.size site"
	if got := strings.Join(v.Features(), " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
