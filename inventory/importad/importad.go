package importad

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"patchbay/am/urn"
	"patchbay/inventory"
)

// Options are the options of Read.
type Options struct {
	// Authority is the authority of the manager whose nodes are read. It may be empty if
	// the advertisement has only one manager.
	Authority string
	// Provider is the name of the provider of all components; "" means "simulated".
	Provider string
	// File is the file name of the advertisement, which the header of the text mentions.
	File string
}

// Result is the result of reading an advertisement.
type Result struct {
	// Text is an inventory.yaml for a site whose authority is Authority.
	Text []byte
	// Authority is the authority in the URNs. Manager is the URN of the aggregate manager
	// that the nodes name.
	Authority string
	Manager   urn.URN
	// Components, Interfaces, Links, SliverTypes and Images count the entries of the text.
	Components, Interfaces, Links, SliverTypes, Images int
	// Remarks are lines for the operator: what to check, and what was left out and why.
	Remarks []string
}

// Read creates an inventory from an advertisement. It fails with an *Error or an error of
// xmltree.Parse for an unreadable advertisement, and with other errors for wrong options.
func Read(text []byte, o Options) (*Result, error) {
	ad, err := read(text)
	if err != nil {
		return nil, err
	}
	if o.Provider == "" {
		o.Provider = "simulated"
	}
	if o.Provider != validName(o.Provider) {
		return nil, fmt.Errorf("%q is not valid as the name of a provider: it is NAME of an executable NAME.prov, without blanks", o.Provider)
	}
	d := newDraft(o)
	if err := d.chooseManager(ad); err != nil {
		return nil, err
	}
	d.readNodes(ad)
	if len(d.components) == 0 {
		return nil, newError(d.nodes[0].line, "no node has a component_id that is a URN of a node (component_id=%.80q), so requests cannot have named any; write an inventory by hand", d.nodes[0].id)
	}
	s := &Result{
		Authority: d.authority, Manager: d.manager, Components: len(d.components), Links: len(d.links),
		SliverTypes: len(d.types), Images: len(d.images), Remarks: d.remarks.lines(),
	}
	for _, c := range d.components {
		s.Interfaces += len(c.ports)
	}
	if s.Text, err = d.yamlText(s.Remarks); err != nil {
		return nil, err
	}
	if _, err := inventory.Parse(s.Text, "inventory.yaml", d.authority); err != nil {
		return nil, fmt.Errorf("the resulting inventory is invalid, which is a bug of this program; please report it: %w", err)
	}
	return s, nil
}

// chooseManager selects the manager of Options.Authority, or the only one. The nodes of
// other managers become a remark.
func (d *draft) chooseManager(ad *advertisement) error {
	type manager struct {
		urn   urn.URN
		nodes []*node
	}
	var list []*manager
	byAuthority := map[string]*manager{}
	nameless := 0
	for _, n := range ad.nodes {
		u, ok := managerOf(n)
		if !ok {
			nameless++
			continue
		}
		key := strings.ToLower(u.Authority)
		m := byAuthority[key]
		if m == nil {
			m = &manager{urn: u}
			byAuthority[key] = m
			list = append(list, m)
		}
		m.nodes = append(m.nodes, n)
	}
	var summaries []string
	for _, m := range list {
		if len(summaries) == 20 {
			summaries = append(summaries, fmt.Sprintf("and %d more", len(list)-20))
			break
		}
		summaries = append(summaries, fmt.Sprintf("%s (%d)", m.urn.Authority, len(m.nodes)))
	}
	switch {
	case len(ad.nodes) == 0:
		return newError(0, "the advertisement has no nodes%s; an inventory needs nodes", otherContent(ad.others))
	case len(list) == 0:
		return newError(ad.nodes[0].line, "no node names its manager by a URN (component_manager_id=%.80q), so requests could not name the aggregate; ask the aggregate for RSpecs of GENI version 3", ad.nodes[0].manager)
	case d.o.Authority == "" && len(list) > 1:
		return newError(0, "the advertisement is of several managers; choose one with --authority: %s", strings.Join(summaries, ", "))
	}
	chosen := list[0]
	if d.o.Authority != "" {
		if chosen = byAuthority[strings.ToLower(d.o.Authority)]; chosen == nil {
			return newError(0, "the advertisement has no nodes of %s; its managers are %s", d.o.Authority, strings.Join(summaries, ", "))
		}
	}
	d.manager, d.authority, d.nodes = chosen.urn, chosen.urn.Authority, chosen.nodes
	for _, m := range list {
		if m != chosen {
			d.remarks.add("nodes of other managers, left out", m.urn.Authority, len(m.nodes))
		}
	}
	if nameless > 0 {
		d.remarks.add("nodes that name no manager by a URN, left out", "", nameless)
	}
	for _, name := range slices.Sorted(maps.Keys(ad.others)) {
		d.remarks.add("elements and extensions that are not read", oneLine(name), ad.others[name])
	}
	return nil
}

// managerOf returns the URN of the manager that a node names. A node that names none
// belongs to the manager "cm" of the authority in its component_id. ok is false for an
// invalid URN.
func managerOf(n *node) (manager urn.URN, ok bool) {
	if n.manager != "" {
		u, err := urn.Parse(n.manager)
		return u, err == nil && u.Type == urn.Authority
	}
	u, err := urn.Parse(n.id)
	return urn.URN{Authority: u.Authority, Type: urn.Authority, Name: "cm"}, err == nil
}

func otherContent(others map[string]int) string {
	if len(others) == 0 {
		return ""
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(others)) {
		list = append(list, fmt.Sprintf("%d %s", others[name], oneLine(name)))
	}
	return ", only " + strings.Join(list, ", ")
}
