package radl

import (
	"strings"
)

// parsePlan reads a contextualize sentence.
func (p *parser) parsePlan(at Place) (ok bool) {
	plan := Plan{Place: at}
	if !p.token.is("(") {
		if plan.Deadline, ok = p.parseCount("the number of seconds of contextualize"); !ok {
			return false
		}
	}
	if !p.expect("(", "after contextualize") {
		return false
	}
	for !p.accept(")") {
		t := p.advance()
		switch {
		case t.is("system"):
			item, ok := p.parsePlanItem(t.Place)
			if !ok {
				return false
			}
			plan.Items = append(plan.Items, item)
		case t.is("option"):
			f, ok := p.parseFeature(true)
			if !ok {
				return false
			}
			plan.Options = append(plan.Options, f)
		default:
			p.wrong(t.Place, "write lines such as: system ID configure ID step 1", "there is %s in contextualize", t)
			return false
		}
	}
	p.plans = append(p.plans, &plan)
	return true
}

func (p *parser) parsePlanItem(at Place) (i PlanItem, ok bool) {
	i.Place = at
	if i.System, ok = p.parseID("system in contextualize"); !ok || !p.expect("configure", "after the system") {
		return i, false
	}
	if i.Recipe, ok = p.parseID("configure sentence in contextualize"); !ok {
		return i, false
	}
	for {
		switch {
		case p.accept("step"):
			if i.Step, ok = p.parseCount("the step"); !ok {
				return i, false
			}
		case p.accept("with"):
			t := p.advance()
			if i.Tool, ok = toolNamed(t.text); !ok || t.kind != wordToken {
				p.wrong(t.Place, "write Ansible or cloud_init", "%.40s is not a tool for recipes", t)
			}
		default:
			if i.Step > 0 && i.Tool == CloudInit {
				p.wrong(at, "leave the step out", "a line has step %d with cloud_init, which runs when the node starts, before all steps", i.Step)
			}
			return i, true
		}
	}
}

// toolNamed returns the tool of a plan's line by its name in any case.
func toolNamed(name string) (tool string, ok bool) {
	switch strings.ToLower(strings.ReplaceAll(name, "-", "_")) {
	case "ansible":
		return Ansible, true
	case "cloud_init":
		return CloudInit, true
	}
	return "", false
}

// mergePlans merges contextualize sentences: the longest deadline counts, and the last line of the
// same system and recipe. It returns nil if there is none.
func mergePlans(list []*Plan) *Plan {
	if len(list) == 0 {
		return nil
	}
	all := Plan{Place: list[0].Place}
	type pair struct{ system, recipe string }
	at := map[pair]int{}
	for _, p := range list {
		all.Deadline = max(all.Deadline, p.Deadline)
		all.Options = append(all.Options, p.Options...)
		for _, x := range p.Items {
			key := pair{x.System, x.Recipe}
			if i, again := at[key]; again {
				all.Items[i] = x
				continue
			}
			at[key] = len(all.Items)
			all.Items = append(all.Items, x)
		}
	}
	return &all
}
