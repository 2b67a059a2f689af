package inventory

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/inventory/nameset"
)

// Consequence is what an inventory means for slivers that are there: those of one
// slice to which the same happens for the same reasons.
type Consequence struct {
	// Warning says that an operator should think before, or do something.
	Warning bool
	// What it is about, such as names of components and ranges of them, and Line where
	// the file has the first; 0 for nowhere.
	What string
	Line int
	Text string
	// Slice is whose they are, and Slivers how many; Leaving of them are being
	// removed already, Frozen belong to a slice that is shut down.
	Slice   string
	Slivers int
	Leaving int
	Frozen  int
	// Until is the end of the last lease; zero if all are leaving or frozen.
	Until time.Time `json:",omitzero"`
}

// String is the consequence as one line.
func (c Consequence) String() string {
	n := fmt.Sprintf("%d slivers", c.Slivers)
	if c.Slivers == 1 {
		n = "1 sliver"
	}
	s := fmt.Sprintf("%s: %s (%s of %s", c.What, c.Text, n, c.Slice)
	if c.Leaving > 0 {
		s += fmt.Sprintf(", %d being removed", c.Leaving)
	}
	if c.Frozen > 0 {
		s += fmt.Sprintf(", %d frozen", c.Frozen)
	}
	if !c.Until.IsZero() {
		s += ", until " + c.Until.UTC().Format(time.RFC3339)
	}
	return s + ")"
}

// Meet tells what v, in force or to be, means for slivers that were promised by
// whatever inventory: each time something of them is not what v says. None of it
// takes anything away from them. What is told is in the order of v.
func Meet(v *Inventory, slivers []am.Sliver) []Consequence {
	m := &meeting{
		v: v, held: make(map[*Component]load), taken: make(map[*Interface][2]int64), found: make(map[consequenceKey]*met),
		tags: make(map[int]bool), addresses: make(map[netip.Addr]bool),
	}
	for _, tag := range v.VLANs {
		m.tags[tag] = true
	}
	for _, a := range v.PublicAddresses {
		m.addresses[a] = true
	}
	for i := range slivers {
		x := &slivers[i]
		if c, ok := v.Home(x); ok {
			all := m.held[c]
			m.held[c] = load{all.slivers + 1, all.amount.Add(x.Amount)}
		}
		for n := range x.Interfaces {
			if p, ok := v.Port(x, &x.Interfaces[n]); ok {
				all := m.taken[p]
				m.taken[p] = [2]int64{all[0] + x.Interfaces[n].Out, all[1] + x.Interfaces[n].In}
			}
		}
	}
	for i := range slivers {
		m.sliver(&slivers[i])
	}
	return m.sorted()
}

// Home is the component that a sliver is on: by its URN or, where that was
// changed, the one that its provider knows by the same name.
func (v *Inventory) Home(x *am.Sliver) (*Component, bool) {
	if c, ok := v.Component(x.Component); ok {
		return c, true
	}
	c, ok := v.ComponentNamed(x.ComponentName)
	return c, ok && c.Provider == x.Provider
}

// Port is the physical interface that an interface of a sliver got: by its URN or,
// where that was changed, the one of the same name on the sliver's component.
func (v *Inventory) Port(x *am.Sliver, i *am.Interface) (*Interface, bool) {
	if i.Component.IsZero() {
		return nil, false
	}
	if p, ok := v.Interface(i.Component); ok {
		return p, true
	}
	c, ok := v.Home(x)
	if !ok || i.ComponentName == "" {
		return nil, false
	}
	p := c.port(i.ComponentName)
	return p, p != nil
}

// port is the interface of that name; nil if there is none.
func (c *Component) port(name string) *Interface {
	n := slices.IndexFunc(c.Interfaces, func(p *Interface) bool { return p.Name == name })
	if n < 0 {
		return nil
	}
	return c.Interfaces[n]
}

// meeting is one Meet under way.
type meeting struct {
	v     *Inventory
	held  map[*Component]load
	taken map[*Interface][2]int64 // kbit/s out and in
	found map[consequenceKey]*met
	order []*met
	// tags and addresses are those on offer.
	tags      map[int]bool
	addresses map[netip.Addr]bool
}

// load is what all slivers of a component are together.
type load struct {
	slivers int
	amount  am.Amount
}

type consequenceKey struct{ what, slice string }

