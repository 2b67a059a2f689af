package blueprint

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"patchbay/rspec"
	"patchbay/rspec/generate"
	"patchbay/rspec/hostname"
	"patchbay/rspec/step"
)

// spend counts n bytes of texts in the request, and refuses the request once if there are too many.
func (c *compiler) spend(at *value, n int) {
	before := c.expanded
	if c.expanded += n; c.expanded > maxExpanded && before <= maxExpanded {
		c.refuse(rspec.TooBig, at, "use smaller files, fewer nodes, or the options --content DIR and --content-url URL of compile", "the texts of the request have more than %d bytes together", maxExpanded)
	}
}

// addStep adds a step to a node.
func (c *compiler) addStep(at *value, node int, s generate.Step) {
	n := &c.request.Nodes[node]
	if len(n.Steps) >= maxSteps && !c.stopped() {
		c.refuse(rspec.TooBig, at, "put several scripts into one", "the node %.80q has more than %d steps", n.ClientID, maxSteps)
	}
	size := len(s.Body) + 100
	for _, f := range s.Files {
		size += len(f.Body)
	}
	for _, p := range s.Parameters {
		size += len(p.Name) + len(p.Value)
		if len(p.Value) > maxInline/2 && !c.stopped() {
			c.refuse(rspec.TooBig, at, "shorten it", "the attribute %.80q has more than %d bytes", p.Name, maxInline/2)
		}
	}
	if c.spend(at, size); !c.stopped() {
		n.Steps = append(n.Steps, s)
	}
}

// nameNodes gives the nodes their DNS names, and finds out by which names others reach them.
func (c *compiler) nameNodes() {
	for _, p := range c.parts {
		for _, n := range p.requirements {
			if n.kind.environment && len(n.targets) == 0 {
				c.addDNSName(p, n)
			}
		}
	}
	var nodes []hostname.Node
	for i := range c.request.Nodes {
		n := hostname.Node{ClientID: c.request.Nodes[i].ClientID}
		for _, x := range c.request.Nodes[i].Interfaces {
			n.DNSNames = append(n.DNSNames, x.DNSNames...)
		}
		nodes = append(nodes, n)
	}
	for _, id := range c.o.Nodes {
		nodes = append(nodes, hostname.Node{ClientID: id})
	}
	hostname.Assign(nodes)
	c.names = hostname.Name(nodes)[:len(c.request.Nodes)]
}

// addSteps gives the nodes their steps: the actions of parts, and those of relations.
func (c *compiler) addSteps() {
	for _, p := range c.parts {
		if p.kind.form != isSoftware {
			c.addActions(p, p, p.nodes)
		}
		for _, n := range p.requirements {
			c.checkPorts(p, n)
			for _, t := range n.targets {
				switch {
				case c.stopped():
					return
				case n.kind.effect == bySetup && t.kind.form == isSoftware:
					c.addActions(t, p, p.nodes)
				case n.kind.effect == byRelation && n.kind.host && p.kind.form == isSoftware:
					c.addActions(p, p, t.nodes)
				case n.kind.effect == byRelation:
					c.addRelation(p, t, n)
				}
			}
		}
		if c.stopped() {
			return
		}
	}
}

// notVariables are the attributes that describe the node itself.
var notVariables = []string{"content", "nodespec", "sliver_type", "image", "hardware_type"}

// variables returns the attributes of a type as parameters.
func variables(known []attribute, get func(name string) string) (list []generate.Feature) {
	for _, a := range known {
		if !slices.Contains(notVariables, a.name) {
			list = append(list, generate.Feature{Name: a.name, Value: get(a.name)})
		}
	}
	return list
}

// runsContent reports whether the content of software is a script, which gets all attributes as
// variables.
func (p *part) runsContent() bool {
	return slices.ContainsFunc(p.kind.actions, func(a action) bool { return a.content == "run" || a.content == "load" })
}

// checkVariable fails if an attribute that its type does not know cannot be a variable.
func checkVariable(name string) error {
	if strings.HasSuffix(name, "_nodes") { // of a relation
		return errors.New("names that end in _nodes are those of relations")
	}
	_, err := (&step.Requested{Parameters: []step.Parameter{{Name: name}}}).CheckNames(nil, nil)
	return err
}

// ownVariables returns the attributes of a script that its type does not know.
func (p *part) ownVariables() (list []generate.Feature) {
	seen := map[string]bool{}
	for _, a := range p.kind.attributes {
		seen[step.Variable(a.name)] = true
	}
	for _, f := range p.attributes {
		if v := step.Variable(f.name); !seen[v] && f.name != "description" && checkVariable(f.name) == nil {
			seen[v] = true
			list = append(list, generate.Feature{Name: f.name, Value: flat(f.value)})
		}
	}
	return list
}

// stepName returns a name such as "install database db". It does not repeat the name of the component.
func stepName(a action, p *part) string {
	if a.name == p.label || strings.HasSuffix(a.name, " "+p.label) {
		return a.name
	}
	return a.name + " " + p.label
}

// addActions adds the actions of p as steps to the nodes, in the stage of the part by.
func (c *compiler) addActions(p, by *part, nodes []int) {
	if len(nodes) == 0 {
		return
	}
	for _, a := range p.kind.actions {
		s := generate.Step{Kind: generate.Script, Name: stepName(a, p), Stage: by.stage, Language: "sh", Operation: a.operation, Body: []byte(a.script)}
		s.Parameters = variables(p.kind.attributes, p.attribute)
		if p.kind.form == isSoftware {
			s.AsUser = slices.Contains([]string{"false", "no", "off"}, strings.ToLower(p.attribute("sudo")))
		}
		if a.content == "run" || a.content == "load" {
			s.Parameters = append(s.Parameters, p.ownVariables()...)
		}
		if a.content != "" && !c.addContent(p, a, &s) {
			continue
		}
		for _, n := range nodes {
			c.addStep(p.at, n, s)
		}
	}
}

