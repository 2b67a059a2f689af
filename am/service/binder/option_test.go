package binder

import (
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/rspec"
)

const optional = `
provider: rack
default_sliver_type: pc
unknown_image: default
hardware_types: [small, large]
images:
  - {name: debian, capabilities: {disk.0.os.flavour: debian, disk.0.os.version: "12"}}
  - {name: old, capabilities: {disk.0.os.flavour: ubuntu, disk.0.os.version: "20.04"}}
  - {name: new, capabilities: {disk.0.os.flavour: ubuntu, disk.0.os.version: "24.04"}}
  - {name: bsd, capabilities: {disk.0.os.flavour: freebsd}}
sliver_types:
  - {name: vm, images: [old, debian], default_image: debian, capabilities: {cpu.count: 1..8}}
  - {name: pc, images: [debian, old, new], default_image: debian}
  - {name: router, images: [bsd]}
components:
  - {names: pc1..pc2, exclusive: true, sliver_types: [pc], hardware_types: [small], capabilities: {cpu.count: 8}}
  - {name: pc3, exclusive: true, sliver_types: [pc], hardware_types: [large], capabilities: {cpu.count: 64}}
  - {names: r1..r2, exclusive: true, sliver_types: [router]}
  - {name: h1, exclusive: false, sliver_types: [vm], capacity: {slots: 2, cores: 8}}
`

// TestOptions checks the sliver types and images of nodes with constraints.
func TestOptions(t *testing.T) {
	ubuntu := "disk.0.os.flavour = ubuntu"
	for _, tt := range []struct {
		rule        string
		nodes       []string
		constraints string // of each node
		permitted   string
		held        []string
		want        string
	}{
		{"the default type with its default image", []string{""}, "cpu.count >= 1", "", nil, "a=pc1/pc/debian!"},
		{"another image of the default type", []string{""}, ubuntu, "", nil, "a=pc1/pc/old!"},
		{"the next image of it", []string{""}, ubuntu + "; disk.0.os.version >= 24", "", nil, "a=pc1/pc/new!"},
		{"another type", []string{""}, "disk.0.os.flavour = freebsd", "", nil, "a=r1/router/bsd!"},
		{"another type, because none of the default type is free", []string{""}, ubuntu, "", []string{"s pc1 pc", "s pc2 pc", "s pc3 pc"}, "a=h1/vm/old"},
		{"another type for the nodes that find no other", []string{"", "", "", "", ""}, ubuntu, "", nil, "a=pc1/pc/old! b=pc2/pc/old! c=pc3/pc/old! d=h1/vm/old e=h1/vm/old"},
		{"more nodes than all types have", []string{"", "", "", "", "", ""}, ubuntu, "", nil, "f:6 6/26"},
		{"nothing is free", []string{""}, "disk.0.os.flavour = freebsd", "", []string{"s r1 router", "s r2 router"}, "a:1 6/26"},
		{"nothing satisfies the constraints", []string{""}, "disk.0.os.flavour = plan9", "", nil, "a:1 6/26"},
		{"only the requested type", []string{"type=vm"}, ubuntu, "", nil, "a=h1/vm/old"},
		{"only the requested type, which has no such image", []string{"type=vm"}, "disk.0.os.flavour = freebsd", "", nil, "a:1 6/26"},
		{"only the requested image", []string{"image=new"}, "cpu.count >= 1", "", nil, "a=pc1/pc/new!"},
		{"only the requested image, which another type has", []string{"image=bsd"}, "disk.0.os.flavour = freebsd", "", nil, "a=r1/router/bsd!"},
		{"only the requested image, which does not satisfy them", []string{"image=debian"}, ubuntu, "", nil, "a:1 6/26"},
		{"an unknown image, in whose place the default comes", []string{"image=none"}, ubuntu, "", nil, "a:1 6/26"},
		{"a hardware type", []string{"hw=large"}, ubuntu, "", nil, "a=pc3/pc/old!"},
		{"a named component", []string{"on=r2"}, "disk.0.os.flavour = freebsd", "", nil, "a=r2/router/bsd!"},
		{"another image on a named component", []string{"on=pc2"}, ubuntu, "", nil, "a=pc2/pc/old!"},
		{"a named component that is held", []string{"on=pc2"}, ubuntu, "", []string{"s pc2 pc"}, "a:1 6/26"},
		{"a named component that cannot", []string{"on=pc2"}, "disk.0.os.flavour = freebsd", "", nil, "a:1 13/0"},
		{"a type that is permitted", []string{""}, ubuntu, ":vm", nil, "a=h1/vm/old"},
		{"components that are permitted", []string{""}, ubuntu, "h1 r1", nil, "a=h1/vm/old"},
		{"only components that are not permitted", []string{""}, ubuntu, "r1", nil, "a:1 7/0"},
		{"a host for several", []string{"group=g", "group=g"}, ubuntu, "", nil, "a=h1/vm/old b=h1/vm/old"},
		{"the image that is preferred", []string{""}, "cpu.count >= 1; 5: disk.0.os.flavour = ubuntu", "", nil, "a=pc1/pc/old!"},
		{"the image that is preferred, without other constraints", []string{""}, "5: disk.0.os.flavour = ubuntu", "", nil, "a=pc1/pc/old!"},
		{"a preference that nothing satisfies", []string{""}, "5: disk.0.os.flavour = plan9", "", nil, "a=pc1/pc/debian!"},
		{"a preferred image of which nothing is free", []string{""}, "5: disk.0.os.flavour = freebsd", "", []string{"s r1 router", "s r2 router"}, "a=pc1/pc/debian!"},
		{"a node without constraints", []string{""}, "", "", []string{"s pc1 pc", "s pc2 pc", "s pc3 pc"}, "a:1 6/26"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			v := site(t, optional)
			r := request(tt.nodes...)
			for i := range r.Nodes {
				if tt.constraints != "" {
					constrain(t, &r.Nodes[i], tt.constraints)
				}
			}
			q := &Request{Request: r, Slice: slice("mine")}
			if tt.permitted != "" {
				q.Permit = permit(t, v, tt.permitted)
			}
			b, err := bindFor(q, holding(v, tt.held...))
			if got := result(b, err); got != tt.want {
				t.Errorf("got %s, want %s; %v", got, tt.want, err)
			}
		})
	}
}

