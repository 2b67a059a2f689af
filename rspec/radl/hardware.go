package radl

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/generate"
	"patchbay/rspec/match"
)

// constrained are features that are constraints on components and images. Others that begin with
// gpu., or with disk.0.os. except the credentials, are constraints too.
var constrained = []string{
	"cpu.count", "cpu.arch", "cpu.performance", "memory.size", "price", "virtual_system_type", "image_type",
	"availability_zone", "disk.0.size", "disk.0.free_size",
}

const (
	imageURL    = "disk.0.image.url"
	imageName   = "disk.0.image.name"
	credentials = "disk.0.os.credentials."
)

func isConstraint(feature string) bool {
	return slices.Contains(constrained, feature) || strings.HasPrefix(feature, "gpu.") ||
		strings.HasPrefix(feature, "disk.0.os.") && !strings.HasPrefix(feature, credentials)
}

// readSystem reads the features of the system that all its nodes share.
func (c *compiler) readSystem(s *system) {
	n, b := &s.node, s.block
	n.Manager = s.manager
	n.Origin.ID = b.ID
	w := generate.Want{}
	disks := map[int]bool{}
	for i := range b.Features {
		f := &b.Features[i]
		index, rest, isDisk := numbered(f.Name, "disk")
		_, name, isInterface := numbered(f.Name, "net_interface")
		if secretURL.MatchString(f.Value.String()) {
			c.warn(f.Place, "let the nodes fetch it without a password", "%s has a password in its address: every member of the slice can read it", f.Name)
		}
		switch {
		case f.Value.String() == "": // as if it was not there
		case f.Name == "disk.0.applications" || isDisk && rest == "applications":
			c.readApplication(s, f)
		case isDisk && index > 0:
			disks[index] = true
		case isInterface && slices.Contains(interfaceFeatures, numberedName.ReplaceAllString(name, "dns.i.")):
		case f.Name == "instance_type":
			w.SliverType = c.oneLine(f)
		case f.Name == imageURL || f.Name == imageName:
			w.Images = append(w.Images, c.imagesOf(f)...)
		case f.Name == "nat_instance":
			n.NAT = f.Value.Text == "yes"
		case f.Name == "instance_id":
			c.warn(f.Place, "leave it out", "instance_id is ignored: the aggregate names the node")
		case isConstraint(f.Name):
			if x, ok := c.constraint(s, f); ok {
				w.Require = append(w.Require, x)
			}
		default:
			n.Origin.Features = append(n.Origin.Features, generate.Feature{Name: f.Name, Value: carriedText(f)})
		}
	}
	c.readSoft(s)
	if c.checkConstraints(b, w.Require, n.Prefer) {
		c.chooseType(s, w)
		c.checkConstraints(b, n.Require, n.Prefer) // applications are constraints, too
	}
	c.addDisks(s, disks)
}

// checkConstraints refuses too many constraints, which would take long to satisfy, and those that
// exclude each other. It reports whether all are correct.
func (c *compiler) checkConstraints(b *Block, require []match.Constraint, prefer []match.Preference) bool {
	_, err := match.New(require, prefer)
	if err != nil {
		c.refuse(rspec.BadArgs, b.Place, "change or leave out a feature", "system %.80q: %v", b.ID, err)
	}
	return err == nil
}

// imagesOf returns the names of images in a feature that has one.
func (c *compiler) imagesOf(f *Feature) (list []string) {
	list = f.Value.List
	if f.Value.Kind != List {
		list = []string{f.Value.Text}
	}
	for _, name := range list {
		if !isWord(name) {
			c.refuse(rspec.BadArgs, f.Place, "write a URN, a name or an address of at most 256 bytes without blanks", "%s: %.80q is not the name of an image", f.Name, name)
		}
	}
	return list
}

// oneLine returns the text of a feature, and refuses it if it has more than one line or is too long.
func (c *compiler) oneLine(f *Feature) string {
	text := f.Value.String()
	if len(text) > match.MaxValue || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		c.refuse(rspec.BadArgs, f.Place, "write one line of text", "the value of %s has control characters or more than %d bytes", f.Name, match.MaxValue)
	}
	return strings.TrimSpace(text)
}

