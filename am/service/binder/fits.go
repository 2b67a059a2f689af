package binder

import (
	"iter"
	"math"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/match"
)

// NodeFit says on which components a node fits, and why not on others.
type NodeFit struct {
	Node *rspec.Node
	// Refused is the reason if the node fits on no component of any site like this one, for
	// example since its component_id is unknown. Then the fields below are empty.
	Refused    string
	SliverType *inventory.SliverType
	// Fits are the components on which the node fits, in the order in which Bind prefers them.
	Fits []Fit
	// Candidates counts the components that offer the sliver type and have the hardware type of
	// the node. If the request determines the component, only that one counts.
	Candidates int
	Removals   []match.Removal // of the candidates, by the node's constraints
	Obstacles  []Obstacle      // of candidates that satisfy the constraints
}

// Fit is a component on which a node fits, with what it would grant.
type Fit struct {
	Component *inventory.Component
	Grant     match.Grant
}

// Obstacle is a reason why a node does not fit on some components.
type Obstacle struct {
	Text   string // such as "held"
	Number int    // of components
}

// obstacles are the texts of verdicts. Several verdicts may have the same text.
var obstacles = map[verdict]string{
	drained: "out of service", maintained: "under maintenance", held: "held", cleaning: "being cleaned", taken: "for one node only",
	closed: "held", occupied: "in use by other slices", refused: "not available alone", full: "full",
}

// Fits returns for each node on which components it fits from the time from up to until, beside
// what slivers hold. It considers each node, or group of nodes on one host, without the rest of the
// request. So the nodes may not fit together: see Bind. Components on which a node fits only
// without its preferences come last. Fits ignores r.Permit and r.Avoid, and fails with the error
// of the calendar.
func Fits(r *Request, from, until time.Time, v *View) ([]NodeFit, error) {
	x, err := v.occupy(from, until, am.HashOf(r.Slice))
	if err != nil {
		return nil, err
	}
	b := newBinding(&Request{Request: r.Request, Slice: r.Slice, work: work{limit: math.MaxInt}}, x) // no call of an experimenter
	b.resolveAll()
	groups := b.groupsWithHosts()
	type key struct {
		demand
		group string
		host  *inventory.Component
	}
	known := map[key]NodeFit{} // requests have many equal nodes
	all := make([]NodeFit, len(b.nodes))
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.refused {
			at := slices.IndexFunc(b.reasons, func(r Reason) bool { return r.ClientID == n.Node.ClientID })
			all[i] = NodeFit{Node: n.Node, Refused: b.reasons[at].Text}
			continue
		}
		k := key{n.demand(), n.Node.Colocate, n.Component}
		f, ok := known[k]
		if !ok {
			g := groups[n.Node.Colocate]
			if g == nil {
				g = colocated{n}
			}
			f = b.nodeFitOf(n, g)
			known[k] = f
		}
		f.Node = n.Node
		all[i] = f
	}
	return all, nil
}

// groupsWithHosts returns the groups of nodes on one host. If a node of a group names a component,
// all nodes of the group get it.
func (b *binding) groupsWithHosts() map[string]colocated {
	hosts := map[string]*inventory.Component{}
	for i := range b.nodes {
		if n := &b.nodes[i]; n.Component != nil && hosts[n.Node.Colocate] == nil {
			hosts[n.Node.Colocate] = n.Component
		}
	}
	groups := map[string]colocated{}
	for i := range b.nodes {
		n := &b.nodes[i]
		name := n.Node.Colocate
		if host := hosts[name]; name != "" && !n.refused && n.Component == nil && host != nil {
			n.Component = host
			b.setTypeAndImage(n, host)
		}
		if name != "" && !n.refused {
			groups[name] = append(groups[name], n)
		}
	}
	return groups
}

// nodeFitOf returns on which components n fits together with its group g, and what prevents that on others.
// First come the components on which the preferences of g fit, too. Meanwhile it leaves these out, and then
// restores the matchings.
func (b *binding) nodeFitOf(n *node, g colocated) NodeFit {
	list := b.withoutConstraints(n)
	if n.Component != nil {
		list = slices.DeleteFunc(list, func(c *inventory.Component) bool { return c != n.Component })
	}
	f := NodeFit{SliverType: n.SliverType, Candidates: len(list)}
	if n.matching != nil {
		f.Removals, _, _ = n.matching.requirements.Removals(n.matching.candidates(list))
	}
	fitting := map[*inventory.Component]bool{}
	addFits := func() {
		for i := range b.inOrder(n, g) {
			fit := Fit{Component: b.x.inv.Components[i]}
			if n.matching != nil {
				fit.Grant = n.matching.of(fit.Component).grant
			}
			if !fitting[fit.Component] {
				fitting[fit.Component] = true
				f.Fits = append(f.Fits, fit)
			}
		}
	}
	addFits()
	saved := make([]*matching, len(g))
	for i, o := range g {
		saved[i] = o.matching
	}
	if b.leaveOutPreferences(g) {
		addFits()
	}
	addObstacle := func(text string) {
		at := slices.IndexFunc(f.Obstacles, func(o Obstacle) bool { return o.Text == text })
		if at < 0 {
			at = len(f.Obstacles)
			f.Obstacles = append(f.Obstacles, Obstacle{Text: text})
		}
		f.Obstacles[at].Number++
	}
	for _, c := range list {
		if fitting[c] || !n.matching.admits(c) {
			continue
		}
		if g.eachClassHas(c) {
			addObstacle(obstacles[b.check(int32(c.Index), g.want(c))])
		} else {
			addObstacle("unsuitable for another node of its colocate")
		}
	}
	for i, o := range g {
		o.matching = saved[i]
	}
	return f
}

// inOrder returns the components on which n and its group may be, best first.
func (b *binding) inOrder(n *node, g colocated) iter.Seq[int32] {
	switch {
	case n.Component != nil:
		return func(yield func(int32) bool) {
			if c := n.Component; n.matching.admits(c) && g.eachClassHas(c) && b.check(int32(c.Index), g.want(c)) == fits {
				yield(int32(c.Index))
			}
		}
	case len(g) > 1:
		return b.hostsOf(g).all()
	}
	return b.candidatesOf(n).all()
}
