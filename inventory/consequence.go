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

// Consequence is an effect of an inventory on existing slivers of one slice. Slivers with
// the same effect for the same reasons share one Consequence.
type Consequence struct {
	// Warning reports whether an operator should act or decide.
	Warning bool
	// What is the subject, such as a list of names and ranges of components. Line is the
	// first subject's line in the file; 0 if the file does not contain it.
	What string
	Line int
	Text string
	// Slivers is the number of affected slivers of Slice. Leaving counts the slivers
	// among them that are being removed, and Frozen those that are shut down.
	Slice   string
	Slivers int
	Leaving int
	Frozen  int
	// Until is the latest expiry of the other slivers; zero if there are none.
	Until time.Time `json:",omitzero"`
	// Waiting counts the slivers that have not begun, and Begins is their first start.
	Waiting int       `json:",omitempty"`
	Begins  time.Time `json:",omitzero"`
}

// String returns the consequence as one line.
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
	if c.Waiting > 0 {
		s += fmt.Sprintf(", %d reserved from %s", c.Waiting, c.Begins.UTC().Format(time.RFC3339))
	}
	if !c.Until.IsZero() {
		s += ", until " + c.Until.UTC().Format(time.RFC3339)
	}
	return s + ")"
}

// Consequences compares existing slivers with the inventory v, and returns the
// differences. The slivers may have been reserved under other inventories. The result is
// sorted by line.
func Consequences(v *Inventory, slivers []am.Sliver) []Consequence {
	m := &consequenceBuilder{
		v: v, held: make(map[*Component]load), taken: make(map[*Interface][2]int64), found: make(map[consequenceKey]*sliceNote),
		tags: make(map[int]bool), addresses: make(map[netip.Addr]bool),
	}
	for _, tag := range v.VLANs {
		m.tags[tag] = true
	}
	for _, a := range v.PublicAddresses {
		m.addresses[a] = true
	}
	m.countHeld(slivers)
	for i := range slivers {
		m.noteSliver(&slivers[i])
	}
	return m.sorted()
}

// ComponentOf returns the component of a sliver. It finds the component by URN or, if the
// URN has changed, by name and provider.
func (v *Inventory) ComponentOf(x *am.Sliver) (*Component, bool) {
	if c, ok := v.Component(x.Component); ok {
		return c, true
	}
	c, ok := v.ComponentNamed(x.ComponentName)
	return c, ok && c.Provider == x.Provider
}

// InterfaceOf returns the physical interface of a sliver's interface. It finds it by URN
// or, if the URN has changed, by name on the sliver's component.
func (v *Inventory) InterfaceOf(x *am.Sliver, i *am.Interface) (*Interface, bool) {
	if i.Component.IsZero() {
		return nil, false
	}
	if p, ok := v.Interface(i.Component); ok {
		return p, true
	}
	c, ok := v.ComponentOf(x)
	if !ok || i.ComponentName == "" {
		return nil, false
	}
	p := c.InterfaceNamed(i.ComponentName)
	return p, p != nil
}

// InterfaceNamed finds a physical interface of c by its name; nil for none.
func (c *Component) InterfaceNamed(name string) *Interface {
	n := slices.IndexFunc(c.Interfaces, func(p *Interface) bool { return p.Name == name })
	if n < 0 {
		return nil
	}
	return c.Interfaces[n]
}

type consequenceBuilder struct {
	v     *Inventory
	held  map[*Component]load     // the slivers on each component
	taken map[*Interface][2]int64 // capacity in kbit/s that links use, out and in
	found map[consequenceKey]*sliceNote
	order []*sliceNote
	// tags and addresses are those that the inventory offers.
	tags      map[int]bool
	addresses map[netip.Addr]bool
}

type load struct {
	slivers int
	amount  am.Amount
}