// variable returns the value of an attribute of n, a relation of p, and its place. The attribute is in the
// requirement, or else in the component; otherwise it has the default of its type, which must know it.
func (n *need) variable(p *part, name string) (text string, at *value) {
	if v := n.get(name); v != nil {
		return flat(v), v
	}
	if slices.Contains(names(p.kind.attributes), name) {
		return p.attribute(name), cmp.Or(p.value(name), n.at)
	}
	i := slices.IndexFunc(n.kind.attributes, func(a attribute) bool { return a.name == name })
	return n.kind.attributes[i].value, n.at
}

// checkPorts refuses ports that the load balancer could not use.
func (c *compiler) checkPorts(p *part, n *need) {
	if !n.kind.hasPorts {
		return
	}
	for _, name := range []string{"publicPort", "membersPort"} {
		text, at := n.variable(p, name)
		if port, err := strconv.Atoi(text); err != nil || port < 1 || port > 65535 || strconv.Itoa(port) != text {
			c.wrong(at, "write a number from 1 to 65535", "the %s of the requirement %s is %.80q", name, n.kind.name, text)
		}
	}
}

// addRelation adds the actions of n, a relation from p to t, as steps: one for each pair of nodes. If an action runs on
// the target, there is one for each target. The nodes of p also get the names of the targets.
func (c *compiler) addRelation(p, t *part, n *need) {
	if len(p.nodes) == 0 || len(t.nodes) == 0 {
		return
	}
	var members []string
	for _, i := range p.nodes {
		members = append(members, c.names[i])
	}
	var targets []string
	for _, i := range t.nodes {
		targets = append(targets, c.names[i])
	}
	for _, i := range p.nodes {
		c.addTargetNames(n, i, strings.Join(targets, " "))
	}
	for _, a := range n.kind.actions {
		s := generate.Step{Kind: generate.Script, Name: stepName(a, p), Stage: p.stage, Language: "sh", Operation: a.operation, Body: []byte(a.script), OnTarget: a.onTarget}
		s.Parameters = append(variables(n.kind.attributes, func(name string) string {
			text, _ := n.variable(p, name)
			return text
		}), generate.Feature{Name: "members", Value: strings.Join(members, " ")})
		sources := p.nodes
		if a.onTarget {
			sources = sources[:1]
		}
		for _, target := range t.nodes {
			for _, source := range sources {
				if s.Relation = c.request.Nodes[target].ClientID; source != target {
					c.addStep(n.at, source, s)
				}
			}
			if c.stopped() {
				return
			}
		}
	}
}

// addTargetNames adds the names of the nodes to which a requirement refers to a parameter of the node.
func (c *compiler) addTargetNames(n *need, node int, names string) {
	name, list := n.kind.name+"_nodes", &c.request.Nodes[node].Parameters
	i := slices.IndexFunc(*list, func(f generate.Feature) bool { return f.Name == name })
	if i < 0 {
		*list = append(*list, generate.Feature{Name: name, Value: names})
	} else {
		(*list)[i].Value += " " + names
	}
	if c.spend(n.at, len(names)); len(names) > maxInline/2 && !c.stopped() {
		c.refuse(rspec.TooBig, n.at, "make the tier smaller", "the names of the nodes of a tier have more than %d bytes", maxInline/2)
	}
}

// addDNSName gives the nodes of p the DNS name of a requirement, at their first interface.
func (c *compiler) addDNSName(p *part, n *need) {
	v := n.get("hostname")
	if v == nil || !rspec.IsDNSName(flat(v)) {
		if v == nil {
			v = &value{}
		}
		c.wrong(n.at, "give hostname a name such as www.example.org", "the requirement %.80q: %.80q is not a DNS name", n.kind.name, flat(v))
		return
	}
	for _, i := range p.nodes {
		node := &c.request.Nodes[i]
		if len(node.Interfaces) == 0 {
			node.Interfaces = []generate.Interface{{ClientID: node.ClientID + ":0"}}
		}
		node.Interfaces[0].DNSNames = append(node.Interfaces[0].DNSNames, flat(v))
		c.spend(n.at, len(flat(v)))
	}
}

// finish removes links without ends, and adds a comment if no component has a node. It counts the nodes' own variables
// (see addTargetNames) once for each step, since each step gets them.
func (c *compiler) finish() {
	for i := range c.request.Nodes {
		n := &c.request.Nodes[i]
		for _, p := range n.Parameters {
			// a relation gives a step the variables of two nodes
			if c.spend(nil, 2*len(n.Steps)*len(p.Value)); len(p.Value) > maxInline/2 && !c.stopped() { // addTargetNames has checked each list, but not their sum
				c.refuse(rspec.TooBig, nil, "make tiers smaller", "the node %.80q refers to too many others", n.ClientID)
			}
		}
	}
	if len(c.request.Nodes) == 0 && len(c.d.components) > 0 {
		c.request.Comments = append(c.request.Comments, "no component has a node")
	}
	c.request.Links = slices.DeleteFunc(c.request.Links, func(l generate.Link) bool { return len(l.Interfaces) == 0 })
}
