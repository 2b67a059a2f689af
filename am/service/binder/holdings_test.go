package binder

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/service/maintenance"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
)

// holdings are slivers as a plain map, which serves as the calendar of a View.
type holdings struct {
	inv     *inventory.Inventory
	plan    *maintenance.Plan
	now     time.Time
	slivers map[string]am.Sliver // by key
	from    map[string]time.Time // the start of those that begin later
}

func newHoldings(v *inventory.Inventory) *holdings {
	return &holdings{inv: v, slivers: map[string]am.Sliver{}, from: map[string]time.Time{}}
}

func (x *holdings) put(slivers ...am.Sliver) {
	for _, s := range slivers {
		x.slivers[s.URN.Key()] = s
	}
}

func (x *holdings) remove(s am.Sliver) { delete(x.slivers, s.URN.Key()) }

func (x *holdings) view() *View {
	return &View{Inventory: x.inv, Plan: x.plan, Now: x.now, Calendar: func(f func(*am.Hold) bool) error {
		for _, s := range x.slivers {
			s.Begins = x.from[s.URN.Key()]
			h := am.HoldOf(&s)
			if !f(&h) {
				break
			}
		}
		return nil
	}}
}

func (x *holdings) free(i int) int {
	a, err := x.view().Availability()
	if err != nil {
		panic(err)
	}
	return a.Free(i)
}

func (x *holdings) freePublicAddresses() int {
	a, err := x.view().Availability()
	if err != nil {
		panic(err)
	}
	return a.FreePublicAddresses()
}

// occupied returns what slivers hold now.
func (x *holdings) occupied() *occupancy {
	o, err := x.view().occupy(x.now, time.Time{}, am.Hash{})
	if err != nil {
		panic(err)
	}
	return o
}

// bind binds from now on, without an end.
func bind(r *rspec.Request, x *holdings, of urn.URN, existing ...netip.Prefix) (Binding, error) {
	return bindFor(&Request{Request: r, Slice: of, Addresses: existing}, x)
}

func bindFor(r *Request, x *holdings) (Binding, error) {
	return Bind(r, x.now, time.Time{}, x.view())
}

func TestFree(t *testing.T) {
	for _, tt := range []struct {
		rule, component string
		held            []string
		want            int
	}{
		{"exclusive and free", "pc1", nil, 1},
		{"exclusive and held", "pc1", []string{"s pc1 raw-pc"}, 0},
		{"exclusive and being cleaned", "pc1", []string{"s pc1 raw-pc~"}, 0},
		{"shared and empty", "h1", nil, 4},
		{"shared, less what is held", "h1", []string{"s h1 vm", "s h1 big-vm"}, 1},
		{"shared, less what is being cleaned", "h1", []string{"s h1 vm~"}, 3},
		{"shared and closed", "h1", []string{"s h1 vm!"}, 0},
		{"shared and overfull", "h1", []string{"s h1 big-vm", "s h1 big-vm", "s h1 big-vm"}, 0},
	} {
		v := site(t, testbed)
		c, _ := v.ComponentNamed(tt.component)
		if got := holding(v, tt.held...).free(c.Index); got != tt.want {
			t.Errorf("%s: Free is %d, want %d", tt.rule, got, tt.want)
		}
	}
	x := newHoldings(site(t, strings.Replace(testbed, "names: pc1..pc2,", "names: pc1..pc2, drained: true,", 1)))
	if x.free(0) != 0 || x.free(2) != 1 || x.free(-1) != 0 || x.free(1000) != 0 {
		t.Error("drained or absent components are free")
	}
}

// TestAvailabilityIsOfThePresent proves that a sliver which begins later does not change what is
// free now, but excludes a request without an end.
func TestAvailabilityIsOfThePresent(t *testing.T) {
	v := site(t, testbed+"public_addresses: [192.0.2.10]\n")
	for _, tt := range []struct {
		rule             string
		from, until, now int
		free             int
	}{
		{"begins later", 3, 5, 2, 1},
		{"begins now", 3, 5, 3, 0},
		{"has begun", 3, 5, 4, 0},
		{"is over, and its record exists", 3, 5, 5, 0},
		{"has no start, before a clock that was set back", 0, 5, 1, 0},
	} {
		x := newHoldings(v)
		s := sliver(v, "1", "s", "pc3", "raw-pc")
		s.Expires, s.PublicAddress = hour(tt.until), v.PublicAddresses[0]
		x.put(s)
		x.now, x.from = hour(tt.now), map[string]time.Time{}
		if tt.from > 0 {
			x.from[s.URN.Key()] = hour(tt.from)
		}
		if free, public := x.free(2), x.freePublicAddresses(); free != tt.free || public != tt.free {
			t.Errorf("%s: %d free and %d addresses, want %d", tt.rule, free, public, tt.free)
		}
		if _, err := bind(request("on=pc3"), x, slice("mine")); err == nil {
			t.Errorf("%s: a request without an end binds", tt.rule)
		}
	}
}

