package service

import (
	"time"

	"patchbay/am"
)

// earliest returns the earliest of the times in UTC, in whole seconds because clients compare
// times as text.
func earliest(a time.Time, more ...time.Time) time.Time {
	for _, b := range more {
		if b.Before(a) {
			a = b
		}
	}
	return a.UTC().Truncate(time.Second)
}

// checkEndTime returns a BadArgs error if the requested end of a lease is in the past. It
// accepts the zero time: no end was requested.
func checkEndTime(now, requested time.Time) error {
	if requested.IsZero() || requested.After(now) {
		return nil
	}
	return am.Errorf(am.BadArgs, "geni_end_time %s is in the past", requested.Format(time.RFC3339)).With(am.OutOfRange)
}

// reservationEnd returns the end of the lease of a new reservation: the earliest of the
// site's limit, the end of the credential, and the requested end if there is one.
func (s *Service) reservationEnd(now, credential, requested time.Time) time.Time {
	end := earliest(now.Add(s.cfg.Leases.Allocated), credential)
	if !requested.IsZero() {
		end = earliest(end, requested)
	}
	return end
}

// leaseEnd returns the end of the lease after Provision: the requested end, within the
// limits. If no end was requested, it is the site's default, at most until a margin before
// the end of the credential.
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

// latest returns the latest end of a sliver's lease that the site and the credential allow
// for Renew.
func (s *Service) latest(now, credential time.Time, x *am.Sliver) time.Time {
	longest := s.cfg.Leases.ProvisionedMax
	if x.Status.Allocation == am.Allocated {
		longest = s.cfg.Leases.AllocatedMax
	}
	return earliest(now.Add(longest), credential)
}
