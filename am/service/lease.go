package service

import (
	"time"

	"patchbay/am"
)

// All times are kept in whole seconds: clients compare them as text.

func earliest(a time.Time, more ...time.Time) time.Time {
	for _, b := range more {
		if b.Before(a) {
			a = b
		}
	}
	return a.UTC().Truncate(time.Second)
}

// notPast refuses a wish for the end of a lease that is over; a zero one is none.
func notPast(now, wish time.Time) error {
	if wish.IsZero() || wish.After(now) {
		return nil
	}
	return am.Errorf(am.BadArgs, "geni_end_time %s is in the past", wish.Format(time.RFC3339)).With(am.OutOfRange)
}

// reservationEnd is the lease of a new reservation.
func (s *Service) reservationEnd(now, credential, wish time.Time) time.Time {
	end := earliest(now.Add(s.cfg.Leases.Allocated), credential)
	if !wish.IsZero() {
		end = earliest(end, wish)
	}
	return end
}

// leaseEnd is the lease after Provision: the wish as far as the limits go, else
// the site's default, short of the credential by a margin.
func (s *Service) leaseEnd(now, credential, wish time.Time) time.Time {
	l := s.cfg.Leases
	if !wish.IsZero() {
		return earliest(wish, now.Add(l.ProvisionedMax), credential)
	}
	if short := credential.Add(-l.Margin); short.After(now.Add(l.Margin)) {
		credential = short
	}
	return earliest(now.Add(l.Provisioned), credential)
}

// latest is how far Renew may go for a sliver.
func (s *Service) latest(now, credential time.Time, x *am.Sliver) time.Time {
	longest := s.cfg.Leases.ProvisionedMax
	if x.Status.Allocation == am.Allocated {
		longest = s.cfg.Leases.AllocatedMax
	}
	return earliest(now.Add(longest), credential)
}
