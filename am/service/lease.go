package service

import (
	"time"

	"patchbay/am"
)

// Leases returns the limits of leases.
func (s *Service) Leases() Leases { return s.cfg.Leases }

// earliest returns a time in UTC. It cuts fractions of a second, because clients compare times as
// text.
func earliest(a time.Time, more ...time.Time) time.Time {
	for _, b := range more {
		if b.Before(a) {
			a = b
		}
	}
	return a.UTC().Truncate(time.Second)
}

// checkEndTime returns a BadArgs error if the requested end is in the past. A zero end is valid.
func checkEndTime(now, requested time.Time) error {
	if requested.IsZero() || requested.After(now) {
		return nil
	}
	return am.Errorf(am.BadArgs, "geni_end_time %s is in the past", requested.Format(time.RFC3339)).With(am.OutOfRange)
}

// reservationEnd returns the earliest of the site's limit, the end of the credential, and the
// requested end. A zero requested end does not count.
func (s *Service) reservationEnd(now, credential, requested time.Time) time.Time {
	end := earliest(now.Add(s.cfg.Leases.Allocated), credential)
	if !requested.IsZero() {
		end = earliest(end, requested)
	}
	return end
}

// leaseEnd returns the end of the lease after Provision: the requested end, or an earlier one
// that the limits allow. If requested is zero, the lease has the site's default length, but ends
// at least the site's margin before the credential. A credential that ends sooner than two
// margins from now is used to its end.
func (s *Service) leaseEnd(now, credential, requested time.Time) time.Time {
	l := s.cfg.Leases
	if !requested.IsZero() {
		return earliest(requested, now.Add(l.ProvisionedMax), credential)
	}
	if short := credential.Add(-l.Margin); short.After(now.Add(l.Margin)) {
		credential = short
	}
	return earliest(now.Add(l.Provisioned), credential)
}

// latest returns the latest end that Renew may give by the limits of the site and the credential.
func (s *Service) latest(now, credential time.Time, x *am.Sliver) time.Time {
	longest := s.cfg.Leases.ProvisionedMax
	if x.Status.Allocation == am.Allocated {
		longest = s.cfg.Leases.AllocatedMax
	}
	return earliest(now.Add(longest), credential)
}
