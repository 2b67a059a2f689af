package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"patchbay/am"
	"patchbay/inventory/nameset"
	"patchbay/rspec/match"
)

// Change is a difference between two inventories, for operators.
type Change struct {
	// Kind is "component", "sliver type", "image" and the like, or "the site".
	Kind string
	// Names are the names of the things with this change, folded into ranges such as
	// pc1..pc12. They have at most maxNames elements.
	Names []string `json:",omitempty"`
	// Count is the number of things with this change, at most maxCounted. More is the
	// number of omitted elements of Names, plus the number of things beyond maxCounted.
	Count int
	More  int `json:",omitempty"`
	Text  string
}

const (
	// maxNames is the number of names and ranges shown for one change.
	maxNames = 20
	// maxCounted is the number of names collected for one change.
	maxCounted = 10_000
)

// String returns the change as one line.
func (c Change) String() string {
	head := c.Kind
	switch {
	case c.Count+c.More < 2:
	case strings.HasSuffix(head, "s"):
		head += "es"
	default:
		head += "s"
	}
	if len(c.Names) > 0 {
		head += " " + strings.Join(c.Names, ", ")
	}
	if c.More > 0 {
		head += fmt.Sprintf(" and %d more", c.More)
	}
	return head + ": " + c.Text
}

// Compare returns the changes from the inventory older to the inventory newer. Things
// with the same change share one Change.
func Compare(older, newer *Inventory) []Change {
	d := &differences{places: map[[2]string]int{}}
	d.components(older, newer)
	compareNamed(d, "sliver type", older.SliverTypes, newer.SliverTypes, typeName, d.sliverType)
	compareNamed(d, "image", older.Images, newer.Images, imageName, func(name string, a, b *Image) {
		if !reflect.DeepEqual(a, b) {
			d.add("image", name, "has another description")
		}
	})
	compareNamed(d, "link", older.Links, newer.Links, func(l *Link) string { return l.Name }, func(name string, a, b *Link) {
		if a.URN != b.URN || a.Type != b.Type || a.Capacity != b.Capacity {
			d.add("link", name, "has another description")
		}
	})
	compareNamed(d, "shared VLAN", older.SharedVLANs, newer.SharedVLANs, func(v *SharedVLAN) string { return v.Name }, func(name string, a, b *SharedVLAN) {
		switch {
		case a.Tag != b.Tag:
			d.add("shared VLAN", name, fmt.Sprintf("its tag was %d and is %d", a.Tag, b.Tag))
		case *a != *b:
			d.add("shared VLAN", name, "has another description")
		}
	})
	compareValues(d, "VLAN tag", older.VLANs, newer.VLANs, strconv.Itoa)
	compareValues(d, "public address", older.PublicAddresses, newer.PublicAddresses, netip.Addr.String)
	d.site(older, newer)
	return d.grouped()
}

// differences merges changes with the same kind and text into one Change.
type differences struct {
	all    []Change
	places map[[2]string]int // kind and text → index in all
}

// add records a change; an empty name means the whole site.
func (d *differences) add(kind, name, text string) {
	key := [2]string{kind, text}
	i, ok := d.places[key]
	if !ok {
		i = len(d.all)
		d.places[key] = i
		d.all = append(d.all, Change{Kind: kind, Text: text})
	}
	switch c := &d.all[i]; {
	case name == "":
	case len(c.Names) == maxCounted:
		c.More++
	default:
		c.Names = append(c.Names, name)
		c.Count++
	}
}

// grouped folds the names of each change into ranges. It puts the text of a change into
// the plural if several things have changed.
func (d *differences) grouped() []Change {
	for i := range d.all {
		c := &d.all[i]
		if c.Names = nameset.Fold(c.Names); len(c.Names) > maxNames {
			c.More += len(c.Names) - maxNames
			c.Names = c.Names[:maxNames]
		}
		if c.Count+c.More > 1 {
			c.Text = plural(c.Text)
		}
	}
	return d.all
}

var pluralTexts = map[string]string{
	"is new":                  "are new",
	"has another description": "have other descriptions",
	"was removed":             "were removed",
	"was removed; it is not advertised and accepts no slivers": "were removed; they are not advertised and accept no slivers",
	"is drained; it accepts no slivers":                        "are drained; they accept no slivers",
	"is no longer drained":                                     "are no longer drained",
	"was exclusive and is shared":                              "were exclusive and are shared",
	"was shared and is exclusive":                              "were shared and are exclusive",
}

