package api

import (
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/maintenance"
	"patchbay/am/operate"
	"patchbay/inventory"
)

// TestProvisionKeepsWhatAnOperatorGave: the end that an operator gives to a
// reservation is that of the lease, whatever the limits for experimenters are, unless
// its user asks for less.
func TestProvisionKeepsWhatAnOperatorGave(t *testing.T) {
	for _, c := range []struct {
		rule    string
		granted time.Duration
		renewed time.Duration // by the user afterwards; 0 for not
		wish    time.Duration // of Provision; 0 for none
		want    time.Duration
	}{
		{"more than the default", 72 * time.Hour, 0, 0, 72 * time.Hour},
		{"more than the credential and than the limit", 90 * 24 * time.Hour, 0, 0, 90 * 24 * time.Hour},
		{"less than the default", 10 * time.Minute, 0, 0, 24 * time.Hour},
		{"the user wants less", 72 * time.Hour, 0, time.Hour, time.Hour},
		{"the user wants more", 72 * time.Hour, 0, 75 * time.Hour, 75 * time.Hour},
		{"the user wants more than there may be", 90 * 24 * time.Hour, 0, 95 * 24 * time.Hour, 90 * 24 * time.Hour},
		{"the user has renewed since", 72 * time.Hour, time.Hour, 0, 24 * time.Hour},
	} {
		s := newSite(t)
		desk := operate.New(operate.Config{
			Store: s.store, Inventory: func() *inventory.Inventory { return s.inventory }, Plan: func() *maintenance.Plan { return nil },
		})
		alice := s.user("alice")
		slice, cred := alice.slice("s1", 80*time.Hour)
		at := func(d time.Duration) string { return s.clock().Add(d).Format(time.RFC3339) }
		alice.call("Allocate", slice, creds(cred), request(node("a")), opts()).want(t, "Allocate", am.Success)
		if _, err := desk.Renew(t.Context(), operate.Renew{Targets: []string{slice}, End: operate.End{Until: s.clock().Add(c.granted)}, Operator: "dora"}); err != nil {
			t.Fatal(err)
		}
		if c.renewed > 0 {
			alice.call("Renew", strs(slice), creds(cred), at(c.renewed), opts()).want(t, "Renew", am.Success)
		}
		o := opts()
		if c.wish > 0 {
			o = append(opts(), opt("geni_end_time", at(c.wish)))
		}
		sl := alice.call("Provision", strs(slice), creds(cred), o).want(t, "Provision", am.Success).slivers(t)
		if got := get(sl[0], "geni_expires"); got != at(c.want) {
			t.Errorf("%s: until %v, want %s", c.rule, got, at(c.want))
		}
	}
}
