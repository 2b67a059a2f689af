package binder

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/service/maintenance"
	"patchbay/inventory"
)

func (b *binding) refuse(n *node, c am.Code, format string, args ...any) {
	b.refuseFor(n, "", c, format, args...)
}

// refuseFor is refuse for an attribute or element of n. The parameter what names the
// attribute or element.
func (b *binding) refuseFor(n *node, what string, c am.Code, format string, args ...any) {
	n.done, n.refused = true, true
	b.reasons = append(b.reasons, Reason{Kind: "node", ClientID: n.Node.ClientID, Line: n.Node.Line, Code: c, What: what, Text: fmt.Sprintf(format, args...)})
}

func (b *binding) refuseLink(w *wire, c am.Code, format string, args ...any) {
	b.refuseLinkFor(w, "", c, format, args...)
}

func (b *binding) refuseLinkFor(w *wire, what string, c am.Code, format string, args ...any) {
	w.failed = true
	b.reasons = append(b.reasons, Reason{Kind: "link", ClientID: w.ClientID, Line: w.Line, Code: c, What: what, Text: fmt.Sprintf(format, args...)})
}

// refuseShort refuses w because of s: the text names the direction in which capacity is missing, and what is left.
func (b *binding) refuseShort(w *wire, s *shortage) {
	way, asked, left := "out of", s.out, s.left.out
	if s.out <= left {
		way, asked, left = "into", s.in, s.left.in
	}
	room, remedy := fmt.Sprintf("which has %d of %d left", left, s.port.Capacity), fmt.Sprintf("ask for at most %d, or leave capacity out", left)
	switch {
	case left <= 0:
		room, remedy = fmt.Sprintf("which has nothing left of %d", s.port.Capacity), "leave capacity out"
	case left == s.port.Capacity:
		room = fmt.Sprintf("which carries %d", left)
	}
	if b.nodes[s.end.node].Asked {
		remedy += ", or take another component"
	}
	b.refuseLinkFor(w, bandwidth, am.TooBig, "its interface %.80q asks for %d kbit/s %s %s of %s%s, %s; %s",
		b.clientID(s.end), asked, way, s.port.Name, s.port.Component.Name, linkSuffix(s.port), room, remedy)
}

func linkSuffix(p *inventory.Interface) string {
	if p.Link == nil {
		return ""
	}
	return " (" + p.Link.Name + ")"
}

// refuseUnjoined refuses w because no physical link joins its nodes. The text lists the links of at most
// four nodes, and as an example the components on one link: the first that w allows, or else that a node has.
func (b *binding) refuseUnjoined(w *wire) {
	var where []string
	var example *inventory.Link // set below, since each wired node is on a link
	seen := map[int]bool{}      // nodes in where; a node with requested interfaces may be listed again
	for _, e := range w.ends {
		n := &b.nodes[e.node]
		if !n.Component.IsWired() || seen[e.node] {
			continue
		}
		seen[e.node] = b.portAsked(e) == nil
		var links []string
		for i, p := range n.Component.Interfaces {
			if asked := b.portAsked(e); p.CarriesLinks() && !onLink(n.Component.Interfaces[:i], p.Link) && (asked == nil || asked.Link == p.Link) {
				links = append(links, p.Link.Name)
				if example == nil {
					example = p.Link
				}
			}
		}
		if len(where) == 4 {
			where = append(where, "…")
			break
		}
		where = append(where, fmt.Sprintf("node %.80q is on %s (%s)", n.Node.ClientID, n.Component.Name, list(links, identity)))
	}
	if len(w.only) > 0 {
		example = w.only[0]
	}
	var others []string
	for _, p := range example.Interfaces[:min(len(example.Interfaces), maxSearched)] {
		if len(others) <= 10 && p.CarriesLinks() && !slices.Contains(others, p.Component.Name) {
			others = append(others, p.Component.Name)
		}
	}
	if len(w.only) > 0 {
		b.refuseLink(w, am.Unsupported, "no physical link that it allows (%s) joins its nodes: %s; take components that are on one, such as %s", list(w.only, linkName), strings.Join(where, ", "), list(others, identity))
		return
	}
	b.refuseLink(w, am.Unsupported, "no physical link joins its nodes: %s; take components that are on one, such as %s, which joins %s", strings.Join(where, ", "), example.Name, list(others, identity))
}

func (b *binding) clientID(e end) string { return b.nodes[e.node].Interfaces[e.number].ClientID }

func linkedInterfaces(c *inventory.Component) (all []*inventory.Interface) {
	for _, p := range c.Interfaces {
		if p.CarriesLinks() {
			all = append(all, p)
		}
	}
	return all
}