// constraint returns the feature as a constraint.
func (c *compiler) constraint(s *system, f *Feature) (x match.Constraint, ok bool) {
	x = match.Constraint{Feature: f.Name, Op: match.Op(f.Op), Value: c.oneLine(f)}
	switch x.Feature {
	case "disk.0.os.flavor":
		x.Feature = "disk.0.os.flavour"
	case "cpu.arch":
		if value := c.architecture(s.site, x.Value); value != x.Value {
			s.comments = append(s.comments, fmt.Sprintf("system %s: the site writes %s for cpu.arch = %s", s.block.ID, value, x.Value))
			x.Value = value
		}
	}
	if _, err := match.New([]match.Constraint{x}, nil); err != nil {
		c.refuse(rspec.BadArgs, f.Place, "correct the value", "%v", err)
		return x, false
	}
	return x, true
}

// architectures are names of the same architectures.
var architectures = [][]string{{"i686", "i386"}, {"x86_64", "amd64"}, {"aarch64", "arm64"}}

// architecture returns the name that the site uses for an architecture.
func (c *compiler) architecture(site *inventory.Inventory, name string) string {
	if site == nil {
		return name
	}
	if c.architectures == nil {
		c.architectures = map[string]bool{}
		add := func(all map[string]match.Capability) {
			for _, v := range all["cpu.arch"].Values() {
				c.architectures[strings.ToLower(v)] = true
			}
		}
		for _, x := range site.Images {
			add(x.Capabilities)
		}
		for _, x := range site.SliverTypes {
			add(x.Capabilities)
		}
		for _, x := range site.Components {
			add(x.Capabilities)
		}
	}
	for _, names := range architectures {
		if c.architectures[strings.ToLower(name)] || !slices.Contains(names, strings.ToLower(name)) {
			continue
		}
		for _, other := range names {
			if c.architectures[other] {
				return other
			}
		}
	}
	return name
}

// readSoft makes preferences of the soft groups, the highest weight first.
func (c *compiler) readSoft(s *system) {
	groups := slices.Clone(s.block.Soft)
	slices.SortStableFunc(groups, func(a, b Soft) int { return b.Weight - a.Weight })
	for _, g := range groups {
		p := match.Preference{Weight: min(max(g.Weight, 1), match.MaxWeight)}
		if p.Weight != g.Weight {
			c.warn(g.Place, "write a weight from 1 to 1000000", "soft %d: the weight is read as %d", g.Weight, p.Weight)
		}
		for i := range g.Features {
			f := &g.Features[i]
			if !isConstraint(f.Name) {
				c.warn(f.Place, "write it outside of the group, or leave it out", "soft %d: %s is ignored, since it is no feature of a component or an image", g.Weight, f.Name)
			} else if x, ok := c.constraint(s, f); ok && x.Value != "" {
				p.Constraints = append(p.Constraints, x)
			}
		}
		if len(p.Constraints) > 0 {
			s.node.Prefer = append(s.node.Prefer, p)
		}
	}
}

// chooseType sets what the source wants of the sliver type, the image and the capabilities of the nodes of s. The
// aggregate chooses them. If the nodes need Ansible, and the source names no image, chooseType requires an image with
// Ansible, if there is one. It sets s.lacksAnsible.
func (c *compiler) chooseType(s *system, w generate.Want) {
	c.addApplications(s, &w)
	ansible := generate.SoftwareFeature("ansible")
	name, image := w.Image(s.site)
	switch {
	case s.site == nil || !c.needsAnsible(s.block):
	case name == "":
		s.lacksAnsible = true
		for _, version := range []string{c.request.Ansible, ""} {
			with := w
			with.Require = slices.Concat(w.Require, versionTests(ansible, Equal, version))
			if with.TypeAt(s.site, c.o.Work) != nil {
				w, s.lacksAnsible = with, false
				break
			}
		}
	case image != nil:
		_, has := image.Capabilities[ansible]
		s.lacksAnsible = !has
	}
	n := &s.node
	n.SliverType, n.DiskImage, n.Require = w.SliverType, name, w.Require
	if s.site == nil {
		return
	}
	if _, ok := s.site.SliverType(w.SliverType); !ok && w.SliverType != "" {
		s.comments = append(s.comments, fmt.Sprintf("system %s: sliver type %s: the site does not list it", s.block.ID, w.SliverType))
	}
	if name == "" {
		return
	}
	if image == nil {
		s.comments = append(s.comments, fmt.Sprintf("system %s: image %s: the site does not have it; the site decides whether to use its default image", s.block.ID, name))
	}
	if t := w.TypeAt(s.site, c.o.Work); w.SliverType == "" && t != nil { // an RSpec that names an image names a type too
		n.SliverType = t.Name
	}
}