// TestOptionsOfDrainedComponents checks that types of which all components are out of service are left out.
func TestOptionsOfDrainedComponents(t *testing.T) {
	v := site(t, strings.Replace(optional, "{names: pc1..pc2, ", "{names: pc1..pc2, drained: true, ", 1))
	x := holding(v, "s pc3 pc")
	r := request("hw=small")
	constrain(t, &r.Nodes[0], "disk.0.os.flavour = ubuntu")
	if b, err := bind(r, x, slice("mine")); err == nil {
		t.Errorf("got %s", result(b, err))
	}
	r.Nodes[0].HardwareType = ""
	b, err := bind(r, x, slice("mine"))
	if got := result(b, err); got != "a=h1/vm/old" {
		t.Errorf("got %s; %v", got, err)
	}
}

// TestKeptNodesKeepTheirOption checks that a node with constraints keeps its type and image when
// another one comes first.
func TestKeptNodesKeepTheirOption(t *testing.T) {
	v := site(t, optional)
	x := newHoldings(v)
	ubuntu := func() *rspec.Request {
		r := request("")
		constrain(t, &r.Nodes[0], "disk.0.os.flavour = ubuntu")
		return r
	}
	x.put(sliver(v, "p1", "s", "pc1", "pc"), sliver(v, "p2", "s", "pc2", "pc"), sliver(v, "p3", "s", "pc3", "pc"))
	was := allocate(t, x, "n", "mine", ubuntu())
	was[0].Features = []am.Feature{{Feature: "disk.0.os.flavour", Value: "ubuntu"}}
	for _, name := range []string{"p1", "p2", "p3"} {
		x.remove(sliver(v, name, "s", "pc1", "pc"))
	}
	b, err := bindFor(&Request{Request: ubuntu(), Slice: slice("mine"), Kept: map[string]*am.Sliver{"a": &was[0]}}, x)
	if got := result(b, err); got != "a=h1/vm/old" {
		t.Errorf("got %s; %v", got, err)
	}
}
