package lease

import (
	"fmt"
	"time"

	"patchbay/am"
	"patchbay/am/service/maintenance"
	"patchbay/am/store"
)

// Events of the journal about slivers that were reserved ahead.
const (
	// EventProvisionAtStart is the event when a user asks that they are provisioned when they begin.
	EventProvisionAtStart = "Provision at the start"
	// EventBegins is the event when they begin.
	EventBegins = "begins"
	// EventLimited is the event when a reservation ahead limits for the first time until when others can renew.
	EventLimited = "limited"
	// EventNoShow is the event when they are released because no call provisioned them in time.
	EventNoShow = "no_show"
	// EventMove is the event when one gets another component before its start.
	EventMove = "move"
)

// IsNoShow reports whether x has begun and waits for Provision, which nothing but its user delays.
func IsNoShow(x *am.Sliver) bool {
	return x.Begun && x.Status.Allocation == am.Allocated && x.Error == ""
}

// Begin changes x, whose start has come, to one that has begun. It moves the time until which x waits for Provision by the time that x
// was late, but not beyond its end. refused is the reason why the user gets nothing now, nil for none: then x
// keeps this error, and is released noShow from now.
func Begin(x *am.Sliver, now time.Time, noShow time.Duration, refused error) {
	x.Begun, x.Error = true, ""
	x.Expires = x.Expires.Add(now.Sub(x.Begins))
	if refused != nil {
		x.Error, x.AutoProvision = refused.Error(), false
		x.Expires = now.Add(noShow)
	}
	if x.Expires = x.Expires.Truncate(time.Second); x.Expires.After(x.Ends) {
		x.Expires = x.Ends
	}
}

// LogBegin adds the journal entry of slivers of one slice that have begun, and before it that of those which are provisioned
// with it.
func LogBegin(v *store.View, cs *store.ChangeSet, begun []am.Sliver) {
	e := am.JournalEntry{At: v.Now(), Event: EventBegins, Slice: begun[0].Slice}
	made := am.JournalEntry{At: v.Now(), Event: string(am.EventProvision), Slice: begun[0].Slice}
	for i := range begun {
		e.Slivers = append(e.Slivers, begun[i].URN)
		if begun[i].Status.Allocation == am.Provisioned {
			made.Slivers = append(made.Slivers, begun[i].URN)
		}
	}
	if len(made.Slivers) > 0 {
		cs.Log(made)
	}
	cs.Log(e)
}

// LateText returns the reason why x, whose start has come, has not begun; "" if it has, or if its error is the reason.
func LateText(x *am.Sliver, p *maintenance.Plan, now time.Time) string {
	if !x.Waits() || x.Begins.After(now) || x.Error != "" {
		return ""
	}
	w := p.WindowAt(x.ComponentName, now)
	switch {
	case p != nil && p.Lockdown != nil:
		return "it begins when the lockdown of this aggregate ends: " + p.Lockdown.Text
	case w != nil && !x.Ends.After(w.Until):
		return fmt.Sprintf("it cannot begin, since the maintenance of %s lasts until %s: %s", x.ComponentName, w.Until.Format(time.RFC3339), w.Text)
	case w != nil:
		return fmt.Sprintf("it begins at %s, at the end of the maintenance of %s: %s", w.Until.Format(time.RFC3339), x.ComponentName, w.Text)
	}
	return fmt.Sprintf("it begins when %s is free, which is still held or being cleaned", x.ComponentName)
}
