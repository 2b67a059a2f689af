package policy

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/am/urn"
	"patchbay/schemas/yamlfile"
)

// Remarks returns warnings: parts of the rules that are valid but may not be intended.
func (r *Rules) Remarks() []yamlfile.Problem {
	if r == nil {
		return nil
	}
	return r.remarks
}

const (
	// maxCompared is the number of earlier rules that each rule is compared with. maxHidden is
	// the number of pairs of patterns that are compared for two rules. Both limit the time of a
	// check.
	maxCompared = 300
	maxHidden   = 10_000
)

// addRemarks adds the warnings of Remarks that concern whole rules.
func (r *Rules) addRemarks(site Site) {
	add := func(x *Rule, format string, args ...any) {
		if len(r.remarks) < maxRemarks {
			r.remarks = append(r.remarks, yamlfile.Problem{File: r.file, Line: x.line, Msg: fmt.Sprintf("rule %q: ", x.Name) + fmt.Sprintf(format, args...)})
		}
	}
	forAll := slices.ContainsFunc(r.list, func(x *Rule) bool { return x.who == nil && x.projects == nil })
	passed := slices.IndexFunc(r.list, func(x *Rule) bool { return x.who != nil && x.refuse != "" })
	if passed >= 0 && r.otherwise == nil && !forAll {
		add(r.list[passed], "it does not refuse a tool that calls for itself: who matches only users, and callers that match no rule may reserve everything; end the file with otherwise: refuse, or with a rule without who and projects")
	}
	for i, x := range r.list {
		for _, y := range r.list[:min(i, maxCompared)] {
			if len(x.who)*len(y.who) <= maxHidden && len(x.projects)*len(y.projects) <= maxHidden && y.shadows(x) {
				add(x, "this rule never applies: rule %q in line %d matches all its users first; put it above that rule, or drop it", y.Name, y.line)
				break
			}
		}
		for _, p := range slices.Concat(x.who, x.projects) {
			if p.isTooWide() {
				add(x, "%s ends in a star in its first part, which also matches names of other authorities, such as %sevil.example.net; write the whole part", &p, strings.TrimSuffix(p.labels[0], "*"))
			}
		}
		if x.refuse != "" && (x.types != nil || x.components != nil || x.limits != noLimits || x.ahead != nil || x.terms != nil) {
			add(x, "it refuses every new reservation, so sliver_types, components, nodes, cores, disk, ahead and terms have no effect")
		}
		for i, takers := range [...][]string{1: site.Cores, site.Disk} { // i is the index in counted; each type takes a node
			if i == 0 || x.limits[i] == boundless || slices.ContainsFunc(takers, x.allowsType) {
				continue
			}
			of := "of the inventory"
			if x.types != nil {
				of = "that it allows"
			}
			add(x, "no sliver type %s takes %s, so the key %[2]s limits nothing; use nodes, or set needs of the type in the inventory", of, counted[i].key)
		}
	}
}

func (x *Rule) allowsType(sliverType string) bool {
	return x.types == nil || slices.Contains(x.types, sliverType)
}

// UnmatchedPatterns returns a problem, with the line of the rule, for each pattern that cannot
// match a user or project of the authorities or of their sub-authorities.
func (r *Rules) UnmatchedPatterns(authorities []string) []yamlfile.Problem {
	var all []yamlfile.Problem
	if r == nil {
		return nil
	}
	for _, x := range r.list {
		for _, p := range slices.Concat(x.who, x.projects) {
			if !slices.ContainsFunc(authorities, p.mayMatch) && len(all) < maxRemarks {
				all = append(all, yamlfile.Problem{File: r.file, Line: x.line, Msg: fmt.Sprintf("rule %q: %s matches no user: no trusted authority can issue such a name; check the spelling", x.Name, &p)})
			}
		}
	}
	return all
}

