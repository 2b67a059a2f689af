package policy

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/am/urn"
	"patchbay/inventory/yamlfile"
)

// Remarks are what an operator may not have meant, though it is no mistake.
func (r *Rules) Remarks() []yamlfile.Problem {
	if r == nil {
		return nil
	}
	return r.remarks
}

// Rules are held against each other as far as that takes no time worth a word.
const (
	maxCompared = 300    // of those before a rule
	maxHidden   = 10_000 // pairs of patterns of two rules
)

// remark finds rules that nobody reaches, that tools pass by, and keys that change
// nothing.
func (r *Rules) remark(site Site) {
	add := func(x *Rule, format string, args ...any) {
		if len(r.remarks) < maxRemarks {
			r.remarks = append(r.remarks, yamlfile.Problem{File: r.file, Line: x.line, Msg: fmt.Sprintf("rule %q: ", x.Name) + fmt.Sprintf(format, args...)})
		}
	}
	forAll := slices.ContainsFunc(r.list, func(x *Rule) bool { return x.who == nil && x.projects == nil })
	passed := slices.IndexFunc(r.list, func(x *Rule) bool { return x.who != nil && x.refuse != "" })
	if passed >= 0 && r.otherwise == nil && !forAll {
		add(r.list[passed], "it does not refuse a tool that calls for itself, for who fits users only, and whom no rule fits may have all; end with otherwise: refuse, or with a rule without who and projects")
	}
	for i, x := range r.list {
		for _, y := range r.list[:min(i, maxCompared)] {
			if len(x.who)*len(y.who) <= maxHidden && len(x.projects)*len(y.projects) <= maxHidden && y.hides(x) {
				add(x, "nobody gets as far as this: all for whom it is are taken by rule %q in line %d; put it above, or drop it", y.Name, y.line)
				break
			}
		}
		for _, p := range slices.Concat(x.who, x.projects) {
			if p.wide() {
				add(x, "%s ends in a star in its first part, which fits names that others own, too, such as %sevil.example.net; write what follows out", &p, strings.TrimSuffix(p.labels[0], "*"))
			}
		}
		if x.refuse != "" && (x.types != nil || x.components != nil || x.limits != noLimits || x.terms != nil) {
			add(x, "it refuses all that is new, so sliver_types, components, nodes, cores, disk and terms change nothing")
		}
		for i, takers := range [...][]string{1: site.Cores, site.Disk} {
			if i == 0 || x.limits[i] == boundless || slices.ContainsFunc(takers, x.lets) {
				continue
			}
			of := "of the inventory"
			if x.types != nil {
				of = "that it allows"
			}
			add(x, "no sliver type %s takes %s (needs, in the inventory), so %[2]s limits nothing; use nodes", of, counted[i].key)
		}
	}
}

// lets tells whether the rule allows a sliver type.
func (x *Rule) lets(sliverType string) bool {
	return x.types == nil || slices.Contains(x.types, sliverType)
}

// Strangers are the patterns of rules whom none of authorities, nor one below,
// may ever fit, with the line of their rule.
func (r *Rules) Strangers(authorities []string) []yamlfile.Problem {
	var all []yamlfile.Problem
	if r == nil {
		return nil
	}
	for _, x := range r.list {
		for _, p := range slices.Concat(x.who, x.projects) {
			if !slices.ContainsFunc(authorities, p.meets) && len(all) < maxRemarks {
				all = append(all, yamlfile.Problem{File: r.file, Line: x.line, Msg: fmt.Sprintf("rule %q: %s fits nobody: no trusted certificate speaks for such names; look for a slip", x.Name, &p)})
			}
		}
	}
	return all
}

// Sentences are a line for each rule, and one for whom none fits.
func (r *Rules) Sentences() []string {
	if r == nil {
		return nil
	}
	var all []string
	for _, x := range r.list {
		whom := "all"
		if x.who != nil {
			whom = fewPatterns(x.who)
		}
		if x.projects != nil {
			whom += " in " + fewPatterns(x.projects)
		}
		all = append(all, fmt.Sprintf("rule %q, for %s: %s", x.Name, whom, strings.Join(x.sentences(), "; ")))
	}
	if r.otherwise != nil {
		return append(all, "whom no rule fits may have nothing")
	}
	return append(all, "whom no rule fits may have all that the site's leases allow")
}

func fewPatterns(all []pattern) string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].text
	}
	return yamlfile.Few(names)
}

// sentences say what the rule allows.
func (x *Rule) sentences() []string {
	var all []string
	if x.refuse != "" {
		all = append(all, "nothing new: "+x.adding(x.refuse))
	} else {
		types, components := "all sliver types", "all components"
		if x.types != nil {
			types = "only " + strings.Join(x.types, ", ")
		}
		if x.components != nil {
			components = "only " + x.components.text
		}
		all = append(all, types+" on "+components)
		for i, c := range counted {
			all = append(all, x.limits[i].say(c.one)...)
		}
	}
	for _, l := range []struct {
		text string
		d    time.Duration
	}{{"the first lease at most %s", x.lease.first}, {"renewals to at most %s from then", x.lease.renew}, {"slivers live at most %s", x.lease.longest}} {
		if l.d > 0 {
			all = append(all, fmt.Sprintf(l.text, sayTime(l.d)))
		}
	}
	if x.terms != nil && x.refuse == "" {
		all = append(all, fmt.Sprintf("once accepted %s, by a line in %s (case does not matter)", x.terms.url, filepath.Base(x.terms.file)))
	}
	if x.says != "" && x.refuse == "" {
		all = append(all, "refusals say: "+x.says)
	}
	return all
}

func (m most) say(what string) (all []string) {
	for _, l := range []struct {
		n   int64
		who string
	}{{m.user, "user"}, {m.slice, "slice"}, {m.project, "project"}} {
		if l.n != unlimited {
			all = append(all, fmt.Sprintf("at most %s a %s", plural(l.n, what), l.who))
		}
	}
	return all
}

// Explanation is what a user may do in a slice.
type Explanation struct {
	// Rule is the name of the rule that decides; "" for none.
	Rule string
	Line int // of the rule; 0 for none
	// May are sentences about what may be had.
	May []string
	// Refused is why nothing new may be had; "" if something may.
	Refused string
}

// Explain says what user may do in slice. A zero slice stands for any that no
// rule is for by its project.
func (r *Rules) Explain(user, slice urn.URN) Explanation {
	x := r.find(user, slice)
	if x == nil {
		return Explanation{May: []string{"all that the site's leases allow"}}
	}
	p := &Permit{rule: x, user: user, slice: slice}
	e := Explanation{Rule: x.Name, Line: x.line, May: x.sentences()}
	if x.refuse != "" {
		e.May = e.May[1:] // it is in Refused
	}
	if err := p.Begin(); err != nil {
		e.Refused = err.Error()
	}
	return e
}

// Full is why user may have nothing new in slice beside what is held, by the limits
// of the rule that decides; "" if something may be had. Where no node with a core may
// be had, though others may, that is what it says. A zero slice stands for any.
func (r *Rules) Full(user, slice urn.URN, held Held) string {
	x := r.find(user, slice)
	if x == nil || x.refuse != "" {
		return ""
	}
	p := &Permit{rule: x, user: user, slice: slice}
	for i, m := range x.limits {
		if slice.IsZero() { // nobody knows what it and its project hold
			m.slice, m.project = unlimited, unlimited
		}
		if err := p.beside(held, i, m, 1); err != nil {
			return err.Error()
		}
	}
	return ""
}
