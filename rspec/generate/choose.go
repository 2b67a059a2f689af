package generate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/match"
)

// matchSteps is the work of comparing constraints with an image or a component, without the work for
// each constraint.
const matchSteps = 20

// Want has the requirements of a node for its sliver type and image.
type Want struct {
	// SliverType is the type that the source names; empty for any.
	SliverType string
	// Images are names, URNs or URLs of images, of which the first known one counts.
	Images []string
	// Require are the constraints of the node, with those on the image.
	Require []match.Constraint
	// Allows reports whether an image may be chosen; nil for every image.
	Allows func(image string) bool
	// Software are names of programs that the image should have if there is a choice, such as
	// ansible.
	Software []string
	// Work bounds the search; nil for no limit.
	Work *rspec.Work
}

// Choice is the sliver type and the image of a node.
type Choice struct {
	// SliverType and DiskImage are empty if the aggregate may choose.
	SliverType, DiskImage string
	// Image is the site's image with the name DiskImage; nil if it is unknown.
	Image *inventory.Image
	// Require are the constraints that DiskImage does not satisfy by itself.
	Require  []match.Constraint
	Comments []string
}

// SoftwareFeature returns the feature by which images list a program.
func SoftwareFeature(program string) string { return "software." + strings.ToLower(program) }

// isOfImage reports whether only images have the feature.
func isOfImage(feature string) bool {
	return feature == "image_type" || strings.HasPrefix(feature, "disk.0.os.") || strings.HasPrefix(feature, "software.")
}

// Choose chooses the type and image for a node at a site. If the source names no type, it is the
// first type whose image fits and that a component offers with the required features. If the
// source names no image, but constrains it, the image is the one of that type that satisfies the
// constraints with the highest version. What does not fit is left to the aggregate, which
// explains it. site may be nil.
func Choose(site *inventory.Inventory, w Want) Choice {
	c := Choice{SliverType: w.SliverType, Require: w.Require}
	if site == nil {
		if len(w.Images) > 0 {
			c.DiskImage = w.Images[0]
		}
		return c
	}
	types := site.SliverTypes
	if t, ok := site.SliverType(w.SliverType); ok && w.SliverType != "" {
		types = []*inventory.SliverType{t}
	} else if w.SliverType != "" {
		c.Comments = append(c.Comments, fmt.Sprintf("sliver type %s: the site does not list it", w.SliverType))
		types = nil
	}
	if named := w.known(site); named != nil {
		c.DiskImage, c.Image = named.Name, named
		c.Comments = append(c.Comments, fmt.Sprintf("image %s: the source names it", named.Name))
	} else if len(w.Images) > 0 {
		c.DiskImage = w.Images[0]
		c.Comments = append(c.Comments, fmt.Sprintf("image %s: the site does not have it; the site decides whether to use its default image", w.Images[0]))
	}
	for _, t := range types {
		image, isChosen := w.imageOf(t, &c)
		if image == nil && w.excludes(t.DefaultImage) && len(w.Images) == 0 || !w.fits(site, t, image) {
			continue
		}
		if isChosen {
			c.DiskImage, c.Image = image.Name, image
			c.Require = slices.DeleteFunc(slices.Clone(c.Require), func(r match.Constraint) bool { return isOfImage(r.Feature) })
			c.Comments = append(c.Comments, fmt.Sprintf("image %s: the newest of %s that satisfies %s", image.Name, t.Name, w.reason()))
		}
		if w.SliverType == "" && (t != site.DefaultSliverType || c.DiskImage != "") {
			c.SliverType = t.Name
			c.Comments = append(c.Comments, fmt.Sprintf("sliver type %s: the first that satisfies the constraints", t.Name))
		}
		return c
	}
	if w.SliverType == "" && len(types) > 0 {
		text := "sliver type: no type of the site satisfies the constraints; the site explains that"
		if w.Allows != nil {
			text = "sliver type: no type of the site with an allowed image satisfies the constraints"
		}
		c.Comments = append(c.Comments, text)
	}
	return c
}