// met is what is said of one thing and the slivers of one slice.
type met struct {
	Consequence
	texts []string
	last  *am.Sliver // that was counted
}

// note has something be said of a sliver.
func (m *meeting) note(x *am.Sliver, warning bool, what string, line int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	key := consequenceKey{what, x.Slice.Key()}
	c := m.found[key]
	if c == nil {
		c = &met{Consequence: Consequence{What: what, Line: line, Slice: x.Slice.String()}}
		m.found[key] = c
		m.order = append(m.order, c)
	}
	if !slices.Contains(c.texts, text) {
		c.texts = append(c.texts, text)
	}
	c.Warning = c.Warning || warning
	if c.last == x {
		return
	}
	c.last = x
	c.Slivers++
	switch {
	case x.Status.Allocation == am.Unallocated:
		c.Leaving++
	case x.Frozen:
		c.Frozen++
	case x.Expires.After(c.Until):
		c.Until = x.Expires
	}
}

// sorted makes one of those of a slice of which the same is said. What concerns no
// component that is there comes first, for it cannot be found in the file.
func (m *meeting) sorted() []Consequence {
	slices.SortStableFunc(m.order, func(a, b *met) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.What, b.What), cmp.Compare(a.Slice, b.Slice))
	})
	var all []Consequence
	var names [][]string // of each
	places := make(map[[2]string]int)
	for _, c := range m.order {
		c.Text = strings.Join(c.texts, "; ")
		key := [2]string{c.Slice, c.Text}
		i, ok := places[key]
		if !ok {
			places[key] = len(all)
			all, names = append(all, c.Consequence), append(names, []string{c.What})
			continue
		}
		one := &all[i]
		names[i] = append(names[i], c.What)
		one.Warning = one.Warning || c.Warning
		one.Slivers += c.Slivers
		one.Leaving += c.Leaving
		one.Frozen += c.Frozen
		if c.Until.After(one.Until) {
			one.Until = c.Until
		}
	}
	for i := range all {
		list := nameset.Fold(names[i])
		if more := len(list) - maxNames; more > 0 {
			list = append(list[:maxNames], fmt.Sprintf("%d more", more))
		}
		all[i].What = strings.Join(list, ", ")
	}
	return all
}

func (m *meeting) sliver(x *am.Sliver) {
	c, ok := m.v.Home(x)
	if !ok {
		m.homeless(x)
	} else {
		m.identity(x, c)
		m.kind(x, c)
		m.room(x, c)
	}
	m.network(x, c)
	if a := x.PublicAddress; a.IsValid() && !m.addresses[a] {
		m.note(x, false, "public address "+a.String(), 0, "it is no longer offered; who has it keeps it, and it is not given again")
	}
}

func (m *meeting) homeless(x *am.Sliver) {
	what := cmp.Or(x.ComponentName, x.Component.Name)
	if x.Provider == "" {
		m.note(x, true, what, 0, "it is not in the inventory and nobody knows its provider, so its slivers cannot be removed: put it back with drained: true")
		return
	}
	m.note(x, true, what, 0, "it is not in the inventory, and %s looks after its slivers until they are gone; if it only has another name, drain that until then", x.Provider)
}

// identity tells what a component is called otherwise, and by whom.
func (m *meeting) identity(x *am.Sliver, c *Component) {
	if c.Drained {
		m.note(x, false, c.Name, c.Line, "it is drained")
	}
	if !x.Component.Equal(c.URN) {
		m.note(x, false, c.Name, c.Line, "its component_id is another, and manifests keep the old one")
	}
	if x.ComponentName != "" && x.ComponentName != c.Name {
		m.note(x, false, c.Name, c.Line, "its name is another, and its provider goes on being told the old one")
	}
	if x.Provider != "" && x.Provider != c.Provider {
		m.note(x, true, c.Name, c.Line, "its provider is %s, and %s, which must stay in the folder of providers, looks after its slivers until they are gone", c.Provider, x.Provider)
	}
	if x.Gateway != c.Gateway.Door() {
		m.note(x, false, c.Name, c.Line, "its gateway is %s, and manifests tell of that", cmp.Or(c.Gateway.Door(), "none"))
	}
}

