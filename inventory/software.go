package inventory

import (
	"net/url"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/am/urn"
	"patchbay/rspec/match"
	"patchbay/rspec/step"
	"patchbay/schemas/yamlfile"
)

// Software is a program that nodes can get when they start.
type Software struct {
	Name, Version string
	// Install is the URL of an archive that is unpacked to /, perhaps of a file in the catalogue;
	// empty for none.
	Install string
	// Execute is a command that runs after it; empty for none.
	Execute string
}

// readSoftware reads the programs that nodes can install. There may be several versions of one program.
func (s *site) readSoftware(n *yaml.Node) {
	for _, item := range s.Items(n, "software") {
		w := Software{}
		bad := s.Mistakes()
		s.Keys(item, "software",
			yamlfile.Into("name", &w.Name, s.name),
			yamlfile.Into("version", &w.Version, s.Text),
			yamlfile.Into("install", &w.Install, s.archive),
			yamlfile.Into("execute", &w.Execute, s.Text),
		)
		if s.Mistakes() > bad {
			continue
		}
		_, err := match.ParseCapability("software."+w.Name, w.Version)
		switch {
		case w.Name == "":
			s.Missing(item, "software", "name")
		case w.Version == "":
			s.Missing(item, "software "+w.Name, "version")
		case err != nil:
			s.Wrong(item, "software: %v", err)
		case w.Install == "" && w.Execute == "":
			s.Wrong(item, "software %s has neither install nor execute; add the URL of an archive or a command", w.Name)
		case s.hasSoftware(w.Name, w.Version):
			s.Wrong(item, "software %s %s is listed twice (case does not matter); remove one", w.Name, w.Version)
		default:
			s.Software = append(s.Software, w)
		}
	}
}

func (s *site) hasSoftware(name, version string) bool {
	for _, w := range s.Software {
		if strings.EqualFold(w.Name, name) && match.CompareVersions(w.Version, version) == 0 {
			return true
		}
	}
	return false
}

// archive reads an http or https URL, or the name of a file in the catalogue, and returns a URL.
func (s *site) archive(n *yaml.Node, key string) string {
	text := s.Text(n, key)
	if step.IsCatalogueName(text) {
		return s.catalogued(n, key, text)
	}
	u, err := url.Parse(text)
	if text != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		s.Wrong(n, "%s must be the name of a file in the folder %s (letters, digits, _ . + ~ and -, not beginning with a dot), or an http or https URL of an archive, such as https://%s/tool.tar.gz", key, CatalogueFolder, s.Authority)
	}
	return text
}

func (s *site) readGalaxy(n *yaml.Node) {
	s.Galaxy = readPairs(s, n, "galaxy", "galaxy entry", "url", s.archive)
}

func (s *site) readClouds(n *yaml.Node) {
	s.Clouds = readPairs(s, n, "clouds", "cloud", "manager", func(n *yaml.Node, _ string) urn.URN { return s.urn(n, urn.Authority) })
}

// readPairs reads a list of entries with a name and a value.
func readPairs[T comparable](s *site, n *yaml.Node, section, noun, valueKey string, read func(*yaml.Node, string) T) map[string]T {
	all := map[string]T{}
	for _, item := range s.Items(n, section) {
		var name string
		var value, none T
		bad := s.Mistakes()
		s.Keys(item, "a "+noun, yamlfile.Into("name", &name, s.name), yamlfile.Into(valueKey, &value, read))
		_, isTwice := all[name]
		switch {
		case s.Mistakes() > bad:
		case name == "":
			s.Missing(item, "a "+noun, "name")
		case value == none:
			s.Missing(item, noun+" "+name, valueKey)
		case isTwice:
			s.Wrong(item, "%s lists the name %q twice; remove one", section, name)
		default:
			all[name] = value
		}
	}
	return all
}