// known returns the first known image that the source names.
func (w *Want) known(site *inventory.Inventory) *inventory.Image {
	for _, name := range w.Images {
		if i, ok := site.Image(name); ok {
			return i
		}
	}
	return nil
}

// imageOf returns the image of a node of type t: the named one, or the newest that satisfies the
// constraints on images. Without any, it is the default image. isChosen means that the request
// must name it.
func (w *Want) imageOf(t *inventory.SliverType, c *Choice) (image *inventory.Image, isChosen bool) {
	if c.Image != nil || len(w.Images) > 0 {
		return c.Image, false
	}
	constrained := slices.ContainsFunc(w.Require, func(r match.Constraint) bool { return isOfImage(r.Feature) })
	if !constrained && len(w.Software) == 0 && !w.excludes(t.DefaultImage) {
		return t.DefaultImage, false
	}
	for _, i := range t.Images {
		if !w.Work.Spend(matchSteps + len(w.Require)) {
			return nil, false
		}
		if !w.excludes(i) && w.satisfies(i) && (image == nil || w.compare(i, image) > 0) {
			image = i
		}
	}
	return image, image != nil && (constrained || image != t.DefaultImage)
}

// excludes reports whether the image may not be chosen.
func (w *Want) excludes(i *inventory.Image) bool {
	return i != nil && w.Allows != nil && !w.Allows(i.Name)
}

// satisfies reports whether an image satisfies the constraints on images, and those on other
// features that the image has.
func (w *Want) satisfies(i *inventory.Image) bool {
	list := slices.DeleteFunc(slices.Clone(w.Require), func(r match.Constraint) bool {
		_, has := i.Capabilities[r.Feature]
		return !has && !isOfImage(r.Feature)
	})
	requirements, err := match.New(list, nil)
	if err != nil {
		return false
	}
	_, ok := requirements.Match(func(feature string) (match.Capability, bool) {
		v, ok := i.Capabilities[feature]
		return v, ok
	})
	return ok
}

// compare returns a positive number if image a is better than b: it has more of the software,
// else a higher version of the system.
func (w *Want) compare(a, b *inventory.Image) int {
	programs := func(i *inventory.Image) (n int) {
		for _, name := range w.Software {
			if _, ok := i.Capabilities[SoftwareFeature(name)]; ok {
				n++
			}
		}
		return n
	}
	version := func(i *inventory.Image) string {
		if v := i.Capabilities["disk.0.os.version"].Values(); len(v) > 0 {
			return v[len(v)-1]
		}
		return ""
	}
	return cmp.Or(cmp.Compare(programs(a), programs(b)), match.CompareVersions(version(a), version(b)))
}

// fits reports whether a component offers t with the image and the constraints.
func (w *Want) fits(site *inventory.Inventory, t *inventory.SliverType, image *inventory.Image) bool {
	if _, has := t.Image(imageName(image)); image != nil && !has {
		return false
	}
	requirements, err := match.New(w.Require, nil)
	if err != nil {
		return false
	}
	for _, c := range site.Components {
		if !w.Work.Spend(1) {
			return false
		}
		if !c.Offers(t) {
			continue
		}
		w.Work.Spend(matchSteps + len(w.Require))
		if _, ok := requirements.Match(inventory.CapabilitiesOf(c, t, image)); ok {
			return true
		}
	}
	return false
}

func imageName(i *inventory.Image) string {
	if i == nil {
		return ""
	}
	return i.Name
}

// reason names the constraints on images, for comments.
func (w *Want) reason() string {
	var list []string
	for _, r := range w.Require {
		if isOfImage(r.Feature) {
			list = append(list, r.String())
		}
	}
	for _, name := range w.Software {
		list = append(list, "has "+name)
	}
	if len(list) == 0 {
		return "the list of allowed images"
	}
	return strings.Join(list, ", ")
}