// TestHoldersThatEndFirst binds nodes for now and for later, beside holders of some components.
func TestHoldersThatEndFirst(t *testing.T) {
	v := site(t, "provider: rack\nsliver_types: [{name: pc}]\ncomponents: [{names: pc1..pc4, exclusive: true}]\n")
	for _, tt := range []struct {
		rule        string
		ends        map[string]int // of those who hold components
		from, until int
		want        string
	}{
		{"for now, in the order of the inventory", map[string]int{"pc2": 5}, 0, 4, "pc1 pc3"},
		{"for later, a free one first", map[string]int{"pc1": 5, "pc2": 3}, 6, 8, "pc3 pc4"},
		{"then the one whose holder ends first", map[string]int{"pc1": 5, "pc2": 3, "pc3": 4, "pc4": 2}, 6, 8, "pc4 pc2"},
		{"but none that is held then", map[string]int{"pc1": 5, "pc2": 7, "pc3": 4, "pc4": 9}, 6, 8, "pc3 pc1"},
	} {
		x := newHoldings(v)
		x.now = hour(0)
		for name, end := range tt.ends {
			s := sliver(v, name, "s", name, "pc")
			s.Expires = hour(end)
			x.put(s)
		}
		b, err := Bind(&Request{Request: request("", ""), Slice: slice("mine")}, hour(tt.from), hour(tt.until), x.view())
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Nodes[0].Component.Name + " " + b.Nodes[1].Component.Name; got != tt.want {
			t.Errorf("%s: on %s, want %s", tt.rule, got, tt.want)
		}
	}
}

// TestSliversKeepTheirComponentsInAnotherInventory changes the inventory below slivers.
func TestSliversKeepTheirComponentsInAnotherInventory(t *testing.T) {
	x := holding(site(t, testbed), "s pc1 raw-pc", "s h1 vm", "s pc3 raw-pc")
	// pc1 is gone, h1 is now exclusive, pc3 is not where it was.
	x.inv = site(t, `
provider: rack
sliver_types: [{name: raw-pc}]
components:
  - {name: pc3, exclusive: true}
  - {name: h1, exclusive: true}
  - {name: pc4, exclusive: true}
`)
	for i, want := range []int{0, 0, 1, 0} {
		if x.free(i) != want {
			t.Errorf("component %d: %d free, want %d", i, x.free(i), want)
		}
	}
	x.remove(sliver(x.inv, "held0", "s", "pc1", "raw-pc"))
	x.inv = site(t, testbed)
	for i, want := range []int{1, 1, 0, 3, 4, 4} {
		if x.free(i) != want {
			t.Errorf("back again, component %d: %d free, want %d", i, x.free(i), want)
		}
	}
}

// TestAComponentIsHeldUnderAnotherURN checks that a component with a changed component_id is not
// reserved twice.
func TestAComponentIsHeldUnderAnotherURN(t *testing.T) {
	v := site(t, testbed)
	x := newHoldings(v)
	s := sliver(v, "1", "s", "pc1", "raw-pc")
	s.ComponentName, s.Provider = "pc1", v.Components[0].Provider
	x.put(s)
	x.inv = site(t, strings.Replace(testbed, "names: pc1..pc2,", "name: pc1, component_id: 'urn:publicid:IDN+example.org+node+rack-1',", 1))
	if c, _ := x.inv.ComponentNamed("pc1"); x.free(c.Index) != 0 {
		t.Error("it is free under its new URN while a sliver holds it")
	}
}

func TestFreePublicAddresses(t *testing.T) {
	v := site(t, testbed+"public_addresses: [192.0.2.10..192.0.2.12]\n")
	x := newHoldings(v)
	want := func(free int) {
		t.Helper()
		if got := x.freePublicAddresses(); got != free {
			t.Errorf("%d addresses are free, want %d", got, free)
		}
	}
	want(3)
	s := sliver(v, "1", "s", "pc1", "raw-pc")
	s.PublicAddress = v.PublicAddresses[1]
	other := s
	other.URN.Name, other.Component.Name = "2", "gone" // two with one address: it counts once
	x.put(s, other)
	want(2)
	x.inv = site(t, testbed+"public_addresses: [192.0.2.11]\n")
	want(0)
	x.remove(s)
	want(0)
	x.remove(other)
	want(1)
}

// TestTakes checks which holds of others contradict a binding on the component c1, with its interface on the tag 7 and
// a public address.
func TestTakes(t *testing.T) {
	v := rows(t, "  - {names: c1..c2, exclusive: true, sliver_types: [pc]}\n")
	address := netip.MustParseAddr("192.0.2.1")
	b := Binding{Nodes: []Bound{{Component: v.Components[0], PublicAddress: address, Interfaces: []am.Interface{{VLAN: 7}, {}}}}}
	key := func(i int) []byte { return []byte(v.Components[i].URN.Key()) }
	for _, tt := range []struct {
		rule string
		hold am.Hold
		want bool
	}{
		{"its component", am.Hold{Component: key(0)}, true},
		{"its component under another URN", am.Hold{Component: []byte("older"), ComponentName: []byte("c1")}, true},
		{"its tag", am.Hold{Component: key(1), Interfaces: []am.InterfaceHold{{}, {VLAN: 7}}}, true},
		{"its public address", am.Hold{Component: key(1), PublicAddress: address}, true},
		{"others", am.Hold{Component: key(1), ComponentName: []byte("c2"), PublicAddress: address.Next(), Interfaces: []am.InterfaceHold{{}, {VLAN: 8}}}, false},
		{"nothing", am.Hold{}, false},
	} {
		if got := b.Takes(&tt.hold); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.rule, got, tt.want)
		}
	}
}
