package binder

import (
	"slices"
	"strings"

	"patchbay/inventory"
)

// option is a sliver type with an image that a node with constraints may get.
type option struct {
	sliverType *inventory.SliverType
	image      string // empty if the type has none
	matching   *matching
}

// listKey is equal for nodes with the same listed options.
type listKey struct {
	constraints, sliverType, image, url string
	first                               *inventory.SliverType
}

// optionsKey is equal for nodes that have the same options, in the same order.
type optionsKey struct {
	listKey
	hardware  string
	component *inventory.Component // nil for any
	disks     int64
	alone     bool
}

// chooseOption gives a node with constraints its sliver type and image: the first option that a component
// in service satisfies and for which one is free. If the node has preferences, the option that satisfies
// most comes first. If none is free, the first option decides how the node is refused. c is the
// component of the node; nil if it names none. first is the type that comes first. chooseOption returns
// true if it has chosen an option or refused the node. Else the node has no constraints, no option satisfies
// them, or its sliver exists and keeps what it has, and the caller must set type and image.
func (b *binding) chooseOption(n *node, first *inventory.SliverType, c *inventory.Component) bool {
	if n.Node.Match == nil || b.Kept[n.Node.ClientID] != nil {
		return false
	}
	listed := listKey{b.textOf(n.Node), n.Node.SliverType, n.Node.DiskImage, n.Node.DiskImageURL, first}
	key := optionsKey{listed, n.hardware, c, n.disks, n.alone}
	options, known := b.options[key]
	if !known {
		options = b.optionsFor(n, listed, c)
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
// free one that satisfies most. It returns 0 if none is free. The node then has another option than the best
// one, so the caller must give it that.
func (b *binding) bestOf(n *node, options []option, c *inventory.Component) (best int) {
	score := -1
	for i, o := range options {
		if o.matching.best <= score {
			continue
		}
		if n.use(o); !b.isFree(n, c) {
			continue
		}
		if s := b.scoreOf(n, c); s > score {
			best, score = i, s
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

// optionsFor returns the options of a node that are listed and that a permitted component in service
// satisfies; if c is not nil, that c satisfies. It leaves out types that are not permitted.
func (b *binding) optionsFor(n *node, key listKey, c *inventory.Component) (options []option) {
	listed, known := b.listed[key]
	if !known {
		listed = b.listOptions(n, key.first)
		b.listed[key] = listed
	}
	for _, o := range listed {
		k := classKey{sliverType: o.sliverType, hardware: n.hardware, matching: o.matching}
		if b.Permit.allowsType(o.sliverType) && (c != nil && k.has(c) || c == nil && b.serves(k)) {
			options = append(options, o)
		}
	}
	return options
}

// listOptions returns the options whose constraints a component satisfies, in this order: those of the
// first type, then, if the node names no type, those of the other types in the order of the inventory. The
// default image of a type comes before its others. Of images that fit on the same components, only
// the first is an option. After too much work, it returns those that it has found.
func (b *binding) listOptions(n *node, first *inventory.SliverType) (options []option) {
	types := []*inventory.SliverType{first}
	if n.Node.SliverType == "" {
		types = append(types, b.x.inv.SliverTypes...)
	}
	wishes := slices.Clone(n.Node.Require)
	for _, p := range n.Node.Prefer {
		wishes = append(wishes, p.Constraints...)
	}
	for i, t := range types {
		if i > 0 && t == first || !b.exists(classKey{sliverType: t}) {
			continue
		}
		tried := map[string]bool{}
		for k, name := range b.imagesFor(n, t) {
			if !b.work.add(verdictWork * len(wishes)) {
				return options
			}
			image, _ := t.Image(name)
			verdicts := t.Verdicts(image, wishes)
			if isExcluded := strings.Contains(verdicts[:len(n.Node.Require)], "n"); isExcluded || tried[verdicts] {
				continue
			}
			tried[verdicts] = true
			if isFirst := t == first && k == 0; !isFirst && !b.mayCompare(n.Node) {
				return options
			}
			o := option{sliverType: t, image: name}
			n.use(o)
			if o.matching = b.matchingOf(n); o.matching == nil { // n is refused
				return nil
			}
			if o.matching.best >= 0 {
				options = append(options, o)
			}
		}
	}
	return options
}

// verdictWork is the work of comparing one constraint with one image.
const verdictWork = 8

// imagesFor returns the images of type t that the node may get: the one that it names, or all of
// them, the default image first. It returns none if the type does not have the named one.
func (b *binding) imagesFor(n *node, t *inventory.SliverType) (names []string) {
	image, other, unknown := b.namedImage(n, t)
	if image != nil {
		return []string{image.Name}
	}
	if other != "" || unknown != "" && b.x.inv.UnknownImage == inventory.Refuse {
		return nil
	}
	names = []string{""}
	if t.DefaultImage != nil {
		names[0] = t.DefaultImage.Name
	}
	if unknown != "" { // the site gives the default image instead
		return names
	}
	for _, i := range t.Images {
		if i != t.DefaultImage {
			names = append(names, i.Name)
		}
	}
	return names
}

// serves reports whether a permitted component of the class is in service.
func (b *binding) serves(k classKey) bool {
	i := slices.IndexFunc(b.x.inv.Components, func(c *inventory.Component) bool {
		return k.has(c) && b.x.serves(int32(c.Index)) && b.Permit.allowsComponent(int32(c.Index))
	})
	if i < 0 {
		b.work.add(len(b.x.inv.Components))
		return false
	}
	b.work.add(i)
	return true
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
