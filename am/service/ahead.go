package service

import (
	"cmp"
	"fmt"
	"time"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/service/lease"
	"patchbay/am/service/policy"
	"patchbay/am/store"
)

// window is the time for which a request reserves: from its start up to its end.
type window struct {
	from, until time.Time
	// requested is the requested end; zero for none.
	requested time.Time
	// isAhead means that the reservation begins later.
	isAhead bool
	// capped is the reason why the end is earlier than requested; "" if it is not.
	capped string
}

const (
	// startTolerance is the time within which a start counts as now.
	startTolerance = time.Minute
	// credentialTime is how long the credential must be valid after the start.
	credentialTime = time.Minute
)

// newWindow returns the window for a requested start and end; zero times are not requested. now is the present.
//
// Errors: BadArgs for an end in the past or not after the start, and for a start that the site's step does not allow;
// Unsupported if the site has no reservations ahead; Refused with OutOfRange for a start later than the site allows
// or too close to the end of the credential.
func (a *attempt) newWindow(now, start, requested time.Time) (window, error) {
	w := window{from: now, requested: requested}
	if err := checkEndTime(now, requested); err != nil {
		return w, err
	}
	if start.After(now.Add(startTolerance)) {
		if err := a.checkStart(now, start); err != nil {
			return w, err
		}
		w.from, w.isAhead = start, true
	}
	if !requested.IsZero() && !requested.After(am.LaterOf(w.from, start)) {
		return w, am.Errorf(am.BadArgs, "geni_end_time %s is not after geni_start_time %s", requested.Format(time.RFC3339), start.Format(time.RFC3339)).With(am.OutOfRange)
	}
	w.until = earliest(a.permit.First(w.from, w.from, a.leaseEnd(w.from, a.until, requested)))
	if requested.IsZero() && !w.isAhead && !a.cutEnd.IsZero() && a.cutEnd.Before(w.until) {
		w.until, w.requested, w.capped = a.cutEnd, a.cutEnd, "a reservation that begins then"
	}
	if w.isAhead && !requested.IsZero() && w.until.Before(requested) {
		w.capped = "the limits of this aggregate or its policy"
		if w.until.Equal(earliest(a.until)) {
			w.capped = "the presented credential; a call of Renew with a longer one may extend it"
		}
	}
	return w, nil
}

// checkStart checks the start of a reservation that begins later.
func (a *attempt) checkStart(now, start time.Time) error {
	l := a.cfg.Leases
	switch {
	case l.AheadMax == 0:
		return errNothingAhead()
	case a.options.Change:
		return am.Errorf(am.BadArgs, "the options patchbay_change and geni_start_time exclude each other: a change begins at once")
	case start.After(now.Add(l.AheadMax)):
		return am.Errorf(am.Refused, "geni_start_time %s is too late: this aggregate reserves at most %s ahead, until %s",
			start.Format(time.RFC3339), display.Duration(l.AheadMax), earliest(now.Add(l.AheadMax)).Format(time.RFC3339)).With(am.OutOfRange)
	case l.AheadStep > 0 && !start.Equal(start.Truncate(l.AheadStep)):
		before := start.Truncate(l.AheadStep)
		return am.Errorf(am.BadArgs, "geni_start_time %s is not a multiple of %s; the nearest ones are %s and %s",
			start.Format(time.RFC3339), display.Duration(l.AheadStep), before.Format(time.RFC3339), before.Add(l.AheadStep).Format(time.RFC3339)).With(am.OutOfRange)
	case a.until.Before(start.Add(credentialTime)):
		return am.Errorf(am.Refused, "the presented credential ends at %s, before the reservation begins at %s: renew the slice at its authority first",
			earliest(a.until).Format(time.RFC3339), start.Format(time.RFC3339)).With(am.OutOfRange)
	}
	return nil
}

// notice returns the remark on an end that was capped; "" for none.
func (w *window) notice() string {
	if w.capped == "" {
		return ""
	}
	return fmt.Sprintf("the reservation ends at %s, limited by %s", w.until.Format(time.RFC3339), w.capped)
}

// setWaiting sets the times of a sliver that begins later.
func (a *attempt) setWaiting(x *am.Sliver, w *window) {
	x.Begins, x.Ends, x.Begun = w.from, w.until, false
	x.AutoProvision = a.options.AtStart || a.create
	x.Expires = x.Ends
	if !x.AutoProvision {
		x.Expires = earliest(x.Ends, x.Begins.Add(a.cfg.Leases.NoShow))
		return
	}
	x.Desired.Accounts = a.accounts
}

// startError returns the error of a call that needs a sliver to have begun.
func startError(x *am.Sliver) error {
	return am.Errorf(am.Unavailable, "sliver %s begins at %s; Provision it then, or now with the option patchbay_provision_at_start", x.URN, x.Begins.Format(time.RFC3339)).About(x.URN)
}

