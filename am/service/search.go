package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/service/binder"
	"patchbay/am/service/policy"
	"patchbay/am/store"
)

const (
	// shortestCut is the least time that a request for now gets whose end is cut.
	shortestCut = time.Hour
	// maxCuts is how often such a request is tried.
	maxCuts = 3
	// maxBinds and searchTime limit one search, which tries at least one start and one end. maxEndBinds limits its part for the
	// end.
	maxBinds    = 16
	maxEndBinds = 8
	searchTime  = 50 * time.Millisecond
	// firstDelay is the least time from a refusal to the start that it names: an earlier one would count as now.
	firstDelay = 2 * time.Minute
)

// search looks for times at which there is room for a request that was refused. Its attempt is a copy.
type search struct {
	attempt
	v       *store.View
	now     time.Time
	refused window
	held    *sliceContent
	holds   []am.Hold
	counter *binder.Counter
	binds   int
	ends    time.Time // of the search
	// endOfFirst is the end of the reservation at the first start.
	endOfFirst time.Time
}

// findRoom searches the times at which the whole refused request has room, and sets them in the refusal. If the request is for
// now and asks for no end, and has room for an hour at least, findRoom returns true and lets the next try end then.
// One search runs at a time, or refused requests would take all processors; one of each caller waits for that.
func (a *attempt) findRoom(ctx context.Context, refusal *binder.UnsatisfiedError) (isCut bool) {
	if a.emptySite || a.options.Change || a.windows != nil || len(a.avoid) > 0 || a.window.until.IsZero() {
		return false
	}
	find := func() error {
		a.searching.Lock()
		defer a.searching.Unlock()
		isCut = a.searchRoom(refusal)
		return nil
	}
	if a.isLarge() { // it has the turn of its caller
		_ = find()
	} else {
		_ = a.memory.InTurn(ctx, a.grant.Caller().Key(), find) // without a turn there is only the refusal
	}
	return isCut
}

func (a *attempt) searchRoom(refusal *binder.UnsatisfiedError) (isCut bool) {
	x := search{attempt: *a, refused: a.window, ends: time.Now().Add(searchTime)}
	err := a.cfg.Store.Read(func(v *store.View) error {
		x.v, x.now = v, v.Now().UTC()
		isRoom, err := x.prepare()
		if err != nil || !isRoom {
			return err
		}
		refusal.LongestEnd = x.longestEnd()
		if isCut = !refusal.LongestEnd.IsZero() && !x.refused.isAhead && x.options.EndTime.IsZero(); isCut {
			return nil
		}
		var notBefore time.Time
		refusal.FirstStart, notBefore = x.firstStart()
		refusal.Windows = x.text(refusal, notBefore)
		return nil
	})
	if err == nil && isCut {
		a.cutEnd = refusal.LongestEnd
	}
	return err == nil && isCut
}

// prepare reads what is held. It reports whether the request was refused only because of that.
func (x *search) prepare() (isRoom bool, err error) {
	if x.held, err = x.readContent(x.v); err != nil || !x.fits(x.refused) {
		return false, err
	}
	err = x.calendar(x.v, time.Time{}, func(*am.Hold) bool { return true })(func(h *am.Hold) bool {
		c := *h
		c.Interfaces = slices.Clone(h.Interfaces)
		x.holds = append(x.holds, c)
		return true
	})
	x.counter = (&binder.View{Inventory: x.inventory, Plan: x.plan.Load(), Now: x.now}).NewCounter(x.bindable, x.holds)
	return true, err
}

// fits reports whether the request has room in the window beside x.holds, and the policy allows it.
func (x *search) fits(w window) bool {
	x.binds++
	x.window = w
	return x.bindWithin(x.held, x.now, func(func(*am.Hold) bool) policy.Calendar {
		return func(f func(*am.Hold) bool) error {
			for i := range x.holds {
				if !f(&x.holds[i]) {
					break
				}
			}
			return nil
		}
	}) == nil
}