// refuseNamed refuses n, which names c, because of the verdict v.
func (b *binding) refuseNamed(n *node, c *inventory.Component, v verdict) {
	const id = "component_id"
	switch v {
	case drained:
		b.refuseFor(n, id, am.TooBig, "%s is out of service; %s", c.Name, b.freeText(n.SliverType))
	case maintained:
		b.refuseMaintained(n, c.Name, b.x.maintenanceOf(int32(c.Index)), "take another component")
	case held:
		b.refuseFor(n, id, am.TooBig, "%s is held; %s", c.Name, b.freeText(n.SliverType))
	case closed:
		b.refuseFor(n, id, am.TooBig, `another slice has the whole of %s by exclusive="true"; try again when that slice has ended, or take another component; %s`, c.Name, b.freeText(n.SliverType))
	case full:
		left := am.Fits(c.Capacity, b.x.usage[c.Index].used, n.amountOn(c), atEnd)
		b.refuseFor(n, id, am.TooBig, "%s has room for %d %s, fewer than the request asks for; %s", c.Name, left, n.SliverType.Name, b.freeText(n.SliverType))
	case cleaning:
		b.refuseFor(n, id, am.Busy, "%s is being cleaned after its last use, which usually takes up to %s; try again then", c.Name, b.x.inv.Cleaning(c))
	case taken:
		b.refuseFor(n, id, am.BadArgs, "%s is exclusive, and another node of the request is on it; place only one node there", c.Name)
	case occupied:
		b.refuseFor(n, exclusive, am.Refused, `exclusive="true" needs %s empty, and other slices use it; drop exclusive="true" to share it, or take another component; %s`, c.Name, b.freeText(n.SliverType))
	case refused:
		b.refuseFor(n, exclusive, am.Refused, `%s is shared, and no slice can have it alone; drop exclusive="true" to share it`, c.Name)
	}
}

// exclusive is the attribute of a node that asks for a whole component.
const exclusive = "exclusive"

// refuseMaintained refuses n because of the maintenance w. The parameter remedy says what
// the user can do instead.
func (b *binding) refuseMaintained(n *node, components string, w *maintenance.Window, remedy string) {
	b.refuse(n, am.Unavailable, "%s is under maintenance until %s: %s; %s, or try again then", components, w.Until.Format(time.RFC3339), w.Text, remedy)
}

// classMaintenance returns the maintenance of a class: that of the first member that is under
// maintenance and not drained. It returns nil if a member is in service, or if there is no
// such member.
func (b *binding) classMaintenance(c *class) *maintenance.Window {
	if c.serving > 0 || c.maintained == 0 {
		return nil
	}
	for _, i := range c.members {
		if w := b.x.maintenanceOf(i); w != nil && !b.x.drained(i) {
			return w
		}
	}
	return nil
}

// refuseWithoutSearch refuses n and returns true in a try, whose reasons are not shown, and after too much work.
func (b *binding) refuseWithoutSearch(n *node) bool {
	switch {
	case n.within != nil:
		b.refuse(n, am.TooBig, "there is no room on %s", n.within.Name)
	case b.work.isOver():
		b.refuse(n, am.TooBig, "%s", b.workText())
	default:
		return false
	}
	return true
}

// refuseUnbound refuses n, for which no component is left. Equal nodes get the same reason, which is searched for once.
func (b *binding) refuseUnbound(n *node) {
	if b.refuseWithoutSearch(n) {
		return
	}
	k := n.class()
	if b.classes[k] == nil && len(b.classes) > maxClasses {
		b.refuse(n, am.TooBig, "no %s that satisfies it is free", n.SliverType.Name)
		return
	}
	b.refuseOnce(n, explainedKey{k, n.alone, "unbound"}, func() { b.explainUnbound(n, k) })
}

// explainedKey is equal for nodes that are refused for the same reason.
type explainedKey struct {
	classKey
	alone bool
	what  string // the function that finds the reason
}

// refuseOnce refuses n by explain, or with the reason that explain has found for an equal node.
func (b *binding) refuseOnce(n *node, k explainedKey, explain func()) {
	r, known := b.explained[k]
	if !known {
		explain()
		b.explained[k] = b.reasons[len(b.reasons)-1]
		return
	}
	b.refuseFor(n, r.What, r.Code, "%s", r.Text)
}