// countHeld sets held and taken to the most that slivers hold at one time, because slivers that have not begun may follow each other.
func (m *consequenceBuilder) countHeld(slivers []am.Sliver) {
	holds, of := make(map[*Component][]am.Hold), make(map[string]*am.Sliver, len(slivers))
	for i := range slivers {
		x := &slivers[i]
		c, _ := m.v.ComponentOf(x) // nil: it is not in the inventory
		holds[c] = append(holds[c], am.HoldOf(x))
		of[x.URN.Key()] = x
	}
	for c, list := range holds {
		var now load
		links := make(map[*Interface][2]int64)
		add := func(h *am.Hold, sign int64) {
			x := of[string(h.Sliver)]
			for n := range x.Interfaces {
				if p, ok := m.v.InterfaceOf(x, &x.Interfaces[n]); ok {
					t := links[p]
					links[p] = [2]int64{t[0] + sign*x.Interfaces[n].Out, t[1] + sign*x.Interfaces[n].In}
				}
			}
		}
		am.Sweep(list, time.Time{}, time.Time{},
			func(h *am.Hold) { now = load{now.slivers + 1, now.amount.Add(h.Amount)}; add(h, 1) },
			func(h *am.Hold) { now = load{now.slivers - 1, now.amount.Sub(h.Amount)}; add(h, -1) },
			func(time.Time) bool {
				a, b := m.held[c].amount, now.amount
				m.held[c] = load{max(m.held[c].slivers, now.slivers), am.Amount{
					Slots: max(a.Slots, b.Slots), Cores: max(a.Cores, b.Cores), GPUs: max(a.GPUs, b.GPUs), Memory: max(a.Memory, b.Memory), Disk: max(a.Disk, b.Disk),
				}}
				for p, t := range links {
					m.taken[p] = [2]int64{max(m.taken[p][0], t[0]), max(m.taken[p][1], t[1])}
				}
				return true
			})
	}
}

type consequenceKey struct{ what, slice string }

// sliceNote collects the texts about one subject for the slivers of one slice.
type sliceNote struct {
	Consequence
	texts []string
	last  *am.Sliver // the last sliver that was counted
}

// note records a text about a subject that concerns the sliver x. A sliver counts once for a subject, if its notes
// come one after the other.
func (m *consequenceBuilder) note(x *am.Sliver, warning bool, subject string, line int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	key := consequenceKey{subject, x.Slice.Key()}
	c := m.found[key]
	if c == nil {
		c = &sliceNote{Consequence: Consequence{What: subject, Line: line, Slice: x.Slice.String()}}
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
	case x.Waits():
		c.Waiting++
		if c.Begins.IsZero() || x.Begins.Before(c.Begins) {
			c.Begins = x.Begins
		}
		if x.Ends.After(c.Until) {
			c.Until = x.Ends
		}
	case x.Expires.After(c.Until):
		c.Until = x.Expires
	}
}

// sorted merges notes that have the same slice and text. Notes without a line in the
// file come first.
func (m *consequenceBuilder) sorted() []Consequence {
	slices.SortStableFunc(m.order, func(a, b *sliceNote) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.What, b.What), cmp.Compare(a.Slice, b.Slice))
	})
	var all []Consequence
	var names [][]string // for each entry of all
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
		one.Waiting += c.Waiting
		if !c.Begins.IsZero() && (one.Begins.IsZero() || c.Begins.Before(one.Begins)) {
			one.Begins = c.Begins
		}
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

func (m *consequenceBuilder) noteSliver(x *am.Sliver) {
	c, ok := m.v.ComponentOf(x)
	if !ok {
		m.noteMissingComponent(x)
	} else {
		m.noteIdentity(x, c)
		m.noteTypes(x, c)
		m.noteCapacity(x, c)
	}
	m.noteNetwork(x, c)
	if a := x.PublicAddress; a.IsValid() && !m.addresses[a] {
		m.note(x, false, "public address "+a.String(), 0, "it is no longer offered; its node keeps it, and it is not assigned again")
	}
}

func (m *consequenceBuilder) noteMissingComponent(x *am.Sliver) {
	what := cmp.Or(x.ComponentName, x.Component.Name)
	if x.Provider == "" {
		m.note(x, true, what, 0, "it is not in the inventory and its provider is unknown, so its slivers cannot be removed: add it again with drained: true")
		return
	}
	m.note(x, true, what, 0, "it is not in the inventory, and %s manages its slivers until they are deleted; if it was only renamed, drain the new one until then", x.Provider)
}

func (m *consequenceBuilder) noteIdentity(x *am.Sliver, c *Component) {
	if c.Drained {
		m.note(x, false, c.Name, c.Line, "it is drained")
	}
	if !x.Component.Equal(c.URN) {
		m.note(x, false, c.Name, c.Line, "its component_id has changed; manifests keep the old one")
	}
	if x.ComponentName != "" && x.ComponentName != c.Name {
		m.note(x, false, c.Name, c.Line, "its name has changed; its provider still gets the old one")
	}
	if x.Provider != "" && x.Provider != c.Provider {
		m.note(x, true, c.Name, c.Line, "its provider is %s, and %s, which must stay in the folder of providers, manages its slivers until they are deleted", c.Provider, x.Provider)
	}
	if x.Gateway != c.Gateway.Address() {
		m.note(x, false, c.Name, c.Line, "its gateway is now %s, also in manifests", cmp.Or(c.Gateway.Address(), "none"))
	}
}

