package service

import (
	"context"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/credentials"
)

// RenewOptions are the options of Renew.
type RenewOptions struct {
	Call
	// AsLongAsPossible caps the time at the limits instead of refusing it, and
	// never shortens a lease (geni_extend_alap).
	AsLongAsPossible bool
}

// Renew sets the end of leases to exactly the time asked for (AM API v3,
// Renew), in either allocation state. A time before the present end shortens
// the lease.
//
// Errors: those of resolve; BadArgs for a time in the past; Refused with
// OutOfRange for one beyond the credential or the site's limits, naming the
// latest that would do; Busy for a sliver whose provider is still being asked.
func (s *Service) Renew(ctx context.Context, g credentials.Grant, t Targets, until time.Time, o RenewOptions) (Outcome, error) {
	until = until.UTC().Truncate(time.Second)
	return s.run(ctx, change{
		event: "Renew", grant: g, targets: t, call: o.Call,
		prepare: func(v *store.View, _ urn.URN) error {
			if !until.After(v.Now()) {
				return am.Errorf(am.BadArgs, "the expiration time %s is in the past", until.Format(time.RFC3339)).With(am.OutOfRange)
			}
			return nil
		},
		step: func(v *store.View, cs *store.ChangeSet, r *resolved, x *am.Sliver) error {
			status, err := am.Next(x.Status, am.EventRenew)
			if err != nil {
				return err
			}
			end := until
			if latest := s.latest(v.Now().UTC(), r.until, x); end.After(latest) {
				if !o.AsLongAsPossible {
					return am.Errorf(am.Refused, "sliver %s cannot be renewed to %s; the latest time is %s, by %s", x.URN, until.Format(time.RFC3339), latest.Format(time.RFC3339), s.limitedBy(latest, r.until)).With(am.OutOfRange).About(x.URN)
				}
				end = latest
			}
			if o.AsLongAsPossible && end.Before(x.Expires) {
				end = x.Expires
			}
			// Whoever renews has another wish now than when he allocated.
			x.Status, x.Expires, x.Wish = status, end, time.Time{}
			cs.PutSliver(*x)
			return nil
		},
	})
}

func (s *Service) limitedBy(latest, credential time.Time) string {
	if latest.Before(credential.Truncate(time.Second)) {
		return "the policy of this aggregate"
	}
	return "the credential that was shown"
}
