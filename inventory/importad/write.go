package importad

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// file is an inventory in the form in which yamlText writes it.
type file struct {
	Provider          string          `yaml:"provider"`
	DefaultSliverType string          `yaml:"default_sliver_type"`
	Managers          flowList        `yaml:"managers"`
	UnknownImage      string          `yaml:"unknown_image"`
	CrossLinks        string          `yaml:"cross_links"`
	LinkTypes         flowList        `yaml:"link_types"`
	HardwareTypes     flowList        `yaml:"hardware_types,omitempty"`
	Locations         []fileLocation  `yaml:"locations,omitempty"`
	Images            []fileImage     `yaml:"images,omitempty"`
	SliverTypes       []fileType      `yaml:"sliver_types,omitempty"`
	Links             []fileLink      `yaml:"links,omitempty"`
	SharedVLANs       []fileVLAN      `yaml:"shared_vlans,omitempty"`
	Components        []fileComponent `yaml:"components,omitempty"`
}

type fileLocation struct {
	Name      string `yaml:"name"`
	Country   string `yaml:"country"`
	Latitude  number `yaml:"latitude,omitempty"`
	Longitude number `yaml:"longitude,omitempty"`
}

type fileImage struct {
	Name        string `yaml:"name"`
	OS          string `yaml:"os,omitempty"`
	Version     string `yaml:"version,omitempty"`
	Description string `yaml:"description,omitempty"`
	URL         string `yaml:"url,omitempty"`

	Capabilities capabilities `yaml:"capabilities,omitempty"`
}

type fileType struct {
	Name         string   `yaml:"name"`
	Aliases      flowList `yaml:"aliases,omitempty"`
	Images       []string `yaml:"images,omitempty"`
	DefaultImage string   `yaml:"default_image,omitempty"`

	Capabilities capabilities `yaml:"capabilities,omitempty"`
}

type fileLink struct {
	Name     string `yaml:"name"`
	Type     string `yaml:"type"`
	Capacity int64  `yaml:"capacity,omitempty"`
}

type fileVLAN struct {
	Name        string `yaml:"name"`
	Tag         number `yaml:"tag"`
	Description string `yaml:"description,omitempty"`
	Restricted  bool   `yaml:"restricted,omitempty"`
}

type fileComponent struct {
	Name          string    `yaml:"name"`
	ID            string    `yaml:"component_id"`
	Exclusive     bool      `yaml:"exclusive"`
	Capacity      *capacity `yaml:"capacity,omitempty"`
	Drained       bool      `yaml:"drained,omitempty"`
	SliverTypes   flowList  `yaml:"sliver_types,omitempty"`
	HardwareTypes flowList  `yaml:"hardware_types,omitempty"`
	Location      string    `yaml:"location,omitempty"`

	Capabilities capabilities `yaml:"capabilities,omitempty"`

	Interfaces []filePort `yaml:"interfaces,omitempty"`
}

type filePort struct {
	Name     string `yaml:"name"`
	ID       string `yaml:"component_id"`
	Role     string `yaml:"role,omitempty"`
	Link     string `yaml:"link,omitempty"`
	Capacity int64  `yaml:"capacity,omitempty"`
	Address  string `yaml:"public_ipv4,omitempty"`
}

// number is a text that is written without quotes, as a YAML number.
type number string

func (n number) MarshalYAML() (any, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: string(n)}, nil
}

type flowList []string

// MarshalYAML writes a short list in one line, and a longer one with an item a line.
func (s flowList) MarshalYAML() (any, error) {
	if len(strings.Join(s, ", ")) < 120 {
		return flowNode([]string(s))
	}
	return []string(s), nil
}

func (p filePort) MarshalYAML() (any, error) {
	type plain filePort
	return flowNode(plain(p))
}

type capacity struct {
	slots   int64
	guessed bool
}

// MarshalYAML writes the slots in one line; a guessed number gets a comment.
func (c capacity) MarshalYAML() (any, error) {
	n, err := flowNode(map[string]int64{"slots": c.slots})
	if c.guessed {
		n.LineComment = "not in the advertisement; set the real number"
	}
	return n, err
}

func flowNode(v any) (*yaml.Node, error) {
	n := &yaml.Node{}
	err := n.Encode(v)
	n.Style = yaml.FlowStyle
	return n, err
}