// explainUnbound refuses n, for which no component of the class k is left. Of the reasons that apply, it
// gives the first: a property of the site, then what other slices hold, then what the request itself takes.
func (b *binding) explainUnbound(n *node, k classKey) {
	c := b.class(k)
	if len(c.members) == 0 {
		b.refuseUnmatched(n)
		return
	}
	what := n.SliverType.Name
	if n.hardware != "" {
		what += " on " + n.hardware
	}
	alternatives := b.freeText(n.SliverType)
	if n.hardware == "" {
		alternatives = b.freeText(nil)
	}
	alternatives = c.outText() + b.removals(n) + alternatives
	withoutDisks := k
	withoutDisks.disks = 0
	switch window, closed := b.classMaintenance(c), b.closedIn(k); {
	case window != nil:
		b.refuseMaintained(n, "every "+what, window, b.freeText(n.SliverType))
	case c.serving == 0:
		b.refuse(n, am.TooBig, "no %s is in service; %s", what, alternatives)
	case n.alone && c.exclusive == 0 && b.x.inv.ExclusiveOnShared == inventory.Refuse:
		b.refuseFor(n, exclusive, am.Refused, `components with %s are shared, and no slice can have one alone; drop exclusive="true" to share one`, what)
	case c.slots == 0 && k.disks > 0 && b.class(withoutDisks).slots > 0:
		b.refuse(n, am.TooBig, "its disks have %d MiB, and no component with %s has that much left; ask for smaller disks; %s", k.disks, what, alternatives)
	case c.slots == 0 && len(closed) > 0 && len(closed)+c.cleaning == c.serving:
		b.refuse(n, am.TooBig, `no %s is free: other slices have the whole of %s by exclusive="true"; try again when they have ended; %s`, what, list(closed, identity), alternatives)
	case c.slots == 0 && len(closed) > 0:
		b.refuse(n, am.TooBig, `no %s is free: %d of %d are held, %d of these whole by exclusive="true" of other slices; %s`, what, c.serving-c.cleaning, c.serving, len(closed), alternatives)
	case c.slots == 0 && c.cleaning > 0:
		b.refuse(n, am.TooBig, "no %s is free: %d of %d are held and %d being cleaned; %s", what, c.serving-c.cleaning, c.serving, c.cleaning, alternatives)
	case c.slots == 0:
		b.refuse(n, am.TooBig, "no %s is free: %d of %d are held; %s", what, c.serving, c.serving, alternatives)
	case n.alone && c.exclusive < len(c.members):
		code := am.TooBig
		if c.exclusive == 0 {
			code = am.Refused
		}
		b.refuseFor(n, exclusive, code, `exclusive="true" needs an empty host, and all have other users; drop exclusive="true" to share one; %s`, b.freeText(n.SliverType))
	default:
		text := fmt.Sprintf("%s requested, %d free", display.Count(b.requested(n), n.SliverType.Name)+strings.TrimPrefix(what, n.SliverType.Name), c.slots) + b.limitOf(k)
		text += strings.TrimSuffix("; "+c.outText()+b.removals(n), "; ")
		if free := b.otherTypesText(n.SliverType); free != "" {
			text += "; " + free
		}
		b.refuse(n, am.TooBig, "%s", text)
	}
}

// outText says how many further members are not in service, if some are; otherwise it is "".
func (c *class) outText() (text string) {
	if c.maintained > 0 {
		text = fmt.Sprintf("%d more under maintenance; ", c.maintained)
	}
	if drained := len(c.members) - c.serving - c.maintained; drained > 0 && c.serving > 0 {
		text += fmt.Sprintf("%d more out of service; ", drained)
	}
	return text
}

func (b *binding) requested(n *node) (all int) {
	for i := range b.nodes {
		if o := &b.nodes[i]; o.SliverType == n.SliverType && o.hardware == n.hardware && o.matching == n.matching {
			all++
		}
	}
	return all
}

// closedIn returns the names of the shared components of the class of k that other slices hold exclusively.
func (b *binding) closedIn(k classKey) []string {
	all, known := b.closed[k]
	if known {
		return all
	}
	for _, i := range b.class(k).members {
		if !b.x.inv.Components[i].Exclusive && b.x.usage[i].othersExclusive > 0 {
			all = append(all, b.x.inv.Components[i].Name)
		}
	}
	if b.closed == nil {
		b.closed = map[classKey][]string{}
	}
	b.closed[k] = all
	return all
}

// limitOf returns a text about the resource that limits how many slivers of a class fit. It
// returns "" if the slots are the limit, if no single resource is the limit, or if the class
// is too large to check.
func (b *binding) limitOf(k classKey) string {
	c := b.class(k)
	if len(c.members) > maxSearched {
		return ""
	}
	need := k.needs(b.x.inv.Components[c.members[0]])
	fits := func(need am.Amount) (sum int64) {
		for _, i := range c.members {
			if !b.x.drained(i) && b.x.maintenanceOf(i) == nil {
				sum += am.Fits(b.x.inv.Components[i].Capacity, b.x.usage[i].used, need, atEnd)
			}
		}
		return sum
	}
	if fits(am.Amount{Slots: need.Slots}) <= int64(c.slots) {
		return ""
	}
	for _, x := range []struct {
		need am.Amount
		what string
	}{
		{am.Amount{Disk: need.Disk}, fmt.Sprintf("disk is the limit, %d MiB for each", need.Disk)},
		{am.Amount{Memory: need.Memory}, fmt.Sprintf("memory is the limit, %d MiB for each", need.Memory)},
		{am.Amount{Cores: need.Cores}, fmt.Sprintf("cores are the limit, %d for each", need.Cores)},
	} {
		if x.need != (am.Amount{}) && fits(x.need) == int64(c.slots) {
			return " (" + x.what + ")"
		}
	}
	return ""
}

