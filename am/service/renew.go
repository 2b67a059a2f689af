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
	out, err := s.run(ctx, change{
		event: "Renew", text: "until " + until.Format(time.RFC3339), grant: g, targets: t, call: o.Call, joins: true,
		beforeAll: func(v *store.View, slice urn.URN) error {
			cut = shortenedLeases{}
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
			now := v.Now().UTC()
			if x.Waits() {
				x.Status = status
				return s.renewWaiting(v, cs, x, renewal{until: until, options: o, credential: r.until, permit: permit})
			}
			latest := s.latest(now, r.until, x)
			limitText := s.limitName(latest, r.until)
			if until.After(x.Expires) { // no rule forbids a shorter lease
				latest, limitText = permit.Latest(now, laterOf(x.Created, x.Begins), latest, limitText)
				latest = earliest(latest)
			}
			if until.After(x.Ends) {
				free, err := s.freeUntil(v, x, until)
				if err != nil {
					return err
				}
				if free.Before(latest) && free.Before(until) {
					latest, limitText = free, nextReservation
				}
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
			return nil
		},
	})
	out.Notices = append(out.Notices, cut.texts()...)
	return out, err
}

// limitName returns the text for what limits a renewal. The limit is the site's if latest is before the end of
// the credential, else it is the credential.
func (s *Service) limitName(latest, credential time.Time) string {
	if latest.Before(credential.Truncate(time.Second)) {
		return "the limit of this aggregate"
	}
	return "the presented credential"
}