// keyComments are the comments that are written above the keys of an inventory.
var keyComments = map[string]string{
	"provider":            "The provider of components that name none: NAME.prov in the folder of providers.",
	"default_sliver_type": "The sliver type of nodes that name none.",
	"managers":            "The URN of the aggregate in existing requests.",
	"unknown_image":       "Requests may name images that are not listed; \"refuse\" refuses them.",
	"cross_links":         "A link to a node of another aggregate: \"refuse\" it, or \"copy\" it and do nothing.",
	"link_types":          "The types of link that the provider can create; all, because the advertisement lists none.",
	"links":               "Physical links and switches. Capacities are in kbit/s. If links need VLAN tags, add\nvlans with the tags that they may have.",
}

// yamlText writes the inventory. Texts of the advertisement cannot add keys: the YAML
// library escapes them, and comments contain them on one line.
func (d *draft) yamlText(remarks []string) ([]byte, error) {
	var b bytes.Buffer
	d.writeHeader(&b, remarks)
	var all yaml.Node
	if err := all.Encode(d.file()); err != nil {
		return nil, err
	}
	for i := 0; i < len(all.Content); i += 2 {
		b.WriteByte('\n')
		all.Content[i].HeadComment = keyComments[all.Content[i].Value]
		e := yaml.NewEncoder(&b)
		e.SetIndent(2)
		if err := errors.Join(e.Encode(&yaml.Node{Kind: yaml.MappingNode, Content: all.Content[i : i+2]}), e.Close()); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

func (d *draft) writeHeader(b *bytes.Buffer, remarks []string) {
	from := "an advertisement"
	if d.o.File != "" {
		from = oneLine(d.o.File)
	}
	fmt.Fprintf(b, `# The resources of %s, created by `+"`patchbay import`"+` from %s.
# Users' saved requests name these component_ids: keep them.
#
# Review this file before you serve it, then run `+"`patchbay check`"+`:
#   - authority in patchbay.yaml should be %[1]s, as in the component_ids
#   - the provider, which creates slivers on these components
`, d.authority, from)
	for _, r := range remarks {
		fmt.Fprintf(b, "#   - %s\n", r)
	}
}

func (d *draft) file() file {
	f := file{
		Provider: d.o.Provider, DefaultSliverType: d.defaultType().name, Managers: flowList{d.manager.String()},
		UnknownImage: "default", CrossLinks: "refuse", LinkTypes: flowList{"*"}, HardwareTypes: d.hardware,
	}
	for _, l := range d.locations {
		f.Locations = append(f.Locations, fileLocation{l.name, l.country, number(l.latitude), number(l.longitude)})
	}
	for _, i := range d.images {
		f.Images = append(f.Images, fileImage{i.name, i.os, i.version, i.description, i.url, i.valid})
	}
	for _, t := range d.types {
		x := fileType{Name: t.name, Capabilities: t.capabilities}
		if t.alias != "" && !d.typeNames[t.alias] {
			x.Aliases = flowList{t.alias}
		}
		for _, i := range t.images {
			x.Images = append(x.Images, i.name)
		}
		if t.preferred != nil {
			x.DefaultImage = t.preferred.name
		}
		f.SliverTypes = append(f.SliverTypes, x)
	}
	for _, l := range d.links {
		f.Links = append(f.Links, fileLink{l.name, l.kind, l.rate})
	}
	for _, v := range d.vlans {
		f.SharedVLANs = append(f.SharedVLANs, fileVLAN{v.name, number(v.tag), v.description, v.restricted})
	}
	for _, c := range d.components {
		f.Components = append(f.Components, c.file())
	}
	return f
}

func (c *component) file() fileComponent {
	x := fileComponent{Name: c.name, ID: c.id, Exclusive: c.exclusive, Drained: c.drained, HardwareTypes: c.hardware, Capabilities: c.capabilities}
	if c.slots > 0 {
		x.Capacity = &capacity{c.slots, c.guessed}
	}
	for _, t := range c.types {
		x.SliverTypes = append(x.SliverTypes, t.name)
	}
	if c.place != nil {
		x.Location = c.place.name
	}
	for _, p := range c.ports {
		y := filePort{Name: p.name, ID: p.id, Role: p.role, Address: p.address}
		if p.link != nil {
			y.Link = p.link.name
			if p.rate != p.link.rate {
				y.Capacity = p.rate
			}
		}
		x.Interfaces = append(x.Interfaces, y)
	}
	return x
}
