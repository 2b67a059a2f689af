package lease

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/store"
)

// Shutdown adds to cs the changes that shut down the slice rec, which has the live slivers. The caller sets
// who shut it down. Its nodes are stopped and kept, and no lease ends; slivers that have not begun are released. request is the id
// of the call, for the log. The text describes the consequences for reservations, for the journal. Shutdown fails with an
// *am.Error if am.Next refuses the event.
func Shutdown(v *store.View, cs *store.ChangeSet, rec am.Slice, live []am.Sliver, request string) (text string, err error) {
	rec.Shutdown, rec.Serial = v.Now().UTC(), rec.Serial+1
	cs.PutSlice(rec)
	var waiting []am.Sliver
	blocked := map[string]bool{} // components with their reservations
	for _, x := range live {
		if x.Waits() {
			waiting = append(waiting, x)
			continue
		}
		if err := eachBlocked(v, &x, func(h *am.Hold) {
			blocked[fmt.Sprintf("%s from %s", x.ComponentName, h.From.Format(time.RFC3339))] = true
		}); err != nil {
			return "", err
		}
		status, err := am.Next(x.Status, am.EventShutdown)
		if err != nil {
			return "", err
		}
		if status != x.Status || x.Desired.On {
			goal := am.GoalStop
			if x.Status.Operational == am.PendingAllocation {
				goal = am.GoalMake // the provider still creates the sliver, but does not start it
			}
			x.Generation++
			cs.PutTask(am.Task{Sliver: x.URN, Generation: x.Generation, Goal: goal, Since: v.Now().UTC(), Request: request})
		}
		x.Status, x.Desired.On, x.Frozen = status, false, true
		cs.PutSliver(x)
	}
	if len(waiting) > 0 {
		text = fmt.Sprintf("released what has not begun: %d", len(waiting))
	}
	if len(blocked) > 0 {
		all := slices.Sorted(maps.Keys(blocked))
		text = strings.TrimPrefix(fmt.Sprintf("%s; blocks reservations of others: %s", text, strings.Join(all[:min(len(all), 10)], ", ")), "; ")
	}
	return text, Release(v, cs, waiting, am.EventDelete, request)
}

// eachBlocked calls f with what other slices hold later beside x, and cannot have while x stays.
func eachBlocked(v *store.View, x *am.Sliver, f func(*am.Hold)) error {
	return v.CalendarAt([]byte(x.Component.Key()), func(h *am.Hold) bool {
		if !h.From.IsZero() && (x.Exclusive || h.Exclusive) && h.Slice != am.HashOf(x.Slice) {
			f(h)
		}
		return true
	})
}
