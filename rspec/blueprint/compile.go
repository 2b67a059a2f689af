package blueprint

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/generate"
	"patchbay/rspec/match"
)

// Limits of a compilation. What is within them is within the limits of package rspec.
const (
	maxNodes      = 2000
	maxComponents = 1000
	maxSteps      = 150 // of one node
	maxExpanded   = 3 << 20
	maxElements   = 50_000
	maxStage      = 99
	maxAllowed    = 100     // patterns of providers.allow
	maxOrder      = 1 << 20 // comparisons of the order
)

// Options are what a compilation knows besides the document.
type Options struct {
	// Site is what the aggregate offers; nil if that is unknown.
	Site *inventory.Inventory
	// Library is nil for the standard one.
	Library *Library
	// Files are the files beside the source; nil if there are none.
	Files fs.FS
	// ContentDir is the folder into which larger files are written under their SHA-256, and
	// ContentURL the URL of this folder; both or neither.
	ContentDir, ContentURL string
	// Nodes and Links are the client_ids of the slice's existing nodes and links.
	Nodes, Links []string
}

// part is a component with its type and place in the request.
type part struct {
	*component
	label        string
	kind         *componentType
	requirements []*need
	pointing     []*need // requirements of others that it fulfills
	implied      bool
	urn          string
	nodes        []int
	stage        int
	state        int // of the search for cycles: 0 new, 1 entered, 2 done
	isPlaced     bool
}

// need is a requirement with its type and targets.
type need struct {
	*requirement
	kind    *requirementType
	source  *part
	fields  []field
	targets []*part
}

type compiler struct {
	problemList
	o        Options
	d        *Document
	l        *Library
	parts    []*part
	byID     map[string]*part
	global   []*need
	request  generate.Request
	taken    map[string]bool
	links    map[string]int
	joined   map[[2]string]bool
	allow    []string
	country  string
	expanded int
	elements int
	compared int
	contents map[string]*content
	implied  map[string]int
}

// Compile returns the request for the document; nil if an error is among the problems.
func Compile(d *Document, o Options) (*generate.Request, []rspec.Problem) {
	c := &compiler{o: o, d: d, l: o.Library, byID: map[string]*part{}, taken: map[string]bool{}, links: map[string]int{}, joined: map[[2]string]bool{}, contents: map[string]*content{}, implied: map[string]int{}}
	if c.l == nil {
		c.l = Standard()
	}
	if d.files != nil {
		c.o.Files = d.files
	}
	for _, name := range slices.Concat(o.Nodes, o.Links) {
		c.taken[name] = true
	}
	c.request.Language = "blueprint"
	if d.name != nil {
		c.request.Features = append(c.request.Features, generate.Feature{Name: "name", Value: flat(d.name)})
	}
	c.request.Features = append(c.request.Features, features("", d.features)...)
	for _, step := range []func(){c.declare, c.policies, c.infer, c.place, c.order, c.setUp, c.finish} {
		if step(); c.failed {
			return nil, rspec.ByLine(c.problems)
		}
	}
	return &c.request, rspec.ByLine(c.problems)
}

