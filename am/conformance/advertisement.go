package conformance

import (
	"errors"
	"fmt"
	"regexp"

	"patchbay/am/client"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// document is an RSpec.
type document struct {
	text string
	root *xmltree.Element
}

func parse(text string) (*document, error) {
	d := &document{text: text}
	err := xmltree.Parse([]byte(text), xmltree.HighestLimits(), func(x *xmltree.Doc) error { d.root = x.Root; return nil })
	if err != nil {
		return nil, fmt.Errorf("it is no XML: %w", err)
	}
	return d, nil
}

// nodes returns the nodes below the root.
func (d *document) nodes() (list []*xmltree.Element) {
	for _, e := range d.root.Elements() {
		if e.Local == "node" {
			list = append(list, e)
		}
	}
	return list
}

// isOf reports whether the document is a GENI 3 RSpec of the type.
func (d *document) isOf(kind string) error {
	got, _ := d.root.Attr("", "type")
	if d.root.Local != "rspec" || d.root.Space != schemas.Namespace || got != kind {
		return fmt.Errorf(`its root is %s of the namespace %q with type="%s", not an rspec of GENI 3 with type="%s"`, d.root.Local, d.root.Space, got, kind)
	}
	return nil
}

func attr(e *xmltree.Element, name string) string {
	v, _ := e.Attr("", name)
	return v
}

// listResources returns the advertisement for the given options.
func (p *probe) listResources(a *aggregate, more ...xmlrpc.Member) (string, error) {
	if len(p.config.User) == 0 {
		return "", notTried("it needs a user credential")
	}
	v, err := p.succeed(a, "ListResources", a.credentials(p.config.User), options(more...))
	if err != nil {
		return "", err
	}
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("the value of ListResources is %T, not a text", v)
	}
	return client.Unpack(s)
}

// stamps are attributes that may differ between two advertisements: their time, and what is free
// at that time.
var stamps = regexp.MustCompile(` (generated|expires|valid_until|now|type_slots)="[^"]*"`)

func advertisementChecks(version int) []check {
	name := func(rule string) string { return fmt.Sprintf("advertisement%d.%s", version, rule) }
	api := fmt.Sprintf("AM API v%d, ListResources", version)
	return []check{
		{name("xml"), api + "; RSpec 3, advertisement", []string{fmt.Sprintf("version%d.answer", version)}, false, func(p *probe) error {
			text, err := p.listResources(p.am[version])
			if err != nil {
				return err
			}
			d, err := parse(text)
			if err == nil {
				err = d.isOf("advertisement")
			}
			if err != nil {
				return fmt.Errorf("the advertisement: %w", err)
			}
			p.am[version].ad = d
			return nil
		}},
		{name("nodes"), "RSpec 3, advertisement, node", []string{name("xml")}, false, func(p *probe) error { return p.checkAdvertised(p.am[version]) }},
		{name("compressed"), api + ", geni_compressed", []string{name("xml")}, false, func(p *probe) error {
			text, err := p.listResources(p.am[version], option("geni_compressed", true))
			if err != nil {
				return err
			}
			if plain := p.am[version].ad.text; stamps.ReplaceAllString(text, "") != stamps.ReplaceAllString(plain, "") {
				return errors.New("the compressed advertisement differs from the plain one")
			}
			return nil
		}},
		{name("available"), api + ", geni_available", []string{name("xml")}, false, func(p *probe) error {
			text, err := p.listResources(p.am[version], option("geni_available", true))
			if err != nil {
				return err
			}
			d, err := parse(text)
			if err != nil {
				return fmt.Errorf("the advertisement: %w", err)
			}
			for _, n := range d.nodes() {
				for _, e := range n.Elements() {
					if e.Local == "available" && attr(e, "now") == "false" {
						return fmt.Errorf("with geni_available, %s is listed, which is not available", attr(n, "component_id"))
					}
				}
			}
			return nil
		}},
	}
}

func (p *probe) checkAdvertised(a *aggregate) error {
	seen := map[string]bool{}
	for i, n := range a.ad.nodes() {
		id := attr(n, "component_id")
		u, err := urn.Parse(id)
		switch {
		case err != nil:
			return fmt.Errorf("node %d has the component_id %q: %w", i+1, id, err)
		case seen[u.Key()]:
			return fmt.Errorf("two nodes have the component_id %s", id)
		case attr(n, "component_manager_id") == "":
			return fmt.Errorf("%s has no component_manager_id", id)
		case attr(n, "exclusive") != "true" && attr(n, "exclusive") != "false":
			return fmt.Errorf("%s has exclusive=%q", id, attr(n, "exclusive"))
		}
		seen[u.Key()] = true
		if m, err := urn.Parse(attr(n, "component_manager_id")); err != nil {
			return fmt.Errorf("%s has the component_manager_id %q: %w", id, attr(n, "component_manager_id"), err)
		} else if own, err := urn.Parse(a.urn); err == nil && !urn.SameManager(m, own) && !urn.Covers(own.Authority, m.Authority) {
			return fmt.Errorf("%s belongs to %s, but GetVersion says that this aggregate is %s", id, m, own)
		}
	}
	if len(seen) == 0 {
		return notTried("the advertisement has no nodes")
	}
	return nil
}
