package binder

import (
	"slices"
	"strings"

	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/match"
)

// option is a sliver type with an image that a node with constraints may get.
type option struct {
	sliverType *inventory.SliverType
	image      string // empty if the type has none
	matching   *matching
}

// optionsKey is equal for nodes that have the same options, in the same order.
type optionsKey struct {
	constraints, sliverType, image, url, hardware string
	component                                     *inventory.Component // nil for any
	disks                                         int64
	alone                                         bool
}

// chooseOption gives a node with constraints its sliver type and image: the first option that a component
// in service satisfies and for which one is free. If the node has preferences, the option that satisfies
// most comes first. If none is free, the first option decides how the node is refused. c is the
// component of the node; nil if it names none. first is the type that comes first. chooseOption returns
// false if the node has no constraints, or if no option satisfies them. Slivers that exist keep what they
// have.
func (b *binding) chooseOption(n *node, first *inventory.SliverType, c *inventory.Component) bool {
	if n.Node.Match == nil || b.Kept[n.Node.ClientID] != nil {
		return false
	}
	key := optionsKey{b.textOf(n.Node), n.Node.SliverType, n.Node.DiskImage, n.Node.DiskImageURL, n.hardware, c, n.disks, n.alone}
	options, known := b.options[key]
	if !known {
		options = b.optionsFor(n, first, c)
		if len(options) > 0 {
			best := b.bestOf(n, options, c)
			options = slices.Concat(options[best:best+1], options[:best], options[best+1:])
		}
		b.options[key] = options
	}
	if len(options) == 0 {
		n.use(option{})
		return n.done // refused
	}
	n.options = options
	n.use(options[0])
	return true
}

// bestOf returns the index of the first option that is free. If the node has preferences, it is the
// free one that satisfies most. It returns 0 if none is free.
func (b *binding) bestOf(n *node, options []option, c *inventory.Component) (best int) {
	score := -1
	for i, o := range options {
		if n.use(o); !b.isFree(n, c) {
			continue
		}
		if s := b.scoreOf(n, c); s > score {
			best, score = i, s
		}
		if len(n.Node.Prefer) == 0 {
			break
		}
	}
	return best
}

// isFree reports whether the node fits on c; on any component if c is nil.
func (b *binding) isFree(n *node, c *inventory.Component) bool {
	if c == nil {
		return len(b.candidatesOf(n).runs) > 0
	}
	return b.check(int32(c.Index), n.want(c)) == fits
}

// scoreOf returns the score of the node's preferences on c, or on its best candidate if c is nil.
func (b *binding) scoreOf(n *node, c *inventory.Component) int {
	if c == nil {
		c = b.x.inv.Components[b.candidatesOf(n).runs[0][0]]
	}
	return n.matching.of(c).grant.Score
}

func (n *node) option() option { return option{n.SliverType, n.Image, n.matching} }

// use gives the node an option.
func (n *node) use(o option) { n.SliverType, n.Image, n.matching = o.sliverType, o.image, o.matching }

// optionsFor returns the options of a node in this order: those of the first type, then, if the node
// names no type, those of the other types in the order of the inventory. The default image of a type comes
// before its others. It leaves out options whose type is not permitted, and those whose constraints
// no permitted component in service satisfies.
func (b *binding) optionsFor(n *node, first *inventory.SliverType, c *inventory.Component) (options []option) {
	types := []*inventory.SliverType{first}
	if n.Node.SliverType == "" {
		types = append(types, b.x.inv.SliverTypes...)
	}
	for i, t := range types {
		if i > 0 && t == first || !b.Permit.sliverType(t) {
			continue
		}
		if k := (classKey{sliverType: t, hardware: n.hardware}); c != nil && !k.has(c) || c == nil && !b.exists(k) {
			continue
		}
		seen := map[string]bool{}
		for k, image := range b.imagesFor(n, t) {
			text, ok := imageText(n.Node, t, image)
			if !ok || seen[text] {
				continue
			}
			seen[text] = true
			if isFirst := t == first && k == 0; !isFirst && !b.mayCompare(n.Node) || b.work.isOver() {
				return options
			}
			o := option{sliverType: t, image: image}
			n.use(o)
			if o.matching = b.matchingOf(n); o.matching == nil { // n is refused
				return nil
			}
			if k := (classKey{sliverType: t, hardware: n.hardware, matching: o.matching}); c != nil && k.has(c) || c == nil && b.serves(k) {
				options = append(options, o)
			}
		}
	}
	return options
}