// provisionWaiting handles Provision of a sliver that begins later. With atStart, the sliver gets the accounts, and is provisioned when it
// begins; done means that there is no more to do. If the start has come, x begins at once.
func (s *Service) provisionWaiting(v *store.View, cs *store.ChangeSet, m *lease.Mover, x *am.Sliver, atStart bool, accounts []am.Account) (done bool, err error) {
	if !x.Waits() {
		return false, nil
	}
	if v.Now().Before(x.Begins) {
		if !atStart {
			return false, startError(x)
		}
		x.AutoProvision, x.Expires, x.Desired.Accounts = true, x.Ends, accounts
		cs.PutSliver(*x)
		return true, nil
	}
	switch isReady, err := s.makeReady(v, cs, m, x); {
	case err != nil:
		return false, err
	case !isReady:
		why := cmp.Or(x.Error, lease.LateText(x, s.plan.Load(), v.Now()))
		return false, am.Errorf(am.Unavailable, "sliver %s cannot begin yet: %s; its deadline moves meanwhile", x.URN, why).About(x.URN)
	}
	lease.Begin(x, v.Now().UTC(), s.cfg.Leases.NoShow, nil)
	lease.LogBegin(v, cs, []am.Sliver{*x})
	return false, nil
}

type renewal struct {
	until      time.Time
	options    RenewOptions
	credential time.Time
	permit     *policy.Permit
	held       *quotas
}

// renewWaiting renews a sliver that begins later. The time of the call is its deadline: the time until which it waits for Provision. If it is
// provisioned at its start, the time is its end. options.EndTime is its end, too.
func (s *Service) renewWaiting(v *store.View, cs *store.ChangeSet, x *am.Sliver, r renewal) error {
	ends, latest := r.options.EndTime.UTC().Truncate(time.Second), time.Time{}
	if x.AutoProvision && r.options.EndTime.IsZero() {
		ends = r.until
	}
	var late time.Duration // lease.Begin moves the deadline by the time until then
	if now := v.Now(); !x.AutoProvision && now.After(x.Begins) {
		late = now.Sub(x.Begins).Truncate(time.Second)
	}
	if r.options.AsLongAsPossible { // nothing is shortened
		ends, r.until = am.LaterOf(ends, x.Ends), am.LaterOf(r.until, x.Expires.Add(late))
	}
	if !r.options.EndTime.IsZero() || x.AutoProvision {
		if !ends.After(x.Begins) {
			return am.Errorf(am.BadArgs, "the end %s is not after the start of sliver %s, %s; Delete it if it is not needed", ends.Format(time.RFC3339), x.URN, x.Begins.Format(time.RFC3339)).With(am.OutOfRange).About(x.URN)
		}
		end, limit := earliest(x.Begins.Add(s.cfg.Leases.ProvisionedMax), r.credential), s.limitName(x.Begins.Add(s.cfg.Leases.ProvisionedMax), r.credential)
		if ends.After(x.Ends) {
			end, limit = r.permit.Latest(x.Begins, x.Begins, end, limit)
			free, text, err := s.limitEnd(v, r.held, x, earliest(end, ends))
			if err != nil {
				return err
			}
			if free.Before(end) && free.Before(ends) {
				end, limit = free, text
			}
		}
		if latest = earliest(end); ends.After(latest) {
			if !r.options.AsLongAsPossible {
				return am.Errorf(am.Refused, "the end of sliver %s cannot be %s; the latest time is %s, by %s", x.URN, ends.Format(time.RFC3339), latest.Format(time.RFC3339), limit).With(am.OutOfRange).About(x.URN)
			}
			ends = am.LaterOf(latest, x.Ends)
		}
		x.Ends = ends
	}
	deadline := earliest(r.until, x.Ends)
	if x.AutoProvision {
		deadline = x.Ends
	} else if last := earliest(x.Ends, x.Begins.Add(late+s.cfg.Leases.AllocatedMax)); r.until.After(last) {
		if !r.options.AsLongAsPossible {
			return am.Errorf(am.Refused, "sliver %s can wait for Provision until %s at the latest: %s after its start at %s, and not beyond its end at %s; to move its end, use the option geni_end_time",
				x.URN, last.Format(time.RFC3339), display.Duration(s.cfg.Leases.AllocatedMax), x.Begins.Format(time.RFC3339), x.Ends.Format(time.RFC3339)).With(am.OutOfRange).About(x.URN)
		}
		deadline = last
	}
	if !deadline.After(x.Begins) {
		return am.Errorf(am.BadArgs, "sliver %s begins at %s, so it cannot be released at %s; Delete it if it is not needed", x.URN, x.Begins.Format(time.RFC3339), deadline.Format(time.RFC3339)).With(am.OutOfRange).About(x.URN)
	}
	x.Expires = deadline.Add(-late)
	cs.PutSliver(*x)
	x.Expires = deadline
	return nil
}
