package generate

import (
	"strings"

	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/match"
)

// matchSteps is the work of comparing constraints with a component, without the work for
// each constraint.
const matchSteps = 20

// Want has what the source says about the sliver type and the image of a node. The aggregate chooses
// them.
type Want struct {
	// SliverType is the type that the source names; empty for any.
	SliverType string
	// Images are names, URNs or URLs of images, of which the first known one counts.
	Images []string
	// Require are the constraints of the node, with those on the image.
	Require []match.Constraint
}

// SoftwareFeature returns the feature by which images list a program.
func SoftwareFeature(program string) string { return "software." + strings.ToLower(program) }

// Image returns the name of the first image that the site knows, and the image. If it knows none,
// the name is the first one. site may be nil.
func (w Want) Image(site *inventory.Inventory) (string, *inventory.Image) {
	if len(w.Images) == 0 {
		return "", nil
	}
	if site != nil {
		for _, name := range w.Images {
			if i, ok := site.Image(name); ok {
				return i.Name, i
			}
		}
	}
	return w.Images[0], nil
}

// TypeAt returns the first sliver type that satisfies w on some component of the site, whether or not the
// component is free: the default type, or another one in the order of the inventory. It returns nil if
// there is none.
func (w Want) TypeAt(site *inventory.Inventory, work *rspec.Work) *inventory.SliverType {
	types := append([]*inventory.SliverType{site.DefaultSliverType}, site.SliverTypes...)
	if w.SliverType != "" {
		t, ok := site.SliverType(w.SliverType)
		if !ok {
			return nil
		}
		types = []*inventory.SliverType{t}
	}
	requirements, err := match.New(w.Require, nil)
	if err != nil {
		return nil
	}
	for i, t := range types {
		if i > 0 && t == site.DefaultSliverType {
			continue
		}
		tried := map[string]bool{} // verdicts; images with the same ones fit on the same components
		for _, image := range w.imagesOf(site, t) {
			work.Spend(matchSteps * len(w.Require))
			verdicts := t.Verdicts(image, w.Require)
			if tried[verdicts] || strings.Contains(verdicts, "n") {
				continue
			}
			tried[verdicts] = true
			for _, c := range site.Components {
				if !work.Spend(1) {
					return nil
				}
				if !c.Offers(t) {
					continue
				}
				work.Spend(matchSteps + len(w.Require))
				if _, ok := requirements.Match(inventory.CapabilitiesOf(c, t, image)); ok {
					return t
				}
			}
		}
	}
	return nil
}

// imagesOf returns the images of type t that suit w. It returns none if the type does not have the named
// image, and one nil if the type has no images.
func (w Want) imagesOf(site *inventory.Inventory, t *inventory.SliverType) []*inventory.Image {
	switch _, image := w.Image(site); {
	case image != nil:
		if own, ok := t.Image(image.Name); ok {
			return []*inventory.Image{own}
		}
		return nil
	case len(w.Images) > 0 || len(t.Images) == 0:
		return []*inventory.Image{t.DefaultImage}
	}
	return t.Images
}
