package radl

import (
	"maps"
	"slices"
	"strings"

	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/generate"
)

// Limits of a compilation, since hostile documents have many nodes in few bytes. What is within
// them is within the limits of package rspec.
const (
	maxNodes    = 2000
	maxSystems  = 100 // with nodes
	maxNetworks = 250
	maxElements = 50_000  // of the request, such as constraints and features
	maxBytes    = 4 << 20 // of texts in the request: recipes, files, parameters, features
	maxApps     = 100     // of one system
)

// Options has the input of a compilation besides the document. The zero value is useful.
type Options struct {
	// Site has the components, sliver types and images of the aggregate; nil if they are unknown.
	Site *inventory.Inventory
	// Earlier are the documents that were compiled for the slice before, in their order.
	Earlier []*Document
	// Nodes and Links are the client_ids of the slice's existing nodes and links.
	Nodes, Links []string
	// GivesAddresses means that the aggregate gives addresses of the range of a link by itself.
	GivesAddresses bool
	// Work bounds the compilation; nil for no limit. If its Err is not nil, the result is incomplete.
	Work *rspec.Work
}

// compiler compiles one document.
type compiler struct {
	report
	o Options
	// definitions of the document and the earlier ones
	definitions
	request generate.Request
	// networks are those that nodes use, by name; networkOrder has their names in the order of use.
	networks     map[string]*network
	networkOrder []string
	// systems are those with nodes, by name and manager; systemOrder has them in the order of use.
	systems     map[[2]string]*system
	systemOrder []*system
	deployed    []deployment
	// afterExisting is the number after the last existing node, and nextNumber the number of the next node,
	// by system.
	afterExisting, nextNumber map[string]int
	// playbooks and taskFiles are compiled recipes, by name.
	playbooks, taskFiles map[string]playbook
	// tooManyFiles means that a recipe was refused for what it includes.
	tooManyFiles bool
	// lines are the lines of the plan by system, once linesOf has filled it.
	lines map[string][]PlanItem
	// current is the document, and json its JSON form as a variable of recipes.
	current *Document
	json    string
	// warned has the unknown roles for which there is a warning.
	warned map[string]bool
	// roles are the Ansible roles and collections that nodes with recipes install.
	roles []role
	// architectures are those of the site, once architecture has filled it.
	architectures   map[string]bool
	elements, bytes int
}

// Compile returns the request for the document; nil if an error is among the problems.
func Compile(d *Document, o Options) (*generate.Request, []rspec.Problem) {
	c := &compiler{
		o: o, networks: map[string]*network{}, systems: map[[2]string]*system{}, afterExisting: map[string]int{},
		playbooks: map[string]playbook{}, taskFiles: map[string]playbook{}, warned: map[string]bool{},
	}
	d, dropped := d.WithoutSecrets()
	c.Add(dropped...)
	c.current = d
	c.request.Language = "radl"
	c.define(d)
	c.readExisting()
	if !c.Failed() {
		c.carryFeatures(d)
		c.planOptions()
		c.checkRecipes(d)
		c.deploy(d)
		c.addLinks()
	}
	if c.Failed() {
		return nil, c.Problems()
	}
	return &c.request, c.Problems()
}

// readExisting finds the number of the next node of each system among the existing nodes.
func (c *compiler) readExisting() {
	for _, name := range c.o.Nodes {
		if system, n, ok := splitNode(name); ok {
			c.afterExisting[system] = max(c.afterExisting[system], n+1)
		}
	}
	c.nextNumber = maps.Clone(c.afterExisting)
}

// carryFeatures copies the features of the description and of the ansible sentences to the request.
func (c *compiler) carryFeatures(d *Document) {
	if d.Description != nil {
		c.request.Features = append(c.request.Features, carried("description.", d.Description.Features)...)
	}
	for i := range d.Ansibles {
		a := &d.Ansibles[i]
		c.request.Features = append(c.request.Features, carried("ansible."+a.ID+".", a.Features)...)
	}
	c.elements += len(c.request.Features)
	for _, f := range c.request.Features {
		c.bytes += len(f.Name) + len(f.Value)
	}
}

// carried returns features as texts. Empty ones are left out.
func carried(prefix string, list []Feature) (all []generate.Feature) {
	for i := range list {
		if text := carriedText(&list[i]); text != "" {
			all = append(all, generate.Feature{Name: prefix + list[i].Name, Value: text})
		}
	}
	return all
}

// carriedText returns the value of a feature as text, with the comparison if it is not "=".
func carriedText(f *Feature) string {
	text := f.Value.String()
	if f.Op != Equal && f.Op != Contains && text != "" {
		return f.Op + " " + text
	}
	return text
}

// String returns the value as text: lists with commas, groups as in "name=x, version=1".
func (v Value) String() string {
	switch v.Kind {
	case Number:
		if v.Unit != "" && !isSizeUnit(v.Unit) {
			return v.Number + " " + v.Unit
		}
		return v.Number + v.Unit
	case List:
		return strings.Join(v.List, ",")
	case Group:
		var parts []string
		for i := range v.Group {
			parts = append(parts, v.Group[i].Name+"="+carriedText(&v.Group[i]))
		}
		return strings.Join(parts, ", ")
	}
	return v.Text
}

func isSizeUnit(unit string) bool { return unit != "" && !slices.Contains(performanceUnits, unit) }
