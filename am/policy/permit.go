package policy

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
)

// Policy is the rules in force, and what is held. All methods may be called at
// the same time; those of a nil Policy allow everything.
type Policy struct {
	rules atomic.Pointer[Rules]
	usage *Usage
}

// New is a policy with rules; nil for none. Register its Usage with the store.
func New(r *Rules) *Policy {
	p := &Policy{usage: NewUsage()}
	p.rules.Store(r)
	return p
}

// Usage is what is held, kept by observing the store.
func (p *Policy) Usage() *Usage { return p.usage }

// Rules are those in force.
func (p *Policy) Rules() *Rules { return p.rules.Load() }

// SetRules puts other rules in force, for the next decision.
func (p *Policy) SetRules(r *Rules) { p.rules.Store(r) }

// For is what user may have in slice; nil for everything.
func (p *Policy) For(user, slice urn.URN) *Permit {
	if p == nil {
		return nil
	}
	x := p.rules.Load().find(user, slice)
	if x == nil {
		return nil
	}
	return &Permit{rule: x, usage: p.usage, user: user, slice: slice}
}

// Permit is a rule for one user in one slice. A nil Permit allows everything.
type Permit struct {
	rule        *Rule
	usage       *Usage
	user, slice urn.URN
}

// String is how texts call the rule.
func (x *Rule) String() string {
	if x.Name == "" {
		return "the policy of this site"
	}
	return fmt.Sprintf("rule %q of this site", x.Name)
}

// refusal is an error in the rule's words.
func (x *Rule) refusal(format string, args ...any) *am.Error {
	return am.Errorf(am.Refused, "%s", x.adding(fmt.Sprintf(format, args...)))
}

// adding is a text with what the rule says in every refusal.
func (x *Rule) adding(text string) string {
	if x.says == "" {
		return text
	}
	if ended(text) {
		return text + " " + x.says
	}
	return text + "; " + x.says
}

// ended tells whether a text has the mark that ends a sentence.
func ended(text string) bool {
	return text != "" && strings.ContainsRune(".!?", rune(text[len(text)-1]))
}

// Begin refuses new work of whoever may have nothing, or has not yet accepted
// the terms. The error is an *am.Error with code Refused.
func (p *Permit) Begin() error {
	if p == nil {
		return nil
	}
	x := p.rule
	switch {
	case x.Name == "" && x.refuse != "":
		in := ""
		if p.slice.Authority != "" {
			in = " in project " + p.slice.Authority
		}
		return x.refusal("%s matches no rule of this site%s, so nothing is available to them; %s", p.user, in, x.refuse)
	case x.refuse != "":
		return x.refusal("%s refuses this: %s", x, x.refuse)
	case x.terms != nil && !x.terms.accepted[p.user.Key()]:
		// The address comes last, so that nothing is taken for a part of it.
		text := x.adding(fmt.Sprintf("%s wants %s to accept its terms of use first", x, p.user))
		if !ended(text) {
			text += "."
		}
		return am.Errorf(am.Refused, "%s %s Accept them here: %s", missingMark, text, x.terms.url)
	}
	return nil
}

// Within refuses more than may be held together with what is held already. The error
// is an *am.Error with code Refused.
func (p *Permit) Within(more Amount) error {
	if p == nil || p.rule.limits == noLimits {
		return nil
	}
	held := p.usage.Held(p.user, p.slice)
	for i, c := range counted {
		if n := c.of(more); n > 0 {
			if err := p.beside(held, i, p.rule.limits[i], n); err != nil {
				return err
			}
		}
	}
	return nil
}

// beside refuses more of what is counted as number i than m allows beside what is held.
func (p *Permit) beside(held Held, i int, m most, more int64) error {
	what, of := counted[i].one, counted[i].of
	for _, l := range [...]struct {
		kind, name string
		most, has  int64
	}{
		{urn.Slice, p.slice.Name, m.slice, of(held.Slice)},
		{urn.User, p.user.Name, m.user, of(held.User)},
		{"project", p.slice.Authority, m.project, of(held.Project)},
	} {
		if l.most == unlimited || l.has+more <= l.most {
			continue
		}
		remedy := "give some back first"
		switch left := l.most - l.has; {
		case l.most == 0:
			remedy = "it lets nobody have any"
		case left > 0:
			remedy = fmt.Sprintf("ask for at most %s, or give some back first", count(left, what))
		}
		return p.rule.refusal("%s allows at most %s for %s %s at one time; %s more than the %s that are held are too many: %s",
			p.rule, plural(l.most, what), l.kind, l.name, count(more, what), count(l.has, what), remedy)
	}
	return nil
}

// Components are the indexes of the components that may be had, ascending, and
// why not the others; nil for all.
func (p *Permit) Components() (list []int32, refusal string) {
	if p == nil || p.rule.components == nil {
		return nil, ""
	}
	return p.rule.components.list, p.rule.noComponent
}

// SliverTypes are the names of the sliver types that may be had, and why not the
// others; nil for all.
func (p *Permit) SliverTypes() (list []string, refusal string) {
	if p == nil || p.rule.types == nil {
		return nil, ""
	}
	return p.rule.types, p.rule.noType
}

// First is the end of a lease that Provision gives now to a sliver of the age
// that created tells, not later than end.
func (p *Permit) First(now, created, end time.Time) time.Time {
	if p == nil {
		return end
	}
	end = sooner(end, now, p.rule.lease.first)
	return sooner(end, created, p.rule.lease.longest)
}

// Latest is how far a lease may be renewed now, not later than end, and what
// limits it to that: by, or words of the rule.
func (p *Permit) Latest(now, created, end time.Time, by string) (time.Time, string) {
	if p == nil {
		return end, by
	}
	l := p.rule.lease
	if at := sooner(end, now, l.renew); at.Before(end) {
		end, by = at, p.rule.adding(fmt.Sprintf("%s, by which a renewal reaches at most %s from now", p.rule, sayTime(l.renew)))
	}
	if at := sooner(end, created, l.longest); at.Before(end) {
		end, by = at, p.rule.adding(fmt.Sprintf("%s, by which a sliver lives at most %s in all", p.rule, sayTime(l.longest)))
	}
	return end, by
}

// Over refuses to give a sliver a lease now if the rule lets none live that long;
// leases end at whole seconds. The error is an *am.Error with code Refused.
func (p *Permit) Over(now time.Time, x *am.Sliver) error {
	if p == nil || p.rule.lease.longest == 0 || x.Created.Add(p.rule.lease.longest).Truncate(time.Second).After(now) {
		return nil
	}
	return p.rule.refusal("sliver %s was made at %s, and %s lets none live longer than %s; delete it and ask for a new one",
		x.URN, x.Created.Format(time.RFC3339), p.rule, sayTime(p.rule.lease.longest)).About(x.URN)
}

// sooner is end, or d after from if that comes sooner; no time limits nothing.
func sooner(end, from time.Time, d time.Duration) time.Time {
	if at := from.Add(d); d > 0 && at.Before(end) {
		return at
	}
	return end
}

// disk is what is counted in MiB.
const disk = "disk"

// count is a number of what is counted, without its word.
func count(n int64, what string) string {
	switch {
	case what != disk:
		return fmt.Sprint(n)
	case n%1024 == 0:
		return fmt.Sprint(n/1024, "G")
	}
	return fmt.Sprint(n, "M")
}

func plural(n int64, what string) string {
	if what == disk {
		return count(n, what) + " of disk"
	}
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}