// kind tells what a component no longer offers that its slivers are.
func (m *meeting) kind(x *am.Sliver, c *Component) {
	if !slices.ContainsFunc(c.SliverTypes, func(t *SliverType) bool { return t.Name == x.SliverType }) {
		m.note(x, false, c.Name, c.Line, "it offers no %s any more", x.SliverType)
	}
	if x.HardwareType != "" && !slices.Contains(c.HardwareTypes, x.HardwareType) {
		m.note(x, false, c.Name, c.Line, "it is no %s any more, and manifests go on saying so", x.HardwareType)
	}
	if _, ok := m.v.Image(x.Image); x.Image != "" && !ok {
		m.note(x, x.Status.Operational == am.PendingAllocation, "image "+x.Image, 0, "it is no longer offered; manifests go on telling of it, and its provider may be unable to make a node of it")
	}
}

// room tells where more is held than fits, or otherwise than from now on.
func (m *meeting) room(x *am.Sliver, c *Component) {
	all := m.held[c]
	switch {
	case c.Exclusive && all.slivers > 1:
		m.note(x, true, c.Name, c.Line, "it is exclusive, and takes nothing new until its %d slivers are gone", all.slivers)
	case c.Exclusive && !x.Exclusive:
		m.note(x, false, c.Name, c.Line, "it is exclusive now")
	case !c.Exclusive && x.Exclusive:
		m.note(x, false, c.Name, c.Line, "it is shared now, and the slice keeps it for itself")
	}
	if c.Exclusive {
		return
	}
	used := all.amount
	if over(c.Capacity.Slots, used.Slots) || over(c.Capacity.Cores, used.Cores) || over(c.Capacity.Memory, used.Memory) || over(c.Capacity.Disk, used.Disk) {
		m.note(x, true, c.Name, c.Line, "its slivers take %s of %s, so it takes nothing new until they fit", amountText(used), amountText(c.Capacity))
	}
}

func over(capacity, used int64) bool { return capacity > 0 && used > capacity }

// network tells what of the network a sliver holds otherwise than v has it; c is
// nil for a component that is not there.
func (m *meeting) network(x *am.Sliver, c *Component) {
	told := make(map[string]bool) // of this sliver
	note := func(warning bool, what string, line int, format string, args ...any) {
		if !told[what] {
			told[what] = true
			m.note(x, warning, what, line, format, args...)
		}
	}
	for i := range x.Interfaces {
		in := &x.Interfaces[i]
		if p, ok := m.v.Port(x, in); ok {
			if t := m.taken[p]; over(p.Capacity, t[0]) || over(p.Capacity, t[1]) {
				note(true, p.Component.Name+" "+p.Name, p.Component.Line, "links take %d kbit/s out and %d in of its %d; they stay, and nothing new gets a part of it until it fits", t[0], t[1], p.Capacity)
			}
		} else if !in.Component.IsZero() && c != nil {
			note(true, c.Name+" "+cmp.Or(in.ComponentName, in.Component.Name), c.Line, "the interface is not in the inventory, so what its links take is not counted; put it back under its name until they are gone")
		}
		switch shared, known := m.v.SharedVLAN(in.SharedVLAN); {
		case in.VLAN == 0:
		case in.SharedVLAN != "" && !known:
			note(true, "shared VLAN "+in.SharedVLAN, 0, "it is no longer offered; links that are on it stay there")
		case in.SharedVLAN != "" && shared.Tag != in.VLAN:
			note(true, "shared VLAN "+in.SharedVLAN, 0, "its tag is %d; links that are there stay on %d and do not meet those to come", shared.Tag, in.VLAN)
		case in.SharedVLAN == "" && m.joined(in.VLAN) != "":
			note(true, "VLAN "+strconv.Itoa(in.VLAN), 0, "it is the tag of the shared VLAN %s while a link has it alone; nobody can join before that is gone", m.joined(in.VLAN))
		case in.SharedVLAN == "" && !m.tags[in.VLAN]:
			note(false, "VLAN "+strconv.Itoa(in.VLAN), 0, "it is no longer offered; the link that has it keeps it, and it is not given again")
		}
	}
}

// joined is the name of the shared VLAN that has a tag.
func (m *meeting) joined(tag int) string {
	if i := slices.IndexFunc(m.v.SharedVLANs, func(v *SharedVLAN) bool { return v.Tag == tag }); i >= 0 {
		return m.v.SharedVLANs[i].Name
	}
	return ""
}
