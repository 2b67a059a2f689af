package experiment

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"patchbay/rspec"
	"patchbay/rspec/step"
)

// compareInPlace plans for an aggregate that adds nodes to those of a slice. If canChange is true,
// the aggregate also changes nodes in place; else such nodes are replaced. The aggregate compares
// again, and refuses what a plan should have replaced.
func (p Plan) compareInPlace(previous, request *rspec.Request, canChange bool) {
	for i := range p {
		c := &p[i]
		if c.Action != Keep {
			continue
		}
		was, _ := previous.Node(c.Node)
		is, _ := request.Node(c.Node)
		if c.Why = replaceReason(was, is); c.Why != "" {
			c.Action = Replace
		}
	}
	before, now := stepsOf(previous), stepsOf(request)
	for i := range p {
		if c := &p[i]; c.Action == Keep {
			if c.Why = firstSetup(before[c.Node], now[c.Node]); c.Why != "" {
				c.Action = Replace
			}
		}
	}
	nodesChange := p.Has(Add, Replace, Remove) || len(request.Nodes) != len(previous.Nodes)
	for i := range p {
		c := &p[i]
		if c.Action != Keep {
			continue
		}
		var why []string
		why = append(why, linkChanges(previous, request, c.Node)...)
		why = append(why, laterSteps(before[c.Node], now[c.Node])...)
		why = append(why, p.stepsAgain(request, c.Node, nodesChange)...)
		if len(why) > 0 {
			c.Action, c.Why = ChangeInPlace, strings.Join(why, "; ")
			if !canChange {
				c.Action, c.Why = Replace, c.Why+", which this site cannot change in place"
			}
		}
	}
}

// replaceReason says what of the node cannot change while it exists; "" if nothing has changed.
func replaceReason(was, is *rspec.Node) string {
	changed := func(what, a, b string) string {
		return fmt.Sprintf("its %s changed: %s → %s", what, cmp.Or(a, "any"), cmp.Or(b, "any"))
	}
	switch {
	case was.SliverType != is.SliverType:
		return changed("sliver type", was.SliverType, is.SliverType)
	case was.DiskImage != is.DiskImage:
		return changed("image", was.DiskImage, is.DiskImage)
	case was.DiskImageURL != is.DiskImageURL:
		return changed("image", was.DiskImageURL, is.DiskImageURL)
	case was.ComponentID != is.ComponentID:
		return changed("component", was.ComponentID, is.ComponentID)
	case was.HardwareType != is.HardwareType:
		return changed("hardware type", was.HardwareType, is.HardwareType)
	case !reflect.DeepEqual(was.Exclusive, is.Exclusive):
		return "whether it is exclusive changed"
	case !reflect.DeepEqual(was.Require, is.Require) || !reflect.DeepEqual(was.Prefer, is.Prefer):
		return "its constraints changed"
	case was.Colocate != is.Colocate:
		return changed("host, which it shares with others (colocate),", was.Colocate, is.Colocate)
	case was.RoutableIP != is.RoutableIP:
		return "whether it has a public address changed"
	case !slices.Equal(was.DNSNames, is.DNSNames):
		return "its DNS names changed"
	}
	return ""
}

// stepsOf returns the steps of each node, as far as the request determines them.
func stepsOf(r *rspec.Request) map[string][]step.Step {
	nodes := make([]step.Node, len(r.Nodes))
	for i := range r.Nodes {
		services := r.Nodes[i].Services
		services.Steps = slices.Clone(services.Steps)
		for n := range services.Steps {
			services.Steps[n].Again = false
		}
		nodes[i] = step.Node{ClientID: r.Nodes[i].ClientID, Hostname: r.Nodes[i].ClientID, Services: &services}
	}
	all := map[string][]step.Step{}
	for i, steps := range step.Plan("", nodes, nil) {
		all[nodes[i].ClientID] = steps
	}
	return all
}

// differing returns the steps in now that are not in before.
func differing(before, now []step.Step) (list []int) {
	_, from := step.Change(before, now, false)
	for i, was := range from {
		if was < 0 {
			list = append(list, i)
		}
	}
	return list
}

// isFirst reports whether a step belongs to the first setup of its node. Steps about another node
// do not, since that node may be new.
func isFirst(s *step.Step) bool {
	_, hasRelation := s.Environment["TARGET_NODE_CLIENT_ID"]
	return s.InPlan() && s.Stage == 0 && !hasRelation
}

// firstSetup says which step of the first stage has changed; "" if none has.
func firstSetup(before, now []step.Step) string {
	for _, i := range differing(before, now) {
		if isFirst(&now[i]) {
			return fmt.Sprintf("its first setup changed: %s, %s", step.StepName(now, i), now[i].Summary())
		}
	}
	for _, i := range differing(now, before) {
		if isFirst(&before[i]) {
			return fmt.Sprintf("its first setup changed: without %s, %s", step.StepName(before, i), before[i].Summary())
		}
	}
	return ""
}