func (m *consequenceBuilder) noteTypes(x *am.Sliver, c *Component) {
	if !slices.ContainsFunc(c.SliverTypes, func(t *SliverType) bool { return t.Name == x.SliverType }) {
		m.note(x, false, c.Name, c.Line, "it no longer offers %s", x.SliverType)
	}
	if x.HardwareType != "" && !slices.Contains(c.HardwareTypes, x.HardwareType) {
		m.note(x, false, c.Name, c.Line, "it is no longer %s, which manifests still name", x.HardwareType)
	}
	if _, ok := m.v.Image(x.Image); x.Image != "" && !ok {
		m.note(x, x.Status.Operational == am.PendingAllocation, "image "+x.Image, 0, "it is no longer offered; manifests keep it, and its provider may be unable to make a node from it")
	}
}

func (m *consequenceBuilder) noteCapacity(x *am.Sliver, c *Component) {
	all := m.held[c]
	switch {
	case c.Exclusive && all.slivers > 1:
		m.note(x, true, c.Name, c.Line, "it is exclusive, and accepts no slivers until its %d slivers are deleted", all.slivers)
	case c.Exclusive && !x.Exclusive:
		m.note(x, false, c.Name, c.Line, "it is exclusive now")
	case !c.Exclusive && x.Exclusive:
		m.note(x, false, c.Name, c.Line, "it is shared now, and the slice keeps exclusive use")
	}
	if c.Exclusive {
		return
	}
	used := all.amount
	if exceeds(c.Capacity.Slots, used.Slots) || exceeds(c.Capacity.Cores, used.Cores) || exceeds(c.Capacity.GPUs, used.GPUs) ||
		exceeds(c.Capacity.Memory, used.Memory) || exceeds(c.Capacity.Disk, used.Disk) {
		m.note(x, true, c.Name, c.Line, "its slivers use %s of %s, so it accepts no slivers until they fit", amountText(used), amountText(c.Capacity))
	}
}

// exceeds reports whether an amount is larger than a capacity. A capacity of 0 is unlimited.
func exceeds(capacity, amount int64) bool { return capacity > 0 && amount > capacity }

// noteNetwork notes what has changed about the interfaces of x and their VLANs. c is the component of x; nil if it is
// not in the inventory.
func (m *consequenceBuilder) noteNetwork(x *am.Sliver, c *Component) {
	noted := make(map[string]bool) // subjects of this sliver
	note := func(warning bool, what string, line int, format string, args ...any) {
		if !noted[what] {
			noted[what] = true
			m.note(x, warning, what, line, format, args...)
		}
	}
	for i := range x.Interfaces {
		in := &x.Interfaces[i]
		if p, ok := m.v.InterfaceOf(x, in); ok {
			if t := m.taken[p]; exceeds(p.Capacity, t[0]) || exceeds(p.Capacity, t[1]) {
				note(true, p.Component.Name+" "+p.Name, p.Component.Line, "its links use %d kbit/s out and %d in, of %d; they stay, and no link can be added until they fit", t[0], t[1], p.Capacity)
			}
		} else if !in.Component.IsZero() && c != nil {
			note(true, c.Name+" "+cmp.Or(in.ComponentName, in.Component.Name), c.Line, "the interface is not in the inventory, so the capacity that its links use is not counted; restore it under its name until the links are deleted")
		}
		switch shared, known := m.v.SharedVLAN(in.SharedVLAN); {
		case in.VLAN == 0:
		case in.SharedVLAN != "" && !known:
			note(true, "shared VLAN "+in.SharedVLAN, 0, "it is no longer offered; its links stay")
		case in.SharedVLAN != "" && shared.Tag != in.VLAN:
			note(true, "shared VLAN "+in.SharedVLAN, 0, "its tag is %d; existing links stay on %d and do not reach new ones", shared.Tag, in.VLAN)
		case in.SharedVLAN == "" && m.sharedVLANName(in.VLAN) != "":
			note(true, "VLAN "+strconv.Itoa(in.VLAN), 0, "it is the tag of the shared VLAN %s, and a private link uses it; no link can join until the private link is deleted", m.sharedVLANName(in.VLAN))
		case in.SharedVLAN == "" && !m.tags[in.VLAN]:
			note(false, "VLAN "+strconv.Itoa(in.VLAN), 0, "it is no longer offered; its link keeps it, and it is not assigned again")
		}
	}
}

func (m *consequenceBuilder) sharedVLANName(tag int) string {
	if i := slices.IndexFunc(m.v.SharedVLANs, func(v *SharedVLAN) bool { return v.Tag == tag }); i >= 0 {
		return m.v.SharedVLANs[i].Name
	}
	return ""
}
