package importad

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// text writes the inventory. All that is of the advertisement goes through the YAML
// library, or is one line of a comment.
func (d *draft) text(remarks []string) ([]byte, error) {
	var b bytes.Buffer
	d.head(&b, remarks)
	for _, s := range []struct {
		key, comment string
		value        *yaml.Node
	}{
		{"provider", "Who makes slivers, for components that do not say so themselves: NAME.prov in the\nfolder of providers.", text(d.o.Provider)},
		{"default_sliver_type", "What a node gets that names no sliver_type.", text(d.usual().name)},
		{"managers", "By what name requests called the aggregate.", list(true, d.manager.String())},
		{"unknown_image", "Requests may name images that are not listed; \"refuse\" refuses them.", text("default")},
		{"cross_links", "A link to a node of another aggregate: \"refuse\" it, or \"copy\" it and do nothing.", text("refuse")},
		{"link_types", "The kinds of link that the provider can make; all, for the advertisement does not tell.", list(true, "*")},
		{"hardware_types", "", list(true, d.hardware...)},
		{"locations", "", d.writeLocations()},
		{"images", "", d.writeImages()},
		{"sliver_types", "", d.writeTypes()},
		{"links", "What joins interfaces. Capacities are kbit/s. Add vlans with the tags that links may\nhave, if they need tags.", d.writeLinks()},
		{"shared_vlans", "", d.writeVLANs()},
		{"components", "", d.writeComponents()},
	} {
		if s.value.Kind == yaml.SequenceNode && len(s.value.Content) == 0 {
			continue
		}
		if err := section(&b, s.key, s.comment, s.value); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// atOnce is how many entries are given to the YAML library at once, for it keeps all
// that it writes until its end.
const atOnce = 200

// section writes a key with its value, an empty line before it.
func section(b *bytes.Buffer, key, comment string, value *yaml.Node) error {
	b.WriteByte('\n')
	rest := value.Content
	for first := true; first || len(rest) > 0; first = false {
		k, part := plain(key), *value
		if first {
			k.HeadComment = comment
		}
		if value.Kind == yaml.SequenceNode && value.Style != yaml.FlowStyle {
			part.Content = rest[:min(atOnce, len(rest))]
		}
		rest = rest[len(part.Content):]
		var out bytes.Buffer
		e := yaml.NewEncoder(&out)
		e.SetIndent(2)
		if err := errors.Join(e.Encode(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{k, &part}}), e.Close()); err != nil {
			return err
		}
		lines := out.Bytes()
		if !first {
			_, lines, _ = bytes.Cut(lines, []byte{'\n'}) // the key is there already
		}
		b.Write(lines)
	}
	return nil
}

// head writes what an operator reads first.
func (d *draft) head(b *bytes.Buffer, remarks []string) {
	from := "an advertisement"
	if d.o.File != "" {
		from = tidy(d.o.File)
	}
	fmt.Fprintf(b, "# What %s offers, made by `patchbay import` of %s.\n", d.authority, from)
	fmt.Fprintf(b, "# Users' saved requests name these component_ids: keep them.\n#\n")
	fmt.Fprintf(b, "# Look over it before you serve it, and then let `patchbay check` look:\n")
	fmt.Fprintf(b, "#   - authority in patchbay.yaml is best %s, as in the component_ids\n", d.authority)
	fmt.Fprintf(b, "#   - the provider: who makes slivers on these components\n")
	for _, r := range remarks {
		fmt.Fprintf(b, "#   - %s\n", r)
	}
}

func (d *draft) writeLocations() *yaml.Node {
	all := sequence()
	for _, l := range d.locations {
		m := mapping("name", text(l.name), "country", text(l.country))
		if l.latitude != "" {
			put(m, "latitude", plain(l.latitude))
			put(m, "longitude", plain(l.longitude))
		}
		all.Content = append(all.Content, m)
	}
	return all
}

func (d *draft) writeImages() *yaml.Node {
	all := sequence()
	for _, i := range d.images {
		m := mapping("name", text(i.name))
		for _, f := range [][2]string{{"os", i.os}, {"version", i.version}, {"description", i.description}, {"url", i.url}} {
			if f[1] != "" {
				put(m, f[0], text(f[1]))
			}
		}
		all.Content = append(all.Content, m)
	}
	return all
}

func (d *draft) writeTypes() *yaml.Node {
	all := sequence()
	for _, t := range d.types {
		m := mapping("name", text(t.name))
		if t.alias != "" && !d.typeNames[t.alias] {
			put(m, "aliases", list(true, t.alias))
		}
		var images []string
		for _, i := range t.images {
			images = append(images, i.name)
		}
		if len(images) > 0 {
			put(m, "images", list(false, images...))
		}
		if t.preferred != nil {
			put(m, "default_image", text(t.preferred.name))
		}
		all.Content = append(all.Content, m)
	}
	return all
}

func (d *draft) writeLinks() *yaml.Node {
	all := sequence()
	for _, l := range d.links {
		m := mapping("name", text(l.name), "type", text(l.kind))
		if l.rate > 0 {
			put(m, "capacity", number(l.rate))
		}
		all.Content = append(all.Content, m)
	}
	return all
}

func (d *draft) writeVLANs() *yaml.Node {
	all := sequence()
	for _, v := range d.vlans {
		m := mapping("name", text(v.name), "tag", plain(v.tag))
		if v.description != "" {
			put(m, "description", text(v.description))
		}
		if v.restricted {
			put(m, "restricted", plain("true"))
		}
		all.Content = append(all.Content, m)
	}
	return all
}

func (d *draft) writeComponents() *yaml.Node {
	all := sequence()
	for _, c := range d.components {
		m := mapping("name", text(c.name), "component_id", text(c.id), "exclusive", plain(strconv.FormatBool(c.exclusive)))
		if c.slots > 0 {
			slots := flow(mapping("slots", number(c.slots)))
			if c.guessed {
				slots.LineComment = "not told; set what it has"
			}
			put(m, "capacity", slots)
		}
		if c.drained {
			put(m, "drained", plain("true"))
		}
		if len(c.types) > 0 {
			var types []string
			for _, t := range c.types {
				types = append(types, t.name)
			}
			put(m, "sliver_types", list(true, types...))
		}
		if len(c.hardware) > 0 {
			put(m, "hardware_types", list(true, c.hardware...))
		}
		if c.place != nil {
			put(m, "location", text(c.place.name))
		}
		if len(c.ports) > 0 {
			put(m, "interfaces", writePorts(c.ports))
		}
		all.Content = append(all.Content, m)
	}
	return all
}

func writePorts(ports []*socket) *yaml.Node {
	all := sequence()
	for _, p := range ports {
		m := flow(mapping("name", text(p.name), "component_id", text(p.id)))
		if p.role != "" {
			put(m, "role", text(p.role))
		}
		if p.link != nil {
			put(m, "link", text(p.link.name))
			if p.rate > 0 && p.rate != p.link.rate {
				put(m, "capacity", number(p.rate))
			}
		}
		if p.address != "" {
			put(m, "public_ipv4", text(p.address))
		}
		all.Content = append(all.Content, m)
	}
	return all
}

// text is a scalar that is read as s, quoted where that needs it.
func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

// plain is a number or a truth value, as it is written.
func plain(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

func number(n int64) *yaml.Node { return plain(strconv.FormatInt(n, 10)) }

func mapping(fields ...any) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i+1 < len(fields); i += 2 {
		put(m, fields[i].(string), fields[i+1].(*yaml.Node))
	}
	return m
}

func put(m *yaml.Node, key string, value *yaml.Node) {
	m.Content = append(m.Content, plain(key), value)
}

func sequence() *yaml.Node { return &yaml.Node{Kind: yaml.SequenceNode} }

func flow(n *yaml.Node) *yaml.Node {
	n.Style = yaml.FlowStyle
	return n
}

// list is a list of texts; a short one stands in one line.
func list(short bool, texts ...string) *yaml.Node {
	n := sequence()
	for _, t := range texts {
		n.Content = append(n.Content, text(t))
	}
	if short && len(strings.Join(texts, ", ")) < 120 {
		return flow(n)
	}
	return n
}
