package binder

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/match"
)

// Request is a request with what Bind must know about its caller.
type Request struct {
	*rspec.Request
	// Slice is the slice of the request. Addresses are those that it already has, with their
	// networks.
	Slice     urn.URN
	Addresses []netip.Prefix
	// Existing are the ends of the links that the links of the request join, by client_id. A link
	// without any is bound as a link of its own.
	Existing map[string][]LinkEnd
	// Kept are the slivers that nodes of the request have already, by client_id. Such a node stays on
	// its component, and its interfaces keep what they have on their links.
	Kept   map[string]*am.Sliver
	Permit Permit
	// Avoid lists components whose providers have refused slivers of this request. Only a node
	// that names such a component gets it.
	Avoid []*inventory.Component

	inventory *inventory.Inventory   // of the fields below
	kinds     []int32                // see kindsOf
	kindFirst []*inventory.Component // the first component of each kind
	hasMember map[classKey]bool      // results of exists
	matchings map[matchingKey]*matching
	listed    map[listKey][]option   // results of listOptions
	compared  int                    // see maxCompared
	texts     map[*rspec.Node]string // results of constraintText
	work      work                   // of the last Bind, with all its tries
}

type matchingKey struct {
	text       string // of the constraints
	sliverType *inventory.SliverType
	image      string
}

// matching says which components satisfy the constraints of one or more nodes. A nil matching
// admits all components.
type matching struct {
	requirements *match.Requirements
	sliverType   *inventory.SliverType
	image        *inventory.Image
	kinds        []int32  // of the components; see kindsOf
	grades       []*grade // by kind
	best         int      // the highest score of the grades; -1 if no component satisfies the constraints
}

// grade is the result for all components of one kind.
type grade struct {
	grant  match.Grant
	ok     bool
	amount am.Amount // that a sliver takes
	slack  []float64 // by which the granted values exceed what is required, in the order of the request
	rank   int       // of slack among all grades of a matching: a lower rank leaves less over
}

// maxCompared limits the comparisons of different sets of constraints: for each set, the kinds of
// components times the constraints, times one more than the preferences.
const maxCompared = 10_000_000

// matchingOf returns nil for a node without constraints, and for a node that it refuses.
func (b *binding) matchingOf(n *node) *matching {
	if n.Node.Match == nil {
		return nil
	}
	return b.matchingFor(n, n.Node, b.textOf(n.Node), n.Node.Match)
}

// textOf returns constraintText of a node of the request.
func (b *binding) textOf(n *rspec.Node) string {
	text, known := b.texts[n]
	if !known {
		text = constraintText(n)
		b.texts[n] = text
	}
	return text
}

// mayCompare reports whether constraints like those of n may be compared with one more option. The rest
// of maxCompared is for the first option of each node.
func (b *binding) mayCompare(n *rspec.Node) bool {
	return b.compared+b.comparisons(n) <= maxCompared/10
}

// comparisons returns how many comparisons a matching of the constraints of n takes; see maxCompared.
func (b *binding) comparisons(n *rspec.Node) int {
	_, first := b.kindsOf()
	constraints := len(n.Require)
	for _, p := range n.Prefer {
		constraints += len(p.Constraints)
	}
	return len(first) * constraints * (len(n.Prefer) + 1)
}

// requiredOnly returns the matching of a node without its preferences.
func (b *binding) requiredOnly(n *node) *matching {
	if len(n.Node.Prefer) == 0 {
		return n.matching
	}
	required := rspec.Node{Require: n.Node.Require}
	r, err := match.New(required.Require, nil)
	if err != nil { // the whole matching would have failed too
		return n.matching
	}
	if m := b.matchingFor(n, &required, constraintText(&required), r); m != nil {
		return m
	}
	return n.matching
}

// matchingFor returns the matching of n for the constraints of c. It returns nil if it refuses n.
func (b *binding) matchingFor(n *node, c *rspec.Node, text string, r *match.Requirements) *matching {
	k := matchingKey{text, n.SliverType, n.Image}
	m := b.matchings[k]
	if m == nil {
		kinds, first := b.kindsOf()
		b.compared += b.comparisons(c)
		if len(b.matchings) > 0 && b.compared > maxCompared {
			b.refuseFor(n, "require", am.TooBig, "the request has too many different sets of constraints for %d kinds of components; use equal constraints for more nodes, or fewer preferences", len(first))
			return nil
		}
		m = newMatching(n, r, kinds, first)
		b.matchings[k] = m
	}
	return m
}

// kindsOf returns the kind of each component, and the first component of each kind. Components of
// one kind have equal capabilities and capacities.
func (r *Request) kindsOf() (kinds []int32, first []*inventory.Component) {
	if r.kinds == nil {
		type kind struct {
			capabilities uintptr
			exclusive    bool
			location     *inventory.Location
			capacity     am.Amount
		}
		numbers := map[kind]int32{}
		r.kinds = make([]int32, len(r.inventory.Components))
		for i, c := range r.inventory.Components {
			k := kind{reflect.ValueOf(c.Capabilities).Pointer(), c.Exclusive, c.Location, c.Capacity}
			n, known := numbers[k]
			if !known {
				n = int32(len(numbers))
				numbers[k] = n
				r.kindFirst = append(r.kindFirst, c)
			}
			r.kinds[i] = n
		}
	}
	return r.kinds, r.kindFirst
}

// constraintText is equal for nodes with equal constraints.
func constraintText(n *rspec.Node) string {
	var text strings.Builder
	for _, c := range n.Require {
		fmt.Fprintf(&text, "%q%s%q;", c.Feature, c.Op, c.Value)
	}
	for _, p := range n.Prefer {
		fmt.Fprintf(&text, "%d:", p.Weight)
		for _, c := range p.Constraints {
			fmt.Fprintf(&text, "%q%s%q;", c.Feature, c.Op, c.Value)
		}
	}
	return text.String()
}

// newMatching compares r with the first component of each kind, and ranks the kinds that satisfy it by what
// they leave over.
func newMatching(n *node, r *match.Requirements, kinds []int32, first []*inventory.Component) *matching {
	m := &matching{requirements: r, sliverType: n.SliverType, kinds: kinds, grades: make([]*grade, len(first)), best: -1}
	m.image, _ = n.SliverType.Image(n.Image)
	var admitted []*grade
	for kind, c := range first {
		g := m.grade(c)
		if m.grades[kind] = g; g.ok {
			admitted = append(admitted, g)
			m.best = max(m.best, g.grant.Score)
		}
	}
	slices.SortStableFunc(admitted, func(a, b *grade) int { return slices.Compare(a.slack, b.slack) })
	for i, g := range admitted {
		if i > 0 {
			g.rank = admitted[i-1].rank
			if slices.Compare(g.slack, admitted[i-1].slack) > 0 {
				g.rank++
			}
		}
	}
	return m
}

func (m *matching) grade(c *inventory.Component) *grade {
	g := &grade{}
	if g.grant, g.ok = m.requirements.Match(m.offers(c)); !g.ok {
		return g
	}
	g.amount = m.sliverType.AmountFor(c, g.grant)
	for _, v := range g.grant.Values {
		g.slack = append(g.slack, v.Over)
	}
	return g
}

// offers returns what a sliver could get on c if nothing were held there.
func (m *matching) offers(c *inventory.Component) match.Capabilities {
	return inventory.CapabilitiesWithin(c, m.sliverType, m.image, c.Capacity)
}

func (m *matching) of(c *inventory.Component) *grade { return m.grades[m.kinds[c.Index]] }

func (m *matching) admits(c *inventory.Component) bool { return m == nil || m.of(c).ok }