// Sentences returns one line about each rule, and a last line about users that match no rule.
func (r *Rules) Sentences() []string {
	if r == nil {
		return nil
	}
	var all []string
	for _, x := range r.list {
		whom := "all"
		if x.who != nil {
			whom = listPatterns(x.who)
		}
		if x.projects != nil {
			whom += " in " + listPatterns(x.projects)
		}
		all = append(all, fmt.Sprintf("rule %q, for %s: %s", x.Name, whom, strings.Join(x.sentences(), "; ")))
	}
	if r.otherwise != nil {
		return append(all, "users that match no rule may reserve nothing")
	}
	return append(all, "users that match no rule may reserve everything; only the site's limits on leases apply")
}

func listPatterns(all []pattern) string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].text
	}
	return yamlfile.Few(names)
}

func (x *Rule) sentences() []string {
	var all []string
	if x.refuse != "" {
		all = append(all, "nothing new: "+x.withHint(x.refuse))
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
			all = append(all, x.limits[i].sentences(c.one)...)
		}
		all = append(all, x.ahead.sentences()...)
	}
	for _, l := range []struct {
		text string
		d    time.Duration
	}{{"the first lease at most %s", x.lease.first}, {"renewals to at most %s after the renewal", x.lease.renew}, {"slivers live at most %s", x.lease.longest}} {
		if l.d > 0 {
			all = append(all, fmt.Sprintf(l.text, formatDuration(l.d)))
		}
	}
	if x.terms != nil && x.refuse == "" {
		all = append(all, fmt.Sprintf("only for users who have accepted %s and are listed in %s (in upper or lower case)", x.terms.url, filepath.Base(x.terms.file)))
	}
	if x.says != "" && x.refuse == "" {
		all = append(all, "text in refusals: "+x.says)
	}
	return all
}

// sentences describes the limits. unit is the name of one unit of the resource.
func (m maxima) sentences(unit string) (all []string) {
	for _, l := range []struct {
		n   int64
		who string
	}{{m.user, "user"}, {m.slice, "slice"}, {m.project, "project"}} {
		if l.n != unlimited {
			all = append(all, fmt.Sprintf("at most %s a %s", plural(l.n, unit), l.who))
		}
	}
	return all
}

// Explanation describes what a user may do in a slice.
type Explanation struct {
	// Rule is the name of the rule that decides; "" for Rules.otherwise and for no rule.
	Rule string
	Line int // of the rule; 0 for none
	// May are sentences about what the user may reserve.
	May []string
	// Refused is the reason why the user may reserve nothing; "" if the user may reserve
	// something.
	Refused string
}

// Explain returns what user may do in slice. A zero slice stands for a slice of a project that no
// rule names.
func (r *Rules) Explain(user, slice urn.URN) Explanation {
	x := r.find(user, slice)
	if x == nil {
		return Explanation{May: []string{"everything; only the site's limits on leases apply"}}
	}
	p := &Permit{rule: x, user: user, slice: slice}
	e := Explanation{Rule: x.Name, Line: x.line, May: x.sentences()}
	if x.refuse != "" {
		e.May = e.May[1:] // it is in Refused
	}
	if err := p.CheckUser(); err != nil {
		e.Refused = err.Error()
	}
	return e
}

// Full returns the reason why the user's rule allows no further node in slice, in addition to the
// amounts in current; "" if it allows one. If only nodes without cores or without disk are still
// allowed, it returns the reason for the other nodes. If slice is zero, only the limits of the
// user apply.
func (r *Rules) Full(user, slice urn.URN, current Held) string {
	x := r.find(user, slice)
	if x == nil || x.refuse != "" {
		return ""
	}
	p := &Permit{rule: x, user: user, slice: slice}
	for i, m := range x.limits {
		if slice.IsZero() { // the slice and its project are unknown
			m.slice, m.project = unlimited, unlimited
		}
		if e := p.excess(&current, i, m, 1); e != nil {
			return p.refuse(e, time.Time{}, time.Time{}).Error()
		}
	}
	return ""
}