// imageText is equal for images of type t that satisfy the constraints of n on the same components, and
// the same preferences there. ok is false if no component satisfies the constraints with this image.
func imageText(n *rspec.Node, t *inventory.SliverType, name string) (text string, ok bool) {
	i, known := t.Image(name)
	if !known {
		return "", true
	}
	var b strings.Builder
	for _, x := range n.Require {
		verdict := judge(i, t, x)
		if verdict == 'n' {
			return "", false
		}
		b.WriteByte(verdict)
	}
	for _, p := range n.Prefer {
		for _, x := range p.Constraints {
			b.WriteByte(judge(i, t, x))
		}
	}
	return b.String(), true
}

// judge returns 'y' if the image alone decides that nodes of type t satisfy a constraint, 'n' if it decides
// that they do not, and else '?'.
func judge(i *inventory.Image, t *inventory.SliverType, x match.Constraint) byte {
	offer, isOfImage := i.Capabilities[x.Feature]
	_, isOfType := t.Capabilities[x.Feature]
	r, err := match.New([]match.Constraint{x}, nil)
	if !isOfImage || isOfType || err != nil {
		return '?'
	}
	if _, ok := r.Match(func(string) (match.Capability, bool) { return offer, true }); !ok {
		return 'n'
	}
	return 'y'
}

// imagesFor returns the images of type t that the node may get: the one that it names, or all of
// them, the default image first. It returns none if the type does not have the named one.
func (b *binding) imagesFor(n *node, t *inventory.SliverType) (names []string) {
	for _, name := range [...]string{n.Node.DiskImage, n.Node.DiskImageURL} {
		if i, ok := t.Image(name); ok && name != "" {
			return []string{i.Name}
		}
	}
	byDefault := ""
	if t.DefaultImage != nil {
		byDefault = t.DefaultImage.Name
	}
	names = []string{byDefault}
	for _, name := range [...]string{n.Node.DiskImage, n.Node.DiskImageURL} {
		if _, ok := b.x.inv.Image(name); name != "" && (ok || b.x.inv.UnknownImage == inventory.Refuse) {
			return nil
		}
	}
	if n.Node.DiskImage != "" || n.Node.DiskImageURL != "" {
		return names // instead of one that the site does not know
	}
	for _, i := range t.Images {
		if i != t.DefaultImage {
			names = append(names, i.Name)
		}
	}
	return names
}

// serves reports whether a permitted component of the class, which has a matching, is in service.
func (b *binding) serves(k classKey) bool {
	if !slices.ContainsFunc(k.matching.grades, func(g *grade) bool { return g.ok }) {
		return false
	}
	i := slices.IndexFunc(b.x.inv.Components, func(c *inventory.Component) bool {
		return k.has(c) && b.x.serves(int32(c.Index)) && b.Permit.component(int32(c.Index))
	})
	b.work.add(max(i, 0))
	return i >= 0
}

// placeOther puts a node on a component of one of its later options. If there is none, the node
// keeps its option.
func (p *placement) placeOther(n *node) bool {
	if len(n.options) == 0 {
		return false
	}
	for rest := n.options[1:]; len(rest) > 0; rest = rest[1:] {
		n.use(rest[0])
		if p.move(n, map[int32]bool{}) {
			n.options = rest
			return true
		}
	}
	n.use(n.options[0])
	return false
}
