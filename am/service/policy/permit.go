package policy

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/urn"
)

// Policy holds the rules in force. All methods may be called concurrently. A nil Policy allows
// everything.
type Policy struct{ rules atomic.Pointer[Rules] }

// New returns a policy with the rules r, which may be nil.
func New(r *Rules) *Policy {
	p := &Policy{}
	p.rules.Store(r)
	return p
}

// Rules returns the rules in force; nil for none.
func (p *Policy) Rules() *Rules {
	if p == nil {
		return nil
	}
	return p.rules.Load()
}

// SetRules replaces the rules. The next decision uses the new rules.
func (p *Policy) SetRules(r *Rules) { p.rules.Store(r) }

// For returns the permit of user in slice; nil if no rule applies.
func (p *Policy) For(user, slice urn.URN) *Permit {
	if p == nil {
		return nil
	}
	x := p.rules.Load().find(user, slice)
	if x == nil {
		return nil
	}
	return &Permit{rule: x, user: user, slice: slice}
}

// Permit applies a rule to one user in one slice. A nil Permit allows everything.
type Permit struct {
	rule        *Rule
	user, slice urn.URN
}

// String returns the text by which messages name the rule.
func (x *Rule) String() string {
	if x.Name == "" {
		return "the policy of this site"
	}
	return fmt.Sprintf("rule %q of this site", x.Name)
}

func (x *Rule) refusal(format string, args ...any) *am.Error {
	return am.Errorf(am.Refused, "%s", x.withHint(fmt.Sprintf(format, args...)))
}

func (x *Rule) withHint(text string) string {
	if x.says == "" {
		return text
	}
	switch first, _ := utf8.DecodeRuneInString(x.says); {
	case endsSentence(text):
		return text + " " + x.says
	case unicode.IsUpper(first):
		return text + ". " + x.says
	}
	return text + "; " + x.says
}

func endsSentence(text string) bool {
	return text != "" && strings.ContainsRune(".!?", rune(text[len(text)-1]))
}

// CheckUser fails for a user whose rule refuses everything, and for a user who has not accepted the
// terms of the rule. The error is an *am.Error with code Refused.
func (p *Permit) CheckUser() error {
	if p == nil {
		return nil
	}
	x := p.rule
	switch {
	case x.Name == "" && x.refuse != "":
		in := ""
		if project := am.ProjectOf(p.slice); project != "" {
			in = " in project " + project
		}
		return x.refusal("%s matches no rule of this site%s, so nothing is available to them; %s", p.user, in, x.refuse)
	case x.refuse != "":
		return x.refusal("%s refuses this: %s", x, x.refuse)
	case x.terms != nil && !x.terms.accepted[p.user.Key()]:
		// The address comes last, so that clients do not take other text for a part of it.
		text := x.withHint(fmt.Sprintf("%s requires %s to accept its terms of use first", x, p.user))
		if !endsSentence(text) {
			text += "."
		}
		return am.Errorf(am.Refused, "%s %s Accept them here: %s", missingMark, text, x.terms.url)
	}
	return nil
}

// HasQuotas reports whether the rule limits what is held at one time.
func (p *Permit) HasQuotas() bool { return p != nil && p.rule.limits != noLimits }

// Within returns an *am.Error with code Refused if the sum of added and what is held at some instant exceeds a
// limit of the rule. The error names the worst instant unless it is now, and the first one if added is within the limits until
// then. Within calls held only if the rule has limits, and returns its error.
func (p *Permit) Within(added Amount, held func(user, slice urn.URN) (*Timeline, error)) error {
	if !p.HasQuotas() {
		return nil
	}
	t, err := held(p.user, p.slice)
	if err != nil {
		return err
	}
	var worst *excess
	var at, first time.Time
	for i := range t.instants {
		x := &t.instants[i]
		e := p.firstExcess(&x.held, added)
		if e == nil {
			continue
		}
		if worst == nil && i > 0 {
			first = x.at
		}
		if worst == nil || e.has-e.most > worst.has-worst.most {
			worst, at = e, x.at
		}
	}
	if worst == nil {
		return nil
	}
	if !at.After(t.now) {
		at = time.Time{}
	}
	return p.refuse(worst, at, first)
}

// Until returns until, or an earlier time if a limit of the rule is exceeded then because the hold h is prolonged. limit names the rule.
// It ignores what exceeds a limit without slivers that have not begun: a rule that was changed takes nothing from those who
// hold more.
func (p *Permit) Until(t *Timeline, h *am.Hold, until time.Time) (at time.Time, limit string) {
	for i := range t.instants {
		x := &t.instants[i]
		if i+1 < len(t.instants) && !t.instants[i+1].at.After(h.Until) || x.ahead == 0 && h.From.IsZero() {
			continue
		}
		if at = x.at; at.Before(h.Until) {
			at = h.Until
		}
		if !at.Before(until) {
			break
		}
		if e := p.firstExcess(&x.held, Amount{1, h.Amount.Cores, h.Amount.Disk}); e != nil {
			return at, p.rule.withHint(fmt.Sprintf("%s, which allows at most %s for %s %s at one time, with %s reserved then", p.rule, plural(e.most, e.unit), e.kind, e.name, count(e.has, e.unit)))
		}
	}
	return until, ""
}

// excess is a limit that an amount exceeds, beside what is held.
type excess struct {
	unit             string // of the resource, as in counted
	kind, name       string // of what has the limit
	most, has, added int64
}

