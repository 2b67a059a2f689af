package policy

import (
	"fmt"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
)

// aheadLimit limits what one user holds that has not begun; unlimited means no limit.
type aheadLimit struct{ windows, hours int64 }

// Ahead counts what a user holds that has not begun: the windows, each once for all its nodes, and the time of the nodes.
type Ahead struct {
	user    am.Hash
	windows map[aheadWindow]struct{}
	seconds int64
}

type aheadWindow struct {
	slice       am.Hash
	from, until int64
}

// AheadOf returns an Ahead for a user, without any holds.
func AheadOf(user urn.URN) Ahead {
	return Ahead{user: am.HashOf(user), windows: map[aheadWindow]struct{}{}}
}

// Add counts the hold h if it is of the user and has not begun.
func (a *Ahead) Add(h *am.Hold) {
	if h.User == a.user && !h.From.IsZero() && !h.Until.IsZero() {
		a.windows[aheadWindow{h.Slice, h.From.Unix(), h.Until.Unix()}] = struct{}{}
		a.seconds += int64(h.Until.Sub(h.From) / time.Second)
	}
}

// Move counts h, which Add has counted, until the time until.
func (a *Ahead) Move(h *am.Hold, until time.Time) {
	if h.User == a.user && !h.From.IsZero() {
		a.seconds += int64(until.Sub(h.Until) / time.Second)
	}
}

// Counts returns the number of windows, and the node-hours, rounded up.
func (a *Ahead) Counts() (windows, nodeHours int64) {
	return int64(len(a.windows)), hours(a.seconds)
}

// LimitsAhead reports whether the rule limits what has not begun.
func (p *Permit) LimitsAhead() bool { return p != nil && p.rule.ahead != nil }

// WithinAhead returns an *am.Error with code Refused if the new holds in added, beside held, exceed a limit of the rule. It adds them
// to held.
func (p *Permit) WithinAhead(held Ahead, added []am.Hold) error {
	if !p.LimitsAhead() {
		return nil
	}
	windows, nodeHours := held.Counts()
	for i := range added {
		held.Add(&added[i])
	}
	for _, l := range [...]struct {
		most, has, sum int64
		unit           string
	}{
		{p.rule.ahead.windows, windows, int64(len(held.windows)), "reservation"},
		{p.rule.ahead.hours, nodeHours, hours(held.seconds), "node-hour"},
	} {
		if l.most == unlimited || l.sum <= l.most {
			continue
		}
		remedy := "delete some first, or wait until they begin"
		if l.most == 0 {
			remedy = "it allows none"
		}
		return p.rule.refusal("%s allows user %s at most %s; this request would make %d, with %d already held: %s",
			p.rule, p.user.Name, notBegun(l.most, plural(l.most, l.unit)), l.sum, l.has, remedy)
	}
	return nil
}

// notBegun returns the text for n things that have not begun.
func notBegun(n int64, things string) string {
	if n == 1 {
		return things + " that has not begun"
	}
	return things + " that have not begun"
}

// hours returns the hours of a time, rounded up.
func hours(seconds int64) int64 { return (seconds + 3599) / 3600 }

// UntilAhead returns until, or the latest earlier end that the rule allows for a hold that has not begun, with what limits it.
func (p *Permit) UntilAhead(held Ahead, h *am.Hold, until time.Time) (time.Time, string) {
	if !p.LimitsAhead() || p.rule.ahead.hours == unlimited {
		return until, ""
	}
	left := max(0, p.rule.ahead.hours*3600-held.seconds)
	if int64(until.Sub(h.Until)/time.Second) <= left {
		return until, ""
	}
	return h.Until.Add(time.Duration(left) * time.Second), p.rule.withHint(fmt.Sprintf("%s, which allows user %s at most %s",
		p.rule, p.user.Name, notBegun(p.rule.ahead.hours, plural(p.rule.ahead.hours, "node-hour"))))
}

// sentences describes the limits.
func (l *aheadLimit) sentences() (all []string) {
	if l == nil {
		return nil
	}
	for _, x := range []struct {
		n    int64
		unit string
	}{{l.windows, "reservation"}, {l.hours, "node-hour"}} {
		if x.n != unlimited {
			all = append(all, "at most "+notBegun(x.n, plural(x.n, x.unit)+" a user"))
		}
	}
	return all
}
