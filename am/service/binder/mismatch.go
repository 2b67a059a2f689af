package binder

import (
	"fmt"
	"strings"

	"patchbay/am"
	"patchbay/inventory"
	"patchbay/rspec/match"
)

// refuseMismatch refuses a node that names a component that does not satisfy its constraints.
func (b *binding) refuseMismatch(n *node, c *inventory.Component) {
	e := n.matching.explain([]*inventory.Component{c})
	failed := e.Removals[0].Constraint
	b.refuseFor(n, failed.String(), am.Unsupported, "%s does not satisfy %s; %s", c.Name, failed, remedyOf(e))
}

// refuseUnmatched refuses a node whose constraints no component satisfies.
func (b *binding) refuseUnmatched(n *node) {
	b.refuseOnce(n, explainedKey{classKey: n.class(), what: "unmatched"}, func() { b.explainUnmatched(n) })
}

func (b *binding) explainUnmatched(n *node) {
	all := b.withoutConstraints(n)
	e := n.matching.explain(all) // all offer the type, so constraints remove them
	last := e.Removals[len(e.Removals)-1].Constraint
	b.refuseFor(n, last.String(), am.TooBig, "no %s satisfies its constraints: %v; relax %s", n.SliverType.Name, e, last)
}

// withoutConstraints returns the components that n could have if it had no constraints.
func (b *binding) withoutConstraints(n *node) (all []*inventory.Component) {
	k := n.class()
	k.matching = nil
	for _, i := range b.class(k).members {
		all = append(all, b.x.inv.Components[i])
	}
	return all
}

func remedyOf(e *match.NoneError) string {
	if len(e.Nearest) == 0 {
		return "nothing is known about that feature there; name another component, or none"
	}
	return fmt.Sprintf("it has %s; name another component, or none", strings.Join(e.Nearest, ", "))
}

// removals returns a text about how many candidates each constraint of n removes, with a
// separator at its end. It returns "" if the constraints remove none.
func (b *binding) removals(n *node) string {
	if n.matching == nil {
		return ""
	}
	text, known := b.removed[n.matching]
	if !known {
		text = b.removalsText(n)
		b.removed[n.matching] = text
	}
	return text
}

func (b *binding) removalsText(n *node) string {
	all := b.withoutConstraints(n)
	removals, _, _ := n.matching.requirements.Removals(n.matching.candidates(all))
	if len(removals) == 0 {
		return ""
	}
	var texts []string
	for _, r := range removals {
		texts = append(texts, fmt.Sprintf("%s removes %d", r.Constraint, r.Removed))
	}
	return fmt.Sprintf("of %d candidates, %s; ", len(all), strings.Join(texts, ", "))
}

// explain returns why none of the components satisfies the constraints.
func (m *matching) explain(all []*inventory.Component) *match.NoneError {
	return m.requirements.Explain(m.candidates(all))
}

func (m *matching) candidates(all []*inventory.Component) []match.Candidates {
	var list []match.Candidates
	places := make([]int, len(m.grades)) // of each kind in list, from 1
	for _, c := range all {
		at := &places[m.kinds[c.Index]]
		if *at == 0 {
			list = append(list, match.Candidates{Offers: m.offers(c)})
			*at = len(list)
		}
		list[*at-1].Number++
	}
	return list
}
