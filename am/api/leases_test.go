package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am/service/maintenance"
	"patchbay/am/site/operate"
	"patchbay/inventory"
)

// twoStates has a slice with an allocated sliver x and a ready sliver y.
const twoStates = `
	alice owns s1 20d
	alice Allocate s1 x y
	alice Provision s1.y
	settle
	alice PerformOperationalAction s1.y geni_start
	settle
`

// TestRenew renews an allocated sliver, which may last two hours, and a provisioned one, which may
// last as long as the credential. TestTrap12TimesAsClientsSendThem has other forms of times.
func TestRenew(t *testing.T) {
	const same = "x@+10m y@+24h"
	for _, tt := range []struct{ call, want, ends string }{
		{"+1h", "", "x@+1h y@+1h"},
		{"+2h", "", "x@+2h y@+2h"},
		{"+2h0m1s", "REFUSED LATEST code.am_code=<int>19", same},
		{"+3d geni_best_effort=true", "LATEST", "x@+10m y@+3d"},
		{"+21d geni_best_effort=true", `REFUSED "the latest time is" code.am_code=<int>19`, same},
		{"+3d geni_extend_alap=true", "", "x@+2h y@+3d"},
		{"+400d geni_extend_alap=true", "", "x@+2h y@+20d"},
		{"+1m", "", "x@+1m y@+1m"},
		{"+1m geni_extend_alap=true", "", same},
		{"+1h geni_extend_alap=true", "", "x@+1h y@+24h"},
		{"+6d geni_best_effort=true with=short", `REFUSED "the latest time is"`, same},
		{"+6d geni_extend_alap=true with=short", "", "x@+2h y@+5d"},
		{"+0s", `BADARGS "past"`, same},
		{"-1s geni_best_effort=true", `BADARGS "past"`, same},
		{"-1h geni_extend_alap=true", `BADARGS "past"`, same},
		{"+1h geni_end_time=+30m", "", "x@+1h y@+1h"},
	} {
		t.Run(tt.call, func(t *testing.T) {
			w := newWorld(t).play(twoStates + "alice owns s1 5d as short")
			want := strings.Replace(tt.want, "LATEST", `"the latest time is `+w.at(2*time.Hour)+`"`, 1)
			if !strings.Contains(want, "REFUSED") && !strings.Contains(want, "BADARGS") {
				want += " " + tt.ends
			}
			w.play("alice Renew s1 " + tt.call + " -> " + want + "\nalice Status s1 -> " + tt.ends)
		})
	}
}

// TestRequestedEndTimes sends geni_end_time with Allocate, where it ends the reservation, and with Provision,
// where it ends the lease.
func TestRequestedEndTimes(t *testing.T) {
	for _, tt := range []struct{ allocate, reserved, wait, provision, leased string }{
		{"", "+10m", "0s", "", "+24h"},
		{"geni_end_time=+3d", "+10m", "0s", "", "+3d"},
		{"geni_end_time=+5m", "+5m", "0s", "", "+5m"},
		{"geni_end_time=+3d", "+10m", "0s", "geni_end_time=+2d", "+2d"},
		{"", "+10m", "0s", "geni_end_time=+3m", "+3m"},
		{"geni_end_time=+90d", "+10m", "0s", "", "+20d"},
		{"", "+10m", "0s", "geni_end_time=+90d", "+20d"},
		{"geni_end_time=+3d", "+10m", "9m", "", "begin+3d"},
	} {
		newWorld(t).play(fmt.Sprintf("alice owns s1 20d\nalice Allocate s1 a %s -> @%s\npass %s\nalice Provision s1 %s -> @%s", tt.allocate, tt.reserved, tt.wait, tt.provision, tt.leased))
	}
	newWorld(t).play(`
		alice owns s1 20d
		alice Allocate s1 a
		alice Provision s1 geni_end_time=-1s -> BADARGS
		alice Status s1 -> a:allocated @+10m
	`)
}

// TestProvisionKeepsTheOperatorsEnd checks that Provision keeps the end that an operator set for
// a reservation, also beyond the limits for experimenters. The user can only shorten it.
func TestProvisionKeepsTheOperatorsEnd(t *testing.T) {
	for _, tt := range []struct {
		granted     time.Duration
		story, ends string
	}{
		{72 * time.Hour, "", "+72h"},
		{90 * 24 * time.Hour, "", "+90d"}, // more than the credential and than the limit
		{10 * time.Minute, "", "+24h"},
		{72 * time.Hour, "geni_end_time=+1h", "+1h"},
		{72 * time.Hour, "geni_end_time=+75h", "+75h"},
		{90 * 24 * time.Hour, "geni_end_time=+95d", "+90d"},
		{72 * time.Hour, "renewed", "+24h"}, // by the user afterwards
	} {
		w := newWorld(t).play("alice owns s1 80h\nalice Allocate s1 a")
		operations := operate.New(operate.Config{
			Store: w.store, Inventory: func() *inventory.Inventory { return w.inventory }, Plan: func() *maintenance.Plan { return nil },
		})
		if _, err := operations.Renew(t.Context(), operate.Renew{Targets: []string{w.urns["s1"]}, End: operate.End{Until: w.clock().Add(tt.granted)}, Operator: "dora"}); err != nil {
			t.Fatal(err)
		}
		wish := tt.story
		if wish == "renewed" {
			w.play("alice Renew s1 +1h")
			wish = ""
		}
		w.play("alice Provision s1 " + wish + " -> @" + tt.ends)
	}
}