// firstExcess returns the excess for the first resource of which added is too much; nil for none.
func (p *Permit) firstExcess(current *Held, added Amount) *excess {
	for i, c := range counted {
		if n := c.of(added); n > 0 {
			if e := p.excess(current, i, p.rule.limits[i], n); e != nil {
				return e
			}
		}
	}
	return nil
}

// excess returns the first limit of m that added units of the resource counted[i] exceed; nil for none.
func (p *Permit) excess(current *Held, i int, m maxima, added int64) *excess {
	of := counted[i].of
	for _, l := range [...]struct {
		kind, name string
		most, has  int64
	}{
		{urn.Slice, p.slice.Name, m.slice, of(current.Slice)},
		{urn.User, p.user.Name, m.user, of(current.User)},
		{"project", am.ProjectOf(p.slice), m.project, of(current.Project)},
	} {
		if l.most != unlimited && l.has+added > l.most {
			return &excess{counted[i].one, l.kind, l.name, l.most, l.has, added}
		}
	}
	return nil
}

// refuse returns the refusal of an excess at the time at; zero for now. Until first, nothing is exceeded; zero if that is not
// certain.
func (p *Permit) refuse(e *excess, at, first time.Time) *am.Error {
	remedy := "release some first"
	switch left := e.most - e.has; {
	case e.most == 0:
		remedy = "it allows none"
	case left > 0:
		remedy = fmt.Sprintf("request at most %s, or release some first", count(left, e.unit))
	}
	if !first.IsZero() {
		remedy += ", or set an end until " + display.Time(first)
	}
	if p.rule.says == "" {
		remedy += "; operators set the limit in " + p.rule.file
	}
	held := "already held"
	if !at.IsZero() {
		held = "held at " + display.Time(at)
	}
	return p.rule.refusal("%s allows at most %s for %s %s at one time; %s more, with %s %s, are too many: %s",
		p.rule, plural(e.most, e.unit), e.kind, e.name, count(e.added, e.unit), count(e.has, e.unit), held, remedy)
}

// Components returns the indexes of the allowed components in ascending order, and the text of a
// refusal of other components. list is nil if all components are allowed.
func (p *Permit) Components() (list []int32, refusal string) {
	if p == nil || p.rule.components == nil {
		return nil, ""
	}
	return p.rule.components.list, p.rule.noComponent
}

// SliverTypes returns the names of the allowed sliver types, and the text of a refusal of other
// types. list is nil if all types are allowed.
func (p *Permit) SliverTypes() (list []string, refusal string) {
	if p == nil || p.rule.types == nil {
		return nil, ""
	}
	return p.rule.types, p.rule.noType
}

// First returns the end of the lease that Provision gives to a sliver: end, or an earlier time if
// the rule limits the lease. start is am.Sliver.Start.
func (p *Permit) First(now, start, end time.Time) time.Time {
	if p == nil {
		return end
	}
	end = earlierEnd(end, now, p.rule.lease.first)
	return earlierEnd(end, start, p.rule.lease.longest)
}

// Latest returns the latest end that a lease can get if it is renewed now: end, or an earlier
// time if the rule limits the lease. It also returns a text that says what limits the lease: a
// text about the rule, or the argument limit unchanged.
func (p *Permit) Latest(now, start, end time.Time, limit string) (time.Time, string) {
	if p == nil {
		return end, limit
	}
	l := p.rule.lease
	if at := earlierEnd(end, now, l.renew); at.Before(end) {
		end, limit = at, p.rule.withHint(fmt.Sprintf("%s, which limits renewals to %s from now", p.rule, formatDuration(l.renew)))
	}
	if at := earlierEnd(end, start, l.longest); at.Before(end) {
		end, limit = at, p.rule.withHint(fmt.Sprintf("%s, which limits the life of slivers to %s in all", p.rule, formatDuration(l.longest)))
	}
	return end, limit
}

// CheckLife refuses a new lease for a sliver that has reached the longest life that the rule allows.
// The error is an *am.Error with code Refused.
func (p *Permit) CheckLife(now time.Time, x *am.Sliver) error {
	if p == nil || p.rule.lease.longest == 0 || x.Start().Add(p.rule.lease.longest).Truncate(time.Second).After(now) {
		return nil
	}
	return p.rule.refusal("sliver %s began at %s, and %s allows no sliver to live longer than %s; delete it and request a new one",
		x.URN, x.Start().Format(time.RFC3339), p.rule, formatDuration(p.rule.lease.longest)).About(x.URN)
}

// earlierEnd returns the earlier of end and from plus d. A zero d limits nothing.
func earlierEnd(end, from time.Time, d time.Duration) time.Time {
	if at := from.Add(d); d > 0 && at.Before(end) {
		return at
	}
	return end
}

// disk is the resource that is counted in MiB.
const disk = "disk"

// count formats an amount without its unit: 3 for nodes, 20G for disk.
func count(n int64, unit string) string {
	switch {
	case unit != disk:
		return fmt.Sprint(n)
	case n%1024 == 0:
		return fmt.Sprint(n/1024, "G")
	}
	return fmt.Sprint(n, "M")
}

// plural formats an amount with its unit: 3 nodes, 20G of disk.
func plural(n int64, unit string) string {
	if unit == disk {
		return count(n, unit) + " of disk"
	}
	return display.Count(int(n), unit)
}