func (x *search) isOver() bool { return x.binds >= maxBinds || time.Now().After(x.ends) }

// longestEnd returns the latest end, at least an hour after the start, up to which there is room from the requested start
// on; zero if there is none.
func (x *search) longestEnd() (end time.Time) {
	w := x.refused
	shortest := earliest(w.from.Add(shortestCut))
	latest := x.counter.LatestEnd(w.from, w.until)
	var ends []time.Time // the starts of reservations
	for i := range x.holds {
		if at := x.holds[i].From; !at.Before(shortest) && !at.After(latest) && at.Before(w.until) {
			ends = append(ends, at)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	ends = slices.CompactFunc(ends, time.Time.Equal)
	// An end before the first has the same reservations in the way as the first. The last is the most probable.
	for low, high, at := 0, len(ends), len(ends)-1; low < high && x.binds < maxEndBinds && (high == len(ends) || !x.isOver()); at = (low + high) / 2 {
		if w.until = ends[at]; x.fits(w) {
			low, end = at+1, earliest(ends[at])
		} else {
			high = at
		}
	}
	return end
}

// firstStart returns the first start after the requested one from which there is room for as long. If the search ends before it
// finds one, notBefore is the time up to which there is none.
func (x *search) firstStart() (start, notBefore time.Time) {
	if x.cfg.Leases.AheadMax == 0 {
		return start, notBefore
	}
	length := x.refused.until.Sub(x.refused.from)
	isOver := false
	for _, at := range x.counter.Starts(x.refused.from, length, maxBinds) {
		at = x.possibleStart(at)
		if !at.After(notBefore) {
			continue
		}
		if isOver = !notBefore.IsZero() && x.isOver(); isOver {
			break
		}
		requested := time.Time{}
		if !x.options.EndTime.IsZero() {
			requested = at.Add(length)
		}
		w, err := x.newWindow(x.now, at, requested)
		if err != nil { // too late for the site or the credential
			return start, time.Time{}
		}
		if x.fits(w) {
			x.endOfFirst = w.until
			return at, time.Time{}
		}
		notBefore = at
	}
	if !isOver && x.binds < maxBinds {
		notBefore = time.Time{}
	}
	return start, notBefore
}

// possibleStart returns the first time from the given one on that a call may request as a start.
func (x *search) possibleStart(at time.Time) time.Time {
	at = am.LaterOf(at, x.now.Add(firstDelay)).Add(time.Second - 1).UTC().Truncate(time.Second)
	if step := x.cfg.Leases.AheadStep; step > 0 {
		at = at.Add(step - 1).Truncate(step)
	}
	return at
}

// text says at which times there is room.
func (x *search) text(refusal *binder.UnsatisfiedError, notBefore time.Time) string {
	var texts []string
	if at := refusal.FirstStart; !at.IsZero() {
		texts = append(texts, "from "+at.Format(time.RFC3339)+" (geni_start_time) until "+x.endOfFirst.Format(time.RFC3339)+" (geni_end_time)")
	}
	if at := refusal.LongestEnd; !at.IsZero() {
		begins := "if it begins now"
		if x.refused.isAhead {
			begins = "if it begins at " + x.refused.from.Format(time.RFC3339)
		}
		texts = append(texts, "until "+at.Format(time.RFC3339)+" "+begins+" (geni_end_time)")
	}
	switch {
	case len(texts) > 0:
		return "the whole request has room " + strings.Join(texts, ", or ")
	case !notBefore.IsZero():
		return "the whole request has no room before " + notBefore.Format(time.RFC3339)
	}
	return ""
}

// unsatisfied returns the refusal in err; nil if err is none.
func unsatisfied(err error) *binder.UnsatisfiedError {
	refusal, _ := errors.AsType[*binder.UnsatisfiedError](err)
	return refusal
}