// flat writes a value as one text.
func flat(v *value) string {
	switch v.kind {
	case yaml.SequenceNode:
		var list []string
		for _, i := range v.items {
			list = append(list, flat(i))
		}
		return strings.Join(list, " ")
	case yaml.MappingNode:
		var list []string
		for _, f := range v.fields {
			list = append(list, f.name+"="+flat(f.value))
		}
		return strings.Join(list, " ")
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0xfffe || r == 0xffff {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(v.text, "?"))
}

// features carry what has no other place.
func features(prefix string, list []field) (out []generate.Feature) {
	for _, f := range list {
		name := strings.Join(strings.Fields(prefix+f.name), " ")
		if name != "" {
			out = append(out, generate.Feature{Name: cut(name), Value: flat(f.value)})
		}
	}
	return out
}

func (c *compiler) declare() {
	for _, d := range c.d.components {
		if p := c.add(d); p != nil && d.id != "" {
			c.byID[d.id] = p
		}
	}
	for _, r := range c.d.requires {
		if n := c.need(nil, r); n != nil {
			c.global = append(c.global, n)
		}
	}
	for i := 0; i < len(c.parts); i++ { // grows by inline and implied components
		p := c.parts[i]
		for _, r := range p.requires {
			if n := c.need(p, r); n != nil {
				p.requirements = append(p.requirements, n)
				c.point(n)
			}
		}
	}
}

// add gives a component its type if it names one.
func (c *compiler) add(d *component) *part {
	p := &part{component: d, label: d.id}
	if len(c.parts) >= maxComponents {
		c.refuse(rspec.TooBig, d.at, "divide the blueprint", "the blueprint has more than %d components", maxComponents)
		return p
	}
	if d.typeName != nil {
		if p.kind = c.l.component(d.typeName.text); p.kind == nil {
			remedy := c.unknown(d.typeName.text, c.l.componentNames())
			var servers []string
			for _, t := range c.l.components {
				if t.is("server") && !t.abstract {
					servers = append(servers, t.name)
				}
			}
			c.wrong(d.typeName, remedy+"; concrete types of server are "+strings.Join(servers, ", "), "the component type %.80q is unknown", d.typeName.text)
		}
	}
	if p.kind != nil && p.kind.form == isGroup {
		p.component = c.expandGroup(d)
	}
	c.parts = append(c.parts, p)
	return p
}

// expandGroup gives a group the requirements and attributes of its nodespec.
func (c *compiler) expandGroup(d *component) *component {
	i := slices.IndexFunc(d.attributes, func(f field) bool { return f.name == "nodespec" })
	if i < 0 {
		return d
	}
	r := &parser{d: &Document{}}
	spec := r.component(d.attributes[i].value, d.attributes[i].value, "")
	c.problems, c.failed = append(c.problems, r.problems...), c.failed || r.failed
	if spec == nil {
		return d
	}
	if spec.typeName != nil {
		if t := c.l.component(spec.typeName.text); t == nil || !t.is("server") {
			c.wrong(spec.typeName, "use server or a sub-type of it", "the nodespec has the type %.80q", spec.typeName.text)
		} else if t.sliverType != "" {
			at := spec.typeName
			spec.attributes = append(spec.attributes, field{"sliver_type", at, &value{line: at.line, column: at.column, kind: yaml.ScalarNode, text: t.sliverType}})
		}
	}
	group := *d
	group.requires = append(spec.requires, d.requires...)
	group.attributes = append(slices.Delete(slices.Clone(d.attributes), i, i+1), spec.attributes...)
	return &group
}

// need finds the type and the attributes of a requirement. source is nil for a global one.
func (c *compiler) need(source *part, r *requirement) *need {
	n := &need{requirement: r, source: source}
	name := r.typeName
	if name == "" {
		if source != nil && source.kind != nil {
			name = source.kind.defaultRequirement
		}
		if name == "" {
			var list []string
			for _, t := range c.l.requirements {
				if source != nil || t.scope == "global" {
					list = append(list, t.name)
				}
			}
			c.wrong(r.at, "name one of "+strings.Join(list, ", "), "the value %.80q names no requirement, and there is no default one", r.value.text)
			return nil
		}
	}
	if n.kind = c.l.requirement(name); n.kind == nil {
		c.wrong(r.at, c.unknown(name, c.l.requirementNames()), "the requirement type %.80q is unknown", name)
		return nil
	}
	if (source == nil) != (n.kind.scope == "global") {
		c.wrong(r.at, "move it", "the requirement %.80q is of the scope %s", name, n.kind.scope)
		return nil
	}
	short := func() {
		if n.kind.defaultName == "" {
			c.wrong(r.value, "name the attribute", "the requirement %.80q has no default attribute", name)
		} else if r.value.kind != 0 {
			n.fields = []field{{n.kind.defaultName, r.at, r.value}}
		}
	}
	switch kind := r.value.get("type"); {
	case r.value.kind != yaml.MappingNode:
		short()
	case r.isItem || kind == nil:
		n.fields = slices.DeleteFunc(slices.Clone(r.value.fields), func(f field) bool { return f.name == "type" })
	case c.l.component(kind.text) != nil:
		short()
	default:
		c.wrong(kind, "component types are "+strings.Join(c.l.componentNames(), ", ")+"; requirement types are "+strings.Join(c.l.requirementNames(), ", "), "the type %.80q is unknown", kind.text)
		return nil
	}
	return n
}

func (n *need) get(name string) *value {
	for _, f := range n.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// point finds the components that fulfill a requirement.
func (c *compiler) point(n *need) {
	if n.kind.effect != bySetup && n.kind.effect != byRelation || c.failed && len(c.problems) >= maxWrong {
		return
	}
	f := n.get("fulfillment")
	switch {
	case f == nil && n.kind.environment:
	case f == nil:
		p := c.add(&component{at: n.at})
		p.implied, p.pointing, n.targets = true, []*need{n}, []*part{p}
		c.request.Comments = append(c.request.Comments, fmt.Sprintf("line %d: %s has no fulfillment, so a component is implied", n.at.line, n.kind.name))
	default:
		list := []*value{f}
		if f.kind == yaml.SequenceNode {
			list = f.items
		}
		for _, v := range list {
			if p := c.target(n, v); p != nil && !slices.Contains(n.targets, p) {
				n.targets, p.pointing = append(n.targets, p), append(p.pointing, n)
			}
		}
	}
}

func (c *compiler) target(n *need, v *value) *part {
	switch {
	case v.kind == yaml.MappingNode:
		r := &parser{d: &Document{}}
		d := r.component(v, v, "")
		c.problems, c.failed = append(c.problems, r.problems...), c.failed || r.failed
		if d == nil {
			return nil
		}
		if d.id != "" && c.byID[d.id] != nil {
			c.wrong(v, "rename it", "the component %.80q exists already", d.id)
		}
		p := c.add(d)
		if d.id != "" {
			c.byID[d.id] = p
		}
		return p
	case v.kind != yaml.ScalarNode:
		c.wrong(v, "name a component", "a fulfillment is no reference")
		return nil
	}
	id, isExplicit := strings.CutPrefix(v.text, "id:")
	if p := c.byID[id]; p != nil {
		return p
	}
	var ids []string
	for _, p := range c.parts[:min(len(c.parts), 100)] {
		if p.id != "" && !p.implied {
			ids = append(ids, p.id)
		}
	}
	urn := ""
	if strings.HasPrefix(id, "urn:publicid:") {
		urn = id
		id = id[strings.LastIndexByte(id, '+')+1:]
		if !strings.Contains(urn, "+node+") {
			c.refuse(rspec.Unsupported, v, "name a component by its URN, with +node+", "%.80q is not the URN of a component", urn)
			return nil
		}
	}
	if isExplicit || !isID(id) || c.byID[id] != nil {
		c.wrong(v, c.unknown(id, ids), "there is no component %.80q", id)
		return nil
	}
	p := c.add(&component{at: v, id: id})
	p.implied, p.urn = true, urn
	if urn == "" {
		c.request.Comments = append(c.request.Comments, fmt.Sprintf("component %s: implied, since line %d refers to it", id, v.line))
		if remedy := c.unknown(id, ids); strings.HasPrefix(remedy, "did you mean") {
			c.warn(v, remedy, "the component %.80q is not declared, so it is implied", id)
		}
	}
	c.byID[id] = p
	return p
}

func (c *compiler) policies() {
	for _, n := range c.global {
		v := n.get(n.kind.defaultName)
		if v == nil {
			c.wrong(n.at, "give "+n.kind.defaultName, "the requirement %.80q has no value", n.kind.name)
			continue
		}
		switch n.kind.defaultName {
		case "iso3166":
			if c.country = strings.ToUpper(flat(v)); len(c.country) != 2 || v.kind != yaml.ScalarNode {
				c.wrong(v, "write one code of two letters, such as US", "%.80q is no country", flat(v))
			}
			c.request.Comments = append(c.request.Comments, "jurisdiction: components without a country, or in another one, do not match")
		case "allow":
			list := v.items
			if v.kind == yaml.ScalarNode {
				list = []*value{v}
			}
			if len(list) > maxAllowed {
				c.refuse(rspec.TooBig, v, "use wildcards", "allow has more than %d patterns", maxAllowed)
				return
			}
			for _, g := range list {
				if _, err := path.Match(g.text, ""); err != nil || g.kind != yaml.ScalarNode || len(g.text) > 200 {
					c.wrong(g, "write names with *", "%.80q is no pattern", g.text)
				}
				c.allow = append(c.allow, g.text)
			}
			c.request.Features = append(c.request.Features, generate.Feature{Name: "providers.allow", Value: flat(v)})
		default:
			c.request.Features = append(c.request.Features, features(n.kind.name+".", n.fields)...)
		}
	}
}

// isAllowed reports whether providers.allow has a type. Types without a provider in their name
// are always allowed.
func (c *compiler) isAllowed(t *componentType) bool {
	if c.allow == nil || t.abstract || !strings.ContainsAny(t.name, ".:") {
		return true
	}
	return slices.ContainsFunc(c.allow, func(glob string) bool {
		ok, _ := path.Match(glob, t.name)
		return ok
	})
}

// infer gives each part a type that has a form.
func (c *compiler) infer() {
	for _, p := range c.parts {
		declared := p.kind
		if declared == nil && len(p.pointing)+len(p.requirements) == 0 {
			c.wrong(p.at, "add type:", "the component %.80q has no type, and nothing refers to it", p.id)
			continue
		}
		var usable, rejected []string
		var chosen *componentType
		for _, t := range c.l.components {
			isCandidate := t.form != "" && p.fits(t)
			switch {
			case declared != nil && declared.form != "":
				isCandidate = isCandidate && t == declared
			case declared != nil:
				isCandidate = isCandidate && t.is(declared.name)
			}
			switch {
			case !isCandidate:
			case !c.isAllowed(t):
				rejected = append(rejected, t.name)
			case chosen == nil:
				chosen = t
				fallthrough
			default:
				usable = append(usable, t.name)
			}
		}
		if chosen == nil {
			c.explain(p, declared, rejected)
			continue
		}
		if p.kind = chosen; declared != chosen {
			c.request.Comments = append(c.request.Comments, fmt.Sprintf("component in line %d: type %s, the first of %s", p.at.line, chosen.name, strings.Join(usable, ", ")))
		}
	}
}

// fits reports whether a type offers what points at the part and knows what it requires.
func (p *part) fits(t *componentType) bool {
	return !slices.ContainsFunc(p.pointing, func(n *need) bool { return n.kind.needs != "" && !slices.Contains(t.offers, n.kind.needs) }) &&
		!slices.ContainsFunc(p.requirements, func(n *need) bool { return !slices.Contains(t.requirements, n.kind.name) })
}

func (c *compiler) explain(p *part, declared *componentType, rejected []string) {
	var why []string
	for _, n := range p.pointing {
		why = append(why, fmt.Sprintf("%s in line %d refers to it and needs %s", n.kind.name, n.at.line, n.kind.needs))
	}
	for _, n := range p.requirements {
		why = append(why, fmt.Sprintf("it requires %s in line %d", n.kind.name, n.at.line))
	}
	name := "no type fits"
	if declared != nil {
		name = "type " + declared.name + " does not fit"
	}
	remedy := "give each part a component of its own"
	if len(rejected) > 0 {
		remedy = "providers.allow excludes " + strings.Join(rejected, ", ")
	}
	c.wrong(p.at, remedy, "%.120s the component %.80q: %.600s", name, p.id, strings.Join(why, "; "))
}

// name returns a free client_id for a node or link.
func (c *compiler) name(at *value, id string) string {
	if c.taken[id] {
		c.wrong(at, "rename it", "the name %.80q is already in use", id)
	}
	c.taken[id] = true
	return id
}

// place makes nodes and the networks of groups.
func (c *compiler) place() {
	for _, p := range c.parts {
		if p.label = p.id; p.label == "" {
			kind := strings.Map(func(r rune) rune {
				if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
					return r
				}
				return '-'
			}, p.kind.name)
			p.label = fmt.Sprintf("%s-%d", kind, c.implied[kind])
			c.implied[kind]++
		}
		switch p.kind.form {
		case isNode:
			c.addNode(p, p.label, 0)
		case isNetwork:
			c.link(p.at, p.label)
		case isGroup:
			c.addGroup(p)
		}
		if c.failed {
			return
		}
	}
	for _, p := range c.parts {
		if c.nodesOf(p); p.kind.form == isSoftware && len(p.nodes) == 0 {
			c.warn(p.at, "refer to it by run, or add host:", "the component %.80q is on no node", p.label)
		}
	}
	for _, p := range c.parts {
		for _, n := range p.requirements {
			c.connect(p, n)
		}
	}
}

func (c *compiler) addGroup(p *part) {
	size, text := 1, p.attribute("initialSize")
	if n, err := strconv.Atoi(text); err != nil || n < 0 {
		c.wrong(p.at, "write a number", "the initialSize of %.80q is %.80q", p.label, text)
	} else {
		size = n
	}
	if size > maxNodes {
		c.refuse(rspec.TooBig, p.at, "make it smaller", "the tier %.80q has more than %d nodes", p.label, maxNodes)
		return
	}
	c.link(p.at, p.label)
	for i := 0; i < size && !c.failed; i++ {
		c.addNode(p, fmt.Sprintf("%s-%d", p.label, i), i)
		c.join(p.label, len(c.request.Nodes)-1)
	}
}

// attribute returns an attribute as text, or its default.
func (p *part) attribute(name string) string {
	for _, f := range p.attributes {
		if f.name == name {
			return flat(f.value)
		}
	}
	for _, a := range p.kind.attributes {
		if a.name == name {
			return a.value
		}
	}
	return ""
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

func (c *compiler) addNode(p *part, name string, ordinal int) {
	if len(c.request.Nodes) >= maxNodes {
		c.refuse(rspec.TooBig, p.at, "make tiers smaller", "the blueprint has more than %d nodes", maxNodes)
		return
	}
	n := generate.Node{ClientID: c.name(p.at, name), ComponentID: p.urn}
	n.HardwareType = first(p.attribute("hardware_type"), p.kind.hardwareType)
	n.Origin = generate.Origin{ID: p.label, Ordinal: ordinal}
	n.Origin.Features = features("", slices.DeleteFunc(slices.Clone(p.attributes), func(f field) bool {
		return slices.ContainsFunc(p.kind.attributes, func(a attribute) bool { return a.name == f.name }) || f.name == "sliver_type" || f.name == "image"
	}))
	if ordinal > 0 {
		before := &c.request.Nodes[len(c.request.Nodes)-1]
		n.SliverType, n.DiskImage, n.Require, n.Comments = before.SliverType, before.DiskImage, before.Require, before.Comments
	} else {
		c.choose(p, &n)
	}
	if c.elements += len(n.Require) + len(n.Origin.Features) + len(n.Comments) + 3; c.elements > maxElements {
		c.refuse(rspec.TooBig, p.at, "make tiers smaller", "the request would have more than %d elements", maxElements)
	}
	for _, f := range n.Origin.Features {
		c.spend(p.at, len(f.Value))
	}
	p.nodes = append(p.nodes, len(c.request.Nodes))
	c.request.Nodes = append(c.request.Nodes, n)
}

func (c *compiler) choose(p *part, n *generate.Node) {
	w := generate.Want{SliverType: first(p.attribute("sliver_type"), p.kind.sliverType)}
	if image := first(p.attribute("image"), p.kind.image); image != "" {
		w.Images = []string{image}
	}
	if c.country != "" {
		w.Require = append(w.Require, match.Constraint{Feature: "location.country", Op: match.Equal, Value: c.country})
	}
	for _, r := range p.requirements {
		v := r.get(r.kind.defaultName)
		if r.kind.effect != byMatch {
			continue
		}
		if v == nil || v.kind != yaml.ScalarNode {
			c.wrong(r.at, "give "+r.kind.defaultName, "the requirement %.80q has no value", r.kind.name)
			continue
		}
		k := match.Constraint{Feature: r.kind.feature, Op: r.kind.op, Value: flat(v)}
		if strings.HasSuffix(k.Feature, ".size") {
			k.Value = strings.ToUpper(k.Value)
		}
		w.Require = append(w.Require, k)
		if _, err := match.New(w.Require, nil); err != nil || len(w.Require) > match.MaxConstraints {
			c.wrong(v, "correct the value", "the requirement %.80q: %.300v", r.kind.name, err)
			return
		}
	}
	choice := generate.Choose(c.o.Site, w)
	n.SliverType, n.DiskImage, n.Require, n.Comments = choice.SliverType, choice.DiskImage, choice.Require, choice.Comments
}

func (c *compiler) link(at *value, name string) {
	if _, exists := c.links[name]; !exists {
		c.links[name] = len(c.request.Links)
		c.request.Links = append(c.request.Links, generate.Link{ClientID: c.name(at, name), LAN: true, Origin: generate.Origin{ID: name}})
	}
}

// join gives a node an interface on a link, once.
func (c *compiler) join(link string, node int) {
	n := &c.request.Nodes[node]
	if key := [2]string{link, n.ClientID}; !c.joined[key] {
		c.joined[key] = true
		i := generate.Interface{ClientID: fmt.Sprintf("%s:%d", n.ClientID, len(n.Interfaces))}
		n.Interfaces = append(n.Interfaces, i)
		l := &c.request.Links[c.links[link]]
		l.Interfaces = append(l.Interfaces, i.ClientID)
	}
}

// nodesOf returns the nodes of a part; those of software are the nodes that run it.
func (c *compiler) nodesOf(p *part) []int {
	if p.isPlaced || p.kind.form != isSoftware {
		return p.nodes
	}
	p.isPlaced = true
	seen := map[int]bool{}
	add := func(from *part) {
		for _, n := range c.nodesOf(from) {
			if !seen[n] {
				seen[n] = true
				p.nodes = append(p.nodes, n)
			}
		}
	}
	for _, n := range p.pointing {
		if n.kind.effect == bySetup {
			add(n.source)
		}
	}
	for _, n := range p.requirements {
		if n.kind.host {
			for _, t := range n.targets {
				add(t)
			}
		}
	}
	return p.nodes
}

// connect puts the nodes of a relation on a common link.
func (c *compiler) connect(p *part, n *need) {
	if n.kind.effect != byRelation || n.kind.host {
		return
	}
	for _, t := range n.targets {
		if len(p.nodes) == 0 || len(t.nodes) == 0 && t.kind.form != isNetwork {
			continue
		}
		link := t.label + "-net"
		switch {
		case p.kind.form == isGroup && t.kind.form != isNetwork:
			link = p.label
		case t.kind.form == isGroup, t.kind.form == isNetwork:
			link = t.label
		default:
			c.link(t.at, link)
		}
		if c.elements += len(p.nodes) + len(t.nodes); c.elements > maxElements {
			c.refuse(rspec.TooBig, p.at, "make tiers smaller", "the request would have more than %d elements", maxElements)
			return
		}
		for _, i := range slices.Concat(t.nodes, p.nodes) {
			c.join(link, i)
		}
	}
}

// order gives each part its stage: after the stages of the components that it refers to.
func (c *compiler) order() {
	for _, p := range c.parts {
		if c.stageOf(p, nil); c.failed {
			return
		}
	}
}

func (c *compiler) stageOf(p *part, path []*part) int {
	path = append(path, p)
	if p.state == 1 {
		var names []string
		for _, q := range path[slices.Index(path, p):] {
			names = append(names, q.label)
		}
		c.wrong(p.at, "remove one of these requirements", "the components require each other: %.400s", strings.Join(names, " -> "))
		p.state = 2
	}
	if p.state == 2 || c.failed {
		return p.stage
	}
	p.state = 1
	for _, n := range p.requirements {
		for _, t := range n.targets {
			after := c.stageOf(t, path)
			if n.kind.effect == byRelation && t.kind.form != isNetwork {
				after++
				if !n.kind.host {
					if c.compared += len(t.pointing); c.compared > maxOrder {
						c.refuse(rspec.TooBig, p.at, "divide the blueprint", "the blueprint has too many relations")
						return 0
					}
					for _, h := range t.pointing {
						if h.kind.host && h.source != p {
							after = max(after, c.stageOf(h.source, path)+1)
						}
					}
				}
			}
			p.stage = max(p.stage, after)
		}
	}
	if p.state = 2; p.stage > maxStage {
		c.wrong(p.at, "shorten the chain of requirements", "the component %.80q comes after %d stages", p.label, maxStage)
	}
	return p.stage
}