func plural(text string) string {
	if its, ok := strings.CutPrefix(text, "its "); ok {
		return "their " + its
	}
	return cmp.Or(pluralTexts[text], text)
}

// compareNamed records the new and the removed things of one kind. For each thing in both lists, it
// calls compare with the old and the new value.
func compareNamed[T any](d *differences, kind string, older, newer []T, name func(T) string, compare func(name string, a, b T)) {
	before := make(map[string]T, len(older))
	for _, x := range older {
		before[name(x)] = x
	}
	for _, x := range newer {
		n := name(x)
		a, ok := before[n]
		if delete(before, n); ok {
			compare(n, a, x)
		} else {
			d.add(kind, n, "is new")
		}
	}
	for _, x := range older {
		if _, left := before[name(x)]; left {
			d.add(kind, name(x), "was removed")
		}
	}
}

func compareValues[T comparable](d *differences, kind string, older, newer []T, text func(T) string) {
	compareNamed(d, kind, older, newer, text, func(string, T, T) {})
}

// components records new, changed and removed components.
func (d *differences) components(older, newer *Inventory) {
	matched := make(map[*Component]bool, len(newer.Components))
	for _, c := range newer.Components {
		old := formerComponent(older, newer, c)
		if old == nil {
			d.add("component", c.Name, "is new")
			continue
		}
		matched[old] = true
		d.component(old, c)
	}
	for _, c := range older.Components {
		if !matched[c] {
			d.add("component", c.Name, "was removed; it is not advertised and accepts no slivers")
		}
	}
}

// formerComponent returns the component in older that is c in newer: the one with its URN, or else the one with its name
// and provider if its URN has changed. It returns nil if c is new.
func formerComponent(older, newer *Inventory, c *Component) *Component {
	if old, ok := older.Component(c.URN); ok {
		return old
	}
	old, ok := older.ComponentNamed(c.Name)
	if !ok || old.Provider != c.Provider {
		return nil
	}
	if _, stays := newer.Component(old.URN); stays {
		return nil
	}
	return old
}

// component records how a component has changed from a to b.
func (d *differences) component(a, b *Component) {
	add := func(format string, args ...any) { d.add("component", b.Name, fmt.Sprintf(format, args...)) }
	switch {
	case !a.Drained && b.Drained:
		add("is drained; it accepts no slivers")
	case a.Drained && !b.Drained:
		add("is no longer drained")
	}
	if !a.URN.Equal(b.URN) {
		add("its component_id was %s and is %s", a.URN, b.URN)
	}
	if a.Name != b.Name {
		add("its name was %s", a.Name)
	}
	switch {
	case a.Exclusive && !b.Exclusive:
		add("was exclusive and is shared")
	case !a.Exclusive && b.Exclusive:
		add("was shared and is exclusive")
	case a.Capacity != b.Capacity:
		add("its capacity was %s and is %s", amountText(a.Capacity), amountText(b.Capacity))
	}
	texts := func(what string, a, b []string) {
		if !slices.Equal(a, b) {
			add("its %s were %s and are %s", what, listText(a), listText(b))
		}
	}
	texts("sliver types", namesOf(a.SliverTypes, typeName), namesOf(b.SliverTypes, typeName))
	texts("hardware types", a.HardwareTypes, b.HardwareTypes)
	d.capabilities("component", b.Name, a.Capabilities, b.Capabilities)
	if a.Provider != b.Provider {
		add("its provider was %s and is %s; each sliver keeps the provider that created it", a.Provider, b.Provider)
	}
	if !isEqual(a.Gateway, b.Gateway) {
		add("its gateway has changed, also in manifests")
	}
	if !isEqual(a.Location, b.Location) {
		add("its location has changed")
	}
	if !slices.EqualFunc(a.Interfaces, b.Interfaces, func(a, b *Interface) bool {
		return a.Name == b.Name && a.Role == b.Role && a.Capacity == b.Capacity && a.PublicIPv4 == b.PublicIPv4 && linkName(a) == linkName(b)
	}) {
		add("its interfaces have changed")
	}
	if !maps.Equal(a.Settings, b.Settings) {
		add("its settings have changed")
	}
}

