package service

import (
	"context"
	"time"

	"patchbay/am"
	"patchbay/am/service/policy"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
)

// RenewOptions are the options of Renew.
type RenewOptions struct {
	Call
	// AsLongAsPossible is the option geni_extend_alap. A time beyond the limits is then reduced
	// to the latest possible time, and not refused. No lease is shortened.
	AsLongAsPossible bool
	// EndTime is the end of a reservation that is not provisioned; zero leaves it as it is.
	EndTime time.Time
}

// Renew sets the end of leases to exactly the requested time (AM API v3, Renew). Slivers may be
// allocated or provisioned. A time before the current end shortens the lease.
//
// Errors: those of resolve; BadArgs for a time in the past; Busy for a sliver in a dry run;
// Refused with OutOfRange for a time after the end of the credential, the limits of the site or
// its policy, or the beginning of maintenance. The text of a Refused error names the latest
// possible time.
func (s *Service) Renew(ctx context.Context, g credentials.Grant, t Targets, until time.Time, o RenewOptions) (Outcome, error) {
	until = until.UTC().Truncate(time.Second)
	var permit *policy.Permit
	var cut shortenedLeases
	var held quotas
	out, err := s.run(ctx, change{
		event: "Renew", text: "until " + until.Format(time.RFC3339), grant: g, targets: t, call: o.Call, joins: true,
		beforeAll: func(v *store.View, slice urn.URN) error {
			cut, held = shortenedLeases{}, quotas{}
			permit = s.cfg.Policy.For(g.Caller(), slice)
			if !until.After(v.Now()) {
				return am.Errorf(am.BadArgs, "the expiration time %s is in the past", until.Format(time.RFC3339)).With(am.OutOfRange)
			}
			return checkEndTime(v.Now(), o.EndTime)
		},
		apply: func(v *store.View, cs *store.ChangeSet, r *resolved, x *am.Sliver) error {
			status, err := am.Next(x.Status, am.EventRenew)
			if err != nil {
				return err
			}
			now, hold := v.Now().UTC(), am.HoldOf(x)
			if x.Waits() {
				x.Status = status
				err := s.renewWaiting(v, cs, x, renewal{until: until, options: o, credential: r.until, permit: permit, held: &held})
				if err == nil {
					held.move(hold, x)
				}
				return err
			}
			latest, limitText, err := s.latestEnd(v, &held, x, until, r.until, permit)
			if err != nil {
				return err
			}
			end, window := s.maxRenewal(now, until, x)
			if end.Before(until) && !o.AsLongAsPossible {
				at, begins := earliest(end, latest), window.From.Format(time.RFC3339)
				why := "because maintenance begins at " + begins
				if at.After(window.From) {
					why = "which was granted before the maintenance of " + begins + " was planned"
				}
				return am.Errorf(am.Refused, "sliver %s cannot be renewed to %s; the latest time is %s, %s: %s", x.URN, until.Format(time.RFC3339), at.Format(time.RFC3339), why, window.Text).With(am.OutOfRange).About(x.URN)
			}
			if end.After(latest) {
				if !o.AsLongAsPossible {
					return am.Errorf(am.Refused, "sliver %s cannot be renewed to %s; the latest time is %s, by %s", x.URN, until.Format(time.RFC3339), latest.Format(time.RFC3339), limitText).With(am.OutOfRange).About(x.URN)
				}
				end = latest
			}
			if o.AsLongAsPossible && end.Before(x.Expires) {
				end = x.Expires
			}
			if window != nil && end.Equal(window.From) {
				cut.note(x, window)
			}
			// The new end replaces an end that Allocate requested, and one that an operator granted.
			x.Status, x.Expires, x.RequestedEnd, x.Granted = status, end, time.Time{}, time.Time{}
			if x.Status.Allocation == am.Provisioned || end.After(x.Ends) {
				x.Ends = end
			}
			cs.PutSliver(*x)
			held.move(hold, x)
			return nil
		},
	})
	out.Notices = append(out.Notices, cut.texts()...)
	return out, err
}

// latestEnd returns the latest end that Renew to the time until may give x, not considering maintenance, and the text for what
// limits it. credential is the end of the credential.
func (s *Service) latestEnd(v *store.View, held *quotas, x *am.Sliver, until, credential time.Time, permit *policy.Permit) (latest time.Time, limit string, err error) {
	now := v.Now().UTC()
	latest = s.latest(now, credential, x)
	limit = s.limitName(latest, credential)
	if until.After(x.Expires) { // no rule forbids a shorter lease
		latest, limit = permit.Latest(now, x.Start(), latest, limit)
		latest = earliest(latest)
	}
	if until.After(x.Ends) {
		free, text, err := s.limitEnd(v, held, x, until)
		if err != nil {
			return latest, limit, err
		}
		if free.Before(latest) && free.Before(until) {
			latest, limit = free, text
		}
	}
	return latest, limit, nil
}

// nextReservation returns the text for the reservation that begins at the given time and limits x.
func (s *Service) nextReservation(v *store.View, x *am.Sliver, at time.Time) (text string, err error) {
	text = "a reservation that begins then"
	err = v.CalendarAt([]byte(x.Component.Key()), func(h *am.Hold) bool {
		if h.From.Equal(at) && h.User == am.HashOf(x.Creator) {
			text = "your own reservation, which begins then; Delete it if you do not need it"
		}
		return true
	})
	return text, err
}

// setRenewable sets the latest end to which each lease can be renewed with a credential that ends at the given time. Slivers that
// have not begun or are frozen get none. The deadline of a sliver that is late is the one that it would get now.
func (s *Service) setRenewable(v *store.View, all []Report, credential time.Time, permit *policy.Permit) error {
	now := v.Now().UTC()
	var held quotas
	for i := range all {
		x := &all[i].Sliver
		if x.Waits() && now.After(x.Begins) { // it is late, and its deadline will move so far
			x.Expires = earliest(x.Ends, x.Expires.Add(now.Sub(x.Begins)))
		}
		if x.Waits() || x.Frozen || x.Status.Allocation == am.Unallocated {
			continue
		}
		latest, _, err := s.latestEnd(v, &held, x, s.latest(now, credential, x), credential, permit)
		if err != nil {
			return err
		}
		end, _ := s.maxRenewal(now, latest, x)
		all[i].RenewableUntil = am.LaterOf(end, x.Expires)
	}
	return nil
}

// limitName returns the text for what limits a renewal. The limit is the site's if latest is before the end of
// the credential, else it is the credential.
func (s *Service) limitName(latest, credential time.Time) string {
	if latest.Before(credential.Truncate(time.Second)) {
		return "the limit of this aggregate"
	}
	return "the presented credential"
}
