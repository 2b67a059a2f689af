package conformance

import (
	"errors"
	"fmt"
	"regexp"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
	"patchbay/am/urn"
	"patchbay/rspec/view"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// document is an RSpec.
type document struct {
	text string
	*view.Document
}

// read returns a GENI 3 RSpec of the kind.
func read(text string, kind view.Kind) (*document, error) {
	d, err := view.Read([]byte(text), xmltree.HighestLimits())
	if err == nil && (d.Root.Space != schemas.Namespace || view.Value(d.Root, "type") != string(kind)) {
		err = fmt.Errorf(`it has the namespace %q and type="%s", not those of GENI 3 with type="%s"`, d.Root.Space, view.Value(d.Root, "type"), kind)
	}
	if err != nil {
		return nil, fmt.Errorf("the %s: %w", kind, err)
	}
	return &document{text, d}, nil
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
			if err == nil {
				p.am[version].ad, err = read(text, view.Advertisement)
			}
			return err
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
			d, err := read(text, view.Advertisement)
			if err != nil {
				return err
			}
			for _, n := range d.Nodes {
				if n.Available != nil && !*n.Available {
					return fmt.Errorf("with geni_available, %s is listed, which is not available", view.Value(n.Element, "component_id"))
				}
			}
			return nil
		}},
	}
}

func (p *probe) checkAdvertised(a *aggregate) error {
	seen := map[string]bool{}
	for i, n := range a.ad.Nodes {
		id, manager, exclusive := view.Value(n.Element, "component_id"), view.Value(n.Element, "component_manager_id"), view.Value(n.Element, "exclusive")
		u, err := urn.Parse(id)
		switch {
		case err != nil:
			return fmt.Errorf("node %d has the component_id %q: %w", i+1, id, err)
		case seen[u.Key()]:
			return fmt.Errorf("two nodes have the component_id %s", id)
		case manager == "":
			return fmt.Errorf("%s has no component_manager_id", id)
		case exclusive != "true" && exclusive != "false":
			return fmt.Errorf("%s has exclusive=%q", id, exclusive)
		}
		seen[u.Key()] = true
		if m, err := urn.Parse(manager); err != nil {
			return fmt.Errorf("%s has the component_manager_id %q: %w", id, manager, err)
		} else if own, err := urn.Parse(a.urn); err == nil && !urn.SameManager(m, own) && !urn.Covers(own.Authority, m.Authority) {
			return fmt.Errorf("%s belongs to %s, but GetVersion says that this aggregate is %s", id, m, own)
		}
	}
	if len(seen) == 0 {
		return notTried("the advertisement has no nodes")
	}
	return nil
}