// sliverType records how a sliver type has changed from a to b.
func (d *differences) sliverType(name string, a, b *SliverType) {
	add := func(format string, args ...any) { d.add("sliver type", name, fmt.Sprintf(format, args...)) }
	if a.Needs != b.Needs {
		add("its needs were %s and are %s; existing slivers keep their amounts", amountText(a.Needs), amountText(b.Needs))
	}
	if !slices.Equal(namesOf(a.Images, imageName), namesOf(b.Images, imageName)) || a.DefaultImage != nil && b.DefaultImage != nil && a.DefaultImage.Name != b.DefaultImage.Name {
		add("its images have changed")
	}
	if !slices.Equal(a.Aliases, b.Aliases) {
		add("its aliases have changed")
	}
	d.capabilities("sliver type", name, a.Capabilities, b.Capabilities)
}

// capabilities records each feature that differs.
func (d *differences) capabilities(kind, name string, a, b map[string]match.Capability) {
	text := func(all map[string]match.Capability, feature string) string {
		if offer, ok := all[feature]; ok {
			return offer.String()
		}
		return "none"
	}
	features := make(map[string]match.Capability, len(b))
	maps.Copy(features, a)
	maps.Copy(features, b)
	for _, feature := range slices.Sorted(maps.Keys(features)) {
		if was, now := text(a, feature), text(b, feature); was != now {
			d.add(kind, name, fmt.Sprintf("its %s was %s and is %s", feature, was, now))
		}
	}
}

// site records how the settings of the whole site have changed from a to b.
func (d *differences) site(a, b *Inventory) {
	for _, x := range []struct {
		key      string
		was, now any
	}{
		{"default_sliver_type", a.DefaultSliverType.Name, b.DefaultSliverType.Name},
		{"managers", a.Managers, b.Managers},
		{"unknown_image", a.UnknownImage, b.UnknownImage},
		{"exclusive_on_shared", a.ExclusiveOnShared, b.ExclusiveOnShared},
		{"cleaning_time", a.CleaningTime, b.CleaningTime},
		{"link_types", a.LinkTypes, b.LinkTypes},
		{"cross_links", a.CrossLinks, b.CrossLinks},
		{"packet_loss_unit", a.LossUnit, b.LossUnit},
		{"outbound", a.OutsideAccess, b.OutsideAccess},
		{"link_addresses", a.LinkAddresses, b.LinkAddresses},
	} {
		if was, now := fmt.Sprint(x.was), fmt.Sprint(x.now); was != now {
			d.add("the site", "", fmt.Sprintf("%s was %s and is %s", x.key, was, now))
		}
	}
	if !slices.Equal(a.HardwareTypes, b.HardwareTypes) {
		d.add("the site", "", "the list of hardware types has changed")
	}
	for _, x := range []struct {
		key      string
		was, now any
	}{{"monitoring", a.Monitoring, b.Monitoring}, {"software", a.Software, b.Software}, {"galaxy", a.Galaxy, b.Galaxy}, {"clouds", a.Clouds, b.Clouds}} {
		if !reflect.DeepEqual(x.was, x.now) {
			d.add("the site", "", x.key+" has changed")
		}
	}
	for _, name := range changedFiles(a, b) {
		d.add("the site", "", "the file "+name+" of the catalogue has changed")
	}
}

func isEqual[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

func typeName(t *SliverType) string { return t.Name }

func imageName(i *Image) string { return i.Name }

func linkName(i *Interface) string {
	if i.Link == nil {
		return ""
	}
	return i.Link.Name
}

func listText(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// amountText formats an amount: "4 slots, 8192 MiB of memory"; "without limit" for zero.
func amountText(a am.Amount) string {
	var parts []string
	for _, x := range []struct {
		n         int64
		one, many string
	}{{a.Slots, "slot", "slots"}, {a.Cores, "core", "cores"}, {a.GPUs, "GPU", "GPUs"}, {a.Memory, "MiB of memory", "MiB of memory"}, {a.Disk, "MiB of disk", "MiB of disk"}} {
		switch {
		case x.n == 1:
			parts = append(parts, "1 "+x.one)
		case x.n > 1:
			parts = append(parts, fmt.Sprint(x.n, " ", x.many))
		}
	}
	if len(parts) == 0 {
		return "without limit"
	}
	return strings.Join(parts, ", ")
}
