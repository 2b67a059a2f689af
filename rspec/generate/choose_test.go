package generate_test

import (
	"strings"
	"testing"

	"patchbay/inventory"
	"patchbay/rspec/generate"
	"patchbay/rspec/match"
)

const site = `provider: rack
images:
  - {name: debian-11, capabilities: {disk.0.os.name: linux, disk.0.os.flavour: debian, disk.0.os.version: 11, software.ansible.version: 2.10}}
  - {name: debian-12, capabilities: {disk.0.os.name: linux, disk.0.os.flavour: debian, disk.0.os.version: 12}}
  - {name: ubuntu, capabilities: {disk.0.os.name: linux, disk.0.os.flavour: ubuntu, disk.0.os.version: 12.04, cpu.arch: i686}}
  - {name: windows, capabilities: {disk.0.os.name: windows}}
sliver_types:
  - {name: vm, images: [debian-11, debian-12, ubuntu], default_image: debian-12}
  - {name: pc, images: [debian-12, windows], default_image: debian-12}
default_sliver_type: vm
components:
  - {name: host, exclusive: false, sliver_types: [vm], capacity: {slots: 10}, capabilities: {cpu.count: 4, cpu.arch: x86_64}}
  - {name: pc1, exclusive: true, sliver_types: [pc], capabilities: {cpu.count: 16}}
`

func TestChoose(t *testing.T) {
	v, err := inventory.Parse([]byte(strings.ReplaceAll(site, "software.ansible.version", "software.ansible")), "inventory.yaml", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	const os = "disk.0.os."
	for _, tt := range []struct {
		rule        string
		types       string
		images      []string
		software    string
		require     string // feature op value, …
		sliverType  string
		image, left string
	}{
		{"nothing", "", nil, "", "", "", "", ""},
		{"the default type satisfies", "", nil, "", "cpu.count >= 2", "", "", "cpu.count >= 2"},
		{"first type that satisfies", "", nil, "", "cpu.count >= 8", "pc", "", "cpu.count >= 8"},
		{"newest image", "", nil, "", os + "flavour = debian", "vm", "debian-12", ""},
		{"newest image that satisfies", "", nil, "", os + "flavour = debian, " + os + "version < 12", "vm", "debian-11", ""},
		{"an image of another type", "", nil, "", os + "name = windows, cpu.count >= 1", "pc", "windows", "cpu.count >= 1"},
		{"features that the image has", "", nil, "", os + "flavour = ubuntu, cpu.arch = i686", "vm", "ubuntu", "cpu.arch = i686"},
		{"features that the image has otherwise", "", nil, "", os + "flavour = ubuntu, cpu.arch = x86_64", "", "", os + "flavour = ubuntu, cpu.arch = x86_64"},
		{"the image with the software", "", nil, "ansible", "", "vm", "debian-11", ""},
		{"software is a wish", "", nil, "ansible", "cpu.count >= 8", "pc", "", "cpu.count >= 8"},
		{"named image", "", []string{"one://x/1", "debian-11"}, "", os + "name = linux", "vm", "debian-11", os + "name = linux"},
		{"named image of another type", "", []string{"windows"}, "", "", "pc", "windows", ""},
		{"unknown image", "", []string{"one://x/1", "one://x/2"}, "", "", "vm", "one://x/1", ""},
		{"named type", "pc", nil, "", os + "flavour = debian", "pc", "debian-12", ""},
		{"unknown type", "m1.small", nil, "", "cpu.count >= 1", "m1.small", "", "cpu.count >= 1"},
		{"nothing satisfies", "", nil, "", "cpu.count >= 99", "", "", "cpu.count >= 99"},
	} {
		w := generate.Want{SliverType: tt.types, Images: tt.images}
		for c := range strings.SplitSeq(tt.require, ", ") {
			if f := strings.Fields(c); len(f) == 3 {
				w.Require = append(w.Require, match.Constraint{Feature: f[0], Op: match.Op(f[1]), Value: f[2]})
			}
		}
		if tt.software != "" {
			w.Software = []string{tt.software}
		}
		got := generate.Choose(v, w)
		var left []string
		for _, c := range got.Require {
			left = append(left, c.String())
		}
		if got.SliverType != tt.sliverType || got.DiskImage != tt.image || strings.Join(left, ", ") != tt.left {
			t.Errorf("%s: type %q, image %q, left %q; comments %q", tt.rule, got.SliverType, got.DiskImage, left, got.Comments)
		}
		none := generate.Choose(nil, w)
		if none.SliverType != tt.types || len(none.Require) != len(w.Require) {
			t.Errorf("%s: without a site: %+v", tt.rule, none)
		}
	}
}
