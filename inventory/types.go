package inventory

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/schemas/yamlfile"
)

func (s *site) readImages(n *yaml.Node) {
	for _, item := range s.Items(n, "images") {
		i := &Image{}
		bad := s.Mistakes()
		s.Keys(item, "an image",
			yamlfile.Into("name", &i.Name, s.name),
			yamlfile.With("urn", func(n *yaml.Node) { i.URN = s.urn(n, urn.Image) }),
			yamlfile.Into("os", &i.OS, s.Text),
			yamlfile.Into("version", &i.Version, s.Text),
			yamlfile.Into("description", &i.Description, s.Text),
			yamlfile.Into("url", &i.URL, s.Text),
			yamlfile.With("capabilities", func(n *yaml.Node) { i.Capabilities = s.imageCapabilities(n) }),
		)
		if s.Mistakes() > bad {
			continue
		}
		if i.Name == "" {
			s.Missing(item, "an image", "name")
			continue
		}
		if i.URN.IsZero() {
			i.URN = s.urnOf(item, urn.Image, i.Name)
		}
		if s.indexImage(item, s.images, i) {
			s.Images = append(s.Images, i)
		}
	}
}

// indexImage adds an image under its name, URN and URL. If m already has one of these,
// indexImage records a mistake and returns false.
func (s *site) indexImage(n *yaml.Node, m map[string]*Image, i *Image) bool {
	for _, k := range []string{imageKey(i.Name), i.URN.Key(), i.URL} {
		if other := m[k]; k != "" && other != nil && other != i {
			s.Wrong(n, "image %s is also image %s; give them different names, URNs and URLs", i.Name, other.Name)
			return false
		}
		if k != "" {
			m[k] = i
		}
	}
	return true
}

// urnOf returns the URN of a thing of the site with the name; name itself if that is a URN of this kind.
func (s *site) urnOf(n *yaml.Node, kind, name string) urn.URN {
	if strings.HasPrefix(strings.ToLower(name), "urn:") {
		return s.urn(&yaml.Node{Kind: yaml.ScalarNode, Value: name, Line: n.Line}, kind)
	}
	u := urn.URN{Authority: s.Authority, Type: kind, Name: urn.Transcribe(name)}
	if _, err := urn.Parse(u.String()); err != nil {
		s.Wrong(n, "%q cannot be part of a URN: %v; use another name", name, err)
	}
	return u
}

// urn reads a URN of this kind.
func (s *site) urn(n *yaml.Node, kind string) urn.URN {
	u, err := urn.Parse(n.Value)
	if err != nil || u.Type != kind {
		s.Wrong(n, "%q is not a URN of type %s; write urn:publicid:IDN+%s+%s+NAME", n.Value, kind, s.Authority, kind)
	}
	return u
}

// readSliverTypes reads the sliver types, and their aliases last, because no alias may be the name of a type.
func (s *site) readSliverTypes(n *yaml.Node) {
	aliases := map[string]*yaml.Node{}
	for _, item := range s.Items(n, "sliver_types") {
		s.readSliverType(item, aliases)
	}
	for _, t := range s.SliverTypes {
		for _, a := range t.Aliases {
			if own := s.types[a]; own != nil && own.Name == a {
				s.Wrong(aliases[a], "alias %q of %s is the name of a sliver type; drop the alias", a, t.Name)
			} else if hasWildcard(a) {
				s.patterns = append(s.patterns, pattern{aliasPattern(a), t})
			} else {
				s.types[a] = t
			}
		}
	}
}

// readSliverType reads an entry of sliver_types. It adds the entry's aliases to the map, so that each occurs once.
func (s *site) readSliverType(item *yaml.Node, aliases map[string]*yaml.Node) {
	t := &SliverType{Needs: am.Amount{Slots: 1}, images: map[string]*Image{}}
	var defaultImage *yaml.Node
	s.Keys(item, "a sliver type",
		yamlfile.Into("name", &t.Name, s.name),
		yamlfile.With("aliases", func(n *yaml.Node) {
			for _, a := range s.Texts(n, "aliases") {
				if aliases[a.Value] != nil {
					s.Wrong(a, "the alias %q is listed twice; remove one", a.Value)
					continue
				}
				aliases[a.Value] = a
				t.Aliases = append(t.Aliases, a.Value)
			}
		}),
		yamlfile.With("needs", func(n *yaml.Node) { t.Needs = s.amount(n, "needs", t.Needs) }),
		yamlfile.With("images", func(n *yaml.Node) {
			for _, name := range s.Texts(n, "images") {
				if i := s.image(name); i != nil && s.indexImage(name, t.images, i) {
					t.Images = append(t.Images, i)
				}
			}
		}),
		yamlfile.With("default_image", func(n *yaml.Node) { defaultImage = n }),
		yamlfile.With("capabilities", func(n *yaml.Node) { t.Capabilities = s.capabilities(n) }),
	)
	if len(t.Images) > 0 {
		t.DefaultImage = t.Images[0]
	}
	if defaultImage != nil {
		i, ok := t.Image(defaultImage.Value)
		if !ok {
			s.Wrong(defaultImage, "default_image %q is not among the images of %s; add it there", defaultImage.Value, t.Name)
		}
		t.DefaultImage = i
	}
	switch {
	case t.Name == "":
		s.Missing(item, "a sliver type", "name")
	case s.types[t.Name] != nil:
		s.Wrong(item, "there are two sliver types %q; rename one", t.Name)
	default:
		s.types[t.Name] = t
		s.SliverTypes = append(s.SliverTypes, t)
		if s.DefaultSliverType == nil {
			s.DefaultSliverType = t
		}
	}
}

func (s *site) image(n *yaml.Node) *Image {
	i, ok := s.Image(n.Value)
	if !ok {
		s.Unknown(n, "image", namesOf(s.Images, imageName))
	}
	return i
}

// amount reads an amount of resources. Missing keys have their values in base.
func (s *site) amount(n *yaml.Node, label string, base am.Amount) am.Amount {
	s.Keys(n, label,
		yamlfile.Into("slots", &base.Slots, s.Whole),
		yamlfile.Into("cores", &base.Cores, s.Whole),
		yamlfile.Into("gpus", &base.GPUs, s.Whole),
		yamlfile.Into("memory", &base.Memory, s.Size),
		yamlfile.Into("disk", &base.Disk, s.Size),
	)
	return base
}

func (s *site) readDefaultSliverType(n *yaml.Node) {
	if t := s.sliverType(n); t != nil {
		s.DefaultSliverType = t
	}
}

// sliverType returns the sliver type that n names; nil after a mistake. It ignores aliases, which are only for
// requests.
func (s *site) sliverType(n *yaml.Node) *SliverType {
	if t := s.types[n.Value]; t != nil && t.Name == n.Value {
		return t
	}
	s.Unknown(n, "sliver type", namesOf(s.SliverTypes, typeName))
	return nil
}