// laterSteps says what changes in the stages after the first one, and in the steps of later events.
func laterSteps(before, now []step.Step) (why []string) {
	gone := differing(now, before)
	for _, i := range differing(before, now) {
		what, again := "is new", " and runs"
		if k := slices.IndexFunc(gone, func(k int) bool { return isVersion(&before[k], &now[i]) }); k >= 0 {
			what, again, gone = "changed", " and runs again", slices.Delete(gone, k, k+1)
		}
		if now[i].InPlan() {
			what += again
		}
		why = append(why, fmt.Sprintf("%s, %s, %s", step.StepName(now, i), now[i].Summary(), what))
	}
	for _, i := range gone {
		why = append(why, fmt.Sprintf("%s, %s, is no longer in the request", step.StepName(before, i), before[i].Summary()))
	}
	return why
}

// isVersion reports whether a step of the new request takes the place of an earlier one: both have the same
// name, or both have no name and are in the same stage.
func isVersion(was, is *step.Step) bool {
	return was.Kind == is.Kind && was.Operation == is.Operation && was.Name == is.Name && (is.Name != "" || was.Stage == is.Stage)
}

// stepsAgain says which steps of a node run again because other nodes change.
func (p Plan) stepsAgain(request *rspec.Request, name string, nodesChange bool) (why []string) {
	for i := range request.Nodes {
		n := &request.Nodes[i]
		for k := range n.Services.Steps {
			q := &n.Services.Steps[k]
			on, other := n.ClientID, "" // where the step runs, and the node of its relation
			if q.Relation != nil {
				other = q.Relation.ClientID
				if q.Relation.OnTarget {
					on, other = other, on
				}
			}
			switch {
			case on != name || !q.InPlan():
			case q.Again && nodesChange:
				why = append(why, fmt.Sprintf("a step, %s, runs again, because the nodes change", q.Summary()))
			case other != "" && p.allocates(other):
				why = append(why, fmt.Sprintf("a step, %s, runs again, because it has a relation to %s", q.Summary(), other))
			}
		}
	}
	return why
}

// linkChanges says what changes at the links of a node that stays.
func linkChanges(previous, request *rspec.Request, name string) (why []string) {
	was, is := endsOf(previous, name), endsOf(request, name)
	for _, e := range is {
		old, known := find(was, e.id)
		switch {
		case !known || old.link == nil && e.link != nil:
			why = append(why, "it joins "+e.text())
		case old.text() != e.text():
			why = append(why, fmt.Sprintf("its interface %s moves from %s to %s", e.id, old.text(), e.text()))
		case !slices.Equal(old.addresses, e.addresses):
			why = append(why, fmt.Sprintf("the address of its interface %s changed", e.id))
		case e.link != nil:
			if what := propertiesChanged(old.link, e.link); what != "" {
				why = append(why, fmt.Sprintf("%s changed: %s", e.text(), what))
			}
		}
	}
	for _, e := range was {
		if _, ok := find(is, e.id); !ok {
			why = append(why, "it leaves "+e.text())
		}
	}
	return why
}

// linkEnd is an interface of a node, and its link; nil if it is on none that is made here.
type linkEnd struct {
	id        string
	link      *rspec.Link
	addresses []string
}

func (e linkEnd) text() string {
	if e.link == nil {
		return "no link"
	}
	return "the link " + e.link.ClientID
}

func find(list []linkEnd, id string) (linkEnd, bool) {
	i := slices.IndexFunc(list, func(e linkEnd) bool { return e.id == id })
	if i < 0 {
		return linkEnd{}, false
	}
	return list[i], true
}

func endsOf(r *rspec.Request, name string) (list []linkEnd) {
	n, ok := r.Node(name)
	if !ok {
		return nil
	}
	for i := range n.Interfaces {
		e := linkEnd{id: n.Interfaces[i].ClientID}
		for _, a := range n.Interfaces[i].Addresses {
			e.addresses = append(e.addresses, a.String())
		}
		if l := slices.IndexFunc(r.Links, func(l rspec.Link) bool { return slices.Contains(l.Interfaces, e.id) }); l >= 0 {
			e.link = &r.Links[l]
		}
		list = append(list, e)
	}
	return list
}

// propertiesChanged names what differs in the properties of two links; "" for nothing. It ignores
// properties of ends that only one of them has.
func propertiesChanged(was, is *rspec.Link) string {
	type direction struct{ source, dest string }
	list := func(l, other *rspec.Link) map[direction]rspec.Property {
		all := map[direction]rspec.Property{}
		for _, p := range l.Properties {
			if (p.Source == "" || slices.Contains(other.Interfaces, p.Source)) && (p.Dest == "" || slices.Contains(other.Interfaces, p.Dest)) {
				all[direction{p.Source, p.Dest}] = p
			}
		}
		return all
	}
	a, b := list(was, is), list(is, was)
	var what []string
	note := func(name string, differs bool) {
		if differs && !slices.Contains(what, name) {
			what = append(what, name)
		}
	}
	for _, pair := range [][2]map[direction]rspec.Property{{a, b}, {b, a}} {
		for d, x := range pair[0] {
			y := pair[1][d]
			note("capacity", x.Capacity != y.Capacity)
			note("latency", x.Latency != y.Latency)
			note("packet loss", x.Loss != y.Loss)
		}
	}
	note("link type", !strings.EqualFold(was.Type, is.Type))
	note("physical link", was.ComponentID != is.ComponentID)
	note("shared VLAN", was.SharedVLAN != is.SharedVLAN)
	slices.Sort(what)
	return strings.Join(what, ", ")
}
