package binder

import (
	"cmp"
	"slices"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// resolve sets what n asks for: hardware type, exclusive use, component, sliver type and image. It refuses n if the
// site does not have these. A node that names no component gets none yet.
func (b *binding) resolve(n *node) {
	n.alone = n.Node.Exclusive != nil && *n.Node.Exclusive
	n.hardware = n.Node.HardwareType
	if x := b.Kept[n.Node.ClientID]; x != nil {
		b.resolveKept(n, x)
		return
	}
	if n.Node.ComponentID == "" {
		if n.Component = b.componentOfInterfaces(n); n.Component != nil {
			b.setTypeAndImage(n, n.Component)
		} else {
			b.setTypeAndImageUnbound(n)
		}
		return
	}
	u, err := urn.Parse(n.Node.ComponentID)
	if err != nil {
		b.refuseFor(n, "component_id", am.BadArgs, "its component_id is not a URN: %.200q%s", n.Node.ComponentID, b.suggestComponent(n.Node.ComponentID))
		return
	}
	c, ok := b.x.inv.Component(u)
	if !ok {
		b.refuseFor(n, "component_id", am.SearchFailed, "there is no component %s%s", u, b.suggestComponent(u.Name))
		return
	}
	n.Component = c
	b.setTypeAndImage(n, c)
}

// setTypeAndImage sets the sliver type and image of n, which is on c, or refuses n if c does not offer what n asks for.
func (b *binding) setTypeAndImage(n *node, c *inventory.Component) {
	t, ok := b.sliverTypeOf(n)
	if !ok {
		return
	}
	if n.Node.SliverType == "" && !c.Offers(t) {
		t = b.Permit.firstAllowed(c.SliverTypes)
	}
	switch {
	case b.chooseOption(n, t, c):
	case !c.Offers(t):
		b.refuseFor(n, "sliver_type", am.Unsupported, "%s does not offer %s; it offers %s", c.Name, t.Name, list(c.SliverTypes, typeName))
	case n.hardware != "" && !slices.Contains(c.HardwareTypes, n.hardware):
		b.refuseFor(n, "hardware_type", b.hardwareCode(n), "%s is not a %.80q, but %s", c.Name, n.hardware, list(c.HardwareTypes, identity))
	default:
		b.setSliverType(n, t)
	}
}

// setTypeAndImageUnbound does what setTypeAndImage does, for a node that may be on any component. If no component has
// the default type with the requested hardware type, the first type takes its place for which one does.
func (b *binding) setTypeAndImageUnbound(n *node) {
	t, ok := b.sliverTypeOf(n)
	if !ok || b.chooseOption(n, t, nil) {
		return
	}
	if !b.exists(classKey{sliverType: t, hardware: n.hardware}) && n.Node.SliverType == "" {
		for _, other := range b.x.inv.SliverTypes {
			if b.exists(classKey{sliverType: other, hardware: n.hardware}) && b.Permit.allowsType(other) {
				t = other
				break
			}
		}
	}
	switch {
	case b.exists(classKey{sliverType: t, hardware: n.hardware}):
		b.setSliverType(n, t)
	case !b.exists(classKey{sliverType: t}):
		b.refuseFor(n, "sliver_type", am.Unsupported, "no component offers %s; %s", t.Name, b.freeText(nil))
	default:
		b.refuseFor(n, "hardware_type", b.hardwareCode(n), "no component that offers %s is a %.80q%s", t.Name, n.hardware, b.hint(n.hardware, b.x.inv.HardwareTypes))
	}
}

// sliverTypeOf returns the site's default for a node that names no type, or a permitted
// type if the default is not permitted. It refuses a node whose type does not exist, and
// returns false.
func (b *binding) sliverTypeOf(n *node) (*inventory.SliverType, bool) {
	name := n.Node.SliverType
	if name == "" {
		t := b.x.inv.DefaultSliverType
		if !b.Permit.allowsType(t) {
			t = b.Permit.firstAllowed(b.x.inv.SliverTypes)
		}
		return t, true
	}
	var t *inventory.SliverType
	ok := false
	if len(name) <= maxTypeName {
		t, ok = b.x.inv.SliverType(name)
	}
	if !ok {
		names := make([]string, len(b.x.inv.SliverTypes))
		for i, t := range b.x.inv.SliverTypes {
			names[i] = t.Name
		}
		b.refuseFor(n, "sliver_type", am.SearchFailed, "there is no sliver type %.80q%s", name, b.hint(name, names))
	}
	return t, ok
}

// maxTypeName is the longest name of a sliver type that is compared with alias patterns.
const maxTypeName = 256

// hardwareCode returns the error code for a hardware type that is not offered as requested:
// Unsupported if other components have the type, else SearchFailed.
func (b *binding) hardwareCode(n *node) am.Code {
	if slices.Contains(b.x.inv.HardwareTypes, n.hardware) {
		return am.Unsupported
	}
	return am.SearchFailed
}

// setSliverType sets the sliver type of n to t, its image to the requested one or the default of t, and its matching.
// It refuses n if t is not permitted or does not have the requested image.
func (b *binding) setSliverType(n *node, t *inventory.SliverType) {
	if !b.Permit.allowsType(t) {
		b.refuseFor(n, "sliver_type", am.Refused, "%s is not available: %s", t.Name, b.Permit.NoSliverType)
		return
	}
	n.SliverType, n.Image = t, ""
	if t.DefaultImage != nil {
		n.Image = t.DefaultImage.Name
	}
	switch image, other, unknown := b.namedImage(n, t); {
	case image != nil:
		n.Image = image.Name
	case other != "":
		b.refuseFor(n, "disk_image", am.Unsupported, "disk image %.200q is not for %s; there are %s", other, t.Name, list(t.Images, imageName))
	case unknown != "" && b.x.inv.UnknownImage == inventory.Refuse:
		b.refuseFor(n, "disk_image", am.SearchFailed, "there is no disk image %.200q; for %s there are %s", unknown, t.Name, list(t.Images, imageName))
	}
	if !n.done {
		n.matching = b.matchingOf(n)
	}
}

// namedImage returns the image of type t that the node names. If there is none, it returns the name of an
// image that only other types have, or else a name that the site does not know; "" for none.
func (b *binding) namedImage(n *node, t *inventory.SliverType) (image *inventory.Image, other, unknown string) {
	for _, name := range [...]string{n.Node.DiskImage, n.Node.DiskImageURL} {
		if name == "" {
			continue
		}
		if i, ok := t.Image(name); ok {
			return i, "", ""
		}
		if _, ok := b.x.inv.Image(name); ok {
			return nil, name, ""
		}
		unknown = cmp.Or(unknown, name)
	}
	return nil, "", unknown
}
