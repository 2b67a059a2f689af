package service

import (
	"testing"
	"time"

	"patchbay/am"
)

func TestLeases(t *testing.T) {
	s := &Service{cfg: Config{Leases: DefaultLeases}}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	const day = 24 * time.Hour
	none := time.Time{}
	for _, tt := range []struct {
		rule      string
		got, want time.Time
	}{
		{"a reservation lasts ten minutes", s.reservationEnd(now, in(day), none), in(10 * time.Minute)},
		{"… not longer than its credential", s.reservationEnd(now, in(time.Minute), none), in(time.Minute)},
		{"… nor than was wished", s.reservationEnd(now, in(day), in(time.Minute)), in(time.Minute)},
		{"a requested for longer is for Provision", s.reservationEnd(now, in(day), in(2*day)), in(10 * time.Minute)},
		{"a first lease lasts a day", s.leaseEnd(now, in(9*day), none), in(day)},
		{"… short of the credential by the margin", s.leaseEnd(now, in(time.Hour), none), in(50 * time.Minute)},
		{"… unless that leaves next to nothing", s.leaseEnd(now, in(15*time.Minute), none), in(15 * time.Minute)},
		{"a requested is exact", s.leaseEnd(now, in(9*day), in(8*day)), in(8 * day)},
		{"… capped by the credential", s.leaseEnd(now, in(9*day), in(99*day)), in(9 * day)},
		{"… and by the site", s.leaseEnd(now, in(99*day), in(98*day)), in(30 * day)},
		{"whole seconds, never rounded up", s.leaseEnd(now, in(time.Hour+900*time.Millisecond), in(day)), in(time.Hour)},
		{"Renew of a reservation", s.latest(now, in(9*day), &am.Sliver{Status: am.Status{Allocation: am.Allocated}}), in(2 * time.Hour)},
		{"Renew of a provisioned sliver", s.latest(now, in(99*day), &am.Sliver{Status: am.Status{Allocation: am.Provisioned}}), in(30 * day)},
	} {
		if !tt.got.Equal(tt.want) {
			t.Errorf("%s: %v, want %v", tt.rule, tt.got, tt.want)
		}
	}
}