// refuseGroup refuses n of the group called name, for whose size nodes together no host has room.
func (b *binding) refuseGroup(n *node, name string, size int) {
	if b.refuseWithoutSearch(n) {
		return
	}
	c := b.class(n.class())
	if len(c.members) == 0 {
		b.refuseUnmatched(n)
		return
	}
	if window := b.classMaintenance(c); window != nil {
		b.refuseMaintained(n, "every "+n.SliverType.Name, window, b.freeText(n.SliverType))
		return
	}
	if c.exclusive == len(c.members) {
		b.refuse(n, am.Unsupported, "%s is exclusive, so %d nodes cannot share one by colocate %.80q; drop colocate", n.SliverType.Name, size, name)
		return
	}
	b.refuse(n, am.TooBig, "no host has room for the %d nodes of colocate %.80q; %s", size, name, b.freeText(n.SliverType))
}

// freeText describes how many slivers were free before the request. The type leading comes
// first; nil stands for no type.
func (b *binding) freeText(leading *inventory.SliverType) string {
	text, ok := b.freeTexts[leading]
	if !ok {
		if text = b.typesText(leading, b.x.inv.SliverTypes...); text == "" {
			text = "nothing else is free"
		}
		b.freeTexts[leading] = text
	}
	return text
}

// otherTypesText describes how many slivers of types other than t were free before the request; "" for none.
func (b *binding) otherTypesText(t *inventory.SliverType) string {
	others := slices.DeleteFunc(slices.Clone(b.x.inv.SliverTypes), func(o *inventory.SliverType) bool { return o == t })
	return b.typesText(nil, others...)
}

// typesText names at most three of the types with slivers that were free before the request, leading first. It
// returns "" if there are none. leading may be nil.
func (b *binding) typesText(leading *inventory.SliverType, others ...*inventory.SliverType) string {
	var all []string
	add := func(t *inventory.SliverType) {
		if c := b.class(classKey{sliverType: t}); c.slots > 0 && len(all) < 3 {
			all = append(all, display.Count(c.slots, t.Name))
		}
	}
	if leading != nil {
		add(leading)
	}
	for _, t := range others {
		if t != leading {
			add(t)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, ", ") + " free"
}

// maxClasses limits for how many classes of components a request learns in detail why none is free.
// All commits wait meanwhile.
const maxClasses = 100

// maxSearched limits how many known names are compared with a wrong name. maxSearches limits
// how many wrong names of a request are compared. All commits wait during the comparison.
const (
	maxSearched = 100
	maxSearches = 5
)

func (b *binding) hint(name string, known []string) string {
	if near := b.suggestName(name, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; there are " + list(known, identity)
}

func (b *binding) suggestComponent(name string) string {
	c, ok := b.x.inv.ComponentNamed(name)
	if !ok {
		names := make([]string, 0, maxSearched)
		for _, c := range b.x.inv.Components[:min(len(b.x.inv.Components), maxSearched)] {
			names = append(names, c.Name)
		}
		c, ok = b.x.inv.ComponentNamed(b.suggestName(name, names))
	}
	if !ok {
		return "; the advertisement lists all components"
	}
	return fmt.Sprintf("; did you mean %s?", c.URN)
}

// suggestName returns "" if no known name is close, or after too many searches in one
// request.
func (b *binding) suggestName(name string, known []string) string {
	if b.searches++; b.searches > maxSearches || len(name) > 64 {
		return ""
	}
	return display.Suggest(name, known[:min(len(known), maxSearched)])
}

// list joins at most ten names to a text.
func list[T any](all []T, name func(T) string) string {
	if len(all) == 0 {
		return "none"
	}
	var names []string
	for i, x := range all {
		if i == 10 {
			names = append(names, "…")
			break
		}
		names = append(names, name(x))
	}
	return strings.Join(names, ", ")
}

func linkName(l *inventory.Link) string       { return l.Name }
func identity(s string) string                { return s }
func typeName(t *inventory.SliverType) string { return t.Name }
func imageName(i *inventory.Image) string     { return i.Name }
