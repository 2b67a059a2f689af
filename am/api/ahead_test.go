package api

import (
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/service"
)

// TestReservationAhead follows a reservation from Allocate to its end.
func TestReservationAhead(t *testing.T) {
	newWorld(t).play(`
		alice owns s1 10d
		alice Allocate s1 a@pc1 geni_start_time=+2h geni_end_time=+5h -> a:allocated a:pending_allocation @+2h30m "geni_start_time"
		alice Provision s1 -> UNAVAILABLE "begins at"
		pass 2h
		begin
		alice Status s1 -> a:allocated @+30m
		alice Provision s1 -> @+3h
		settle
		alice Status s1 -> a:notready a:provisioned @+3h
		pass 3h
		expire
		alice Status s1 -> SEARCHFAILED
	`)
}

// TestStories of reservations ahead. Each begins with a slice of ten days.
func TestStoriesOfReservationsAhead(t *testing.T) {
	off, steps := service.DefaultLeases, service.DefaultLeases
	off.AheadMax, steps.AheadStep = 0, 30*time.Minute
	for _, tt := range []struct {
		rule   string
		leases service.Leases
		story  string
	}{
		{"GetVersion says how far ahead", service.Leases{}, `
			alice GetVersion -> value.patchbay_ahead.max_seconds=<int>2592000 value.patchbay_ahead.step_seconds=<int>0
			alice GetVersion2 -> value.patchbay_ahead.max_seconds=<int>2592000`},
		{"and in which steps", steps, "alice GetVersion -> value.patchbay_ahead.step_seconds=<int>1800"},
		{"a site without them", off, `
			alice GetVersion -> !"patchbay_ahead"
			alice Allocate s1 a geni_start_time=+2h -> UNSUPPORTED "geni_start_time"
			alice CreateSliver s1 a geni_start_time=+2h -> UNSUPPORTED "geni_start_time"`},
		{"version 2 provisions at the start", service.Leases{}, `
			alice CreateSliver s1 a@pc1 geni_start_time=+2h geni_end_time=+5h
			alice SliverStatus s1 -> a:configuring @+5h value.geni_status=<string>configuring "geni_start_time"
			alice CreateSliver s1 b -> ALREADYEXISTS
			alice RenewSliver s1 +4h
			alice SliverStatus s1 -> a:configuring @+4h
			alice RenewSliver s1 +6h
			alice RenewSliver s1 +1h -> BADARGS "not after the start"
			pass 2h
			begin
			settle
			alice SliverStatus s1 -> a:ready @+4h
			pass 4h
			expire
			alice SliverStatus s1 -> SEARCHFAILED`},
		{"version 2 has the limits of version 3", service.Leases{}, `
			alice CreateSliver s1 a geni_start_time=+1000h -> REFUSED "geni_start_time"
			alice CreateSliver s1 a geni_start_time=+2h geni_end_time=+1h -> BADARGS "geni_end_time"
			alice CreateSliver s1 a geni_start_time=+240h -> REFUSED "credential"`},
		{"provisioned at the start with users", service.Leases{}, `
			alice Allocate s1 a@pc1 geni_start_time=+2h geni_end_time=+5h patchbay_provision_at_start=true geni_users=alice -> a:allocated @+5h
			pass 2h
			begin
			settle
			alice Status s1 -> a:ready @+3h`},
		{"users of Allocate are not read without the option", service.Leases{}, `
			alice Allocate s1 a geni_users=MANY
			alice Allocate s1 b geni_users=MANY patchbay_provision_at_start=false
			alice Allocate s1 c geni_users=MANY patchbay_provision_at_start=true -> BADARGS "geni_users"`},
		{"a Renew with an end in the past", service.Leases{}, `
			alice Allocate s1 a geni_start_time=+2h
			alice Renew s1 +3h geni_end_time=-1h -> BADARGS "geni_end_time"`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			setting{leases: tt.leases}.world(t).play("alice owns s1 240h\n" + strings.ReplaceAll(tt.story, "MANY", strings.Repeat("a,", maxUsers+1)))
		})
	}
}

// TestStartTimesOfClients gives the start in the forms that clients send.
func TestStartTimesOfClients(t *testing.T) {
	for _, tt := range []struct{ client, form string }{
		{"omni --start-time", "2006-01-02T15:04:05+00:00"},
		{"omni --start-time --no-tz", "2006-01-02T15:04:05"},
		{"jFed", "2006-01-02T15:04:05.000Z"},
		{"patchbay", "2006-01-02T15:04:05Z"},
	} {
		t.Run(tt.client, func(t *testing.T) {
			w := newWorld(t)
			start := w.clock().Add(3 * time.Hour).UTC().Truncate(time.Second)
			w.texts["$start"], w.texts["$end"] = start.Format(tt.form), start.Add(time.Hour).Format(tt.form)
			w.texts["$shown"] = FormatTime(start)
			w.play(`
				alice owns s1 24h
				alice Allocate s1 a geni_start_time=$start geni_end_time=$end -> a:allocated @+3h30m "geni_start_time" $shown
			`)
		})
	}
}

// TestTimesOfRefusals checks the value of an answer that refuses a request for want of room.
func TestTimesOfRefusals(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 600, time.UTC)
	for _, tt := range []struct {
		rule string
		err  error
		want xmlrpc.Value
	}{
		{"neither is known", am.Errorf(am.TooBig, "no room"), ""},
		{"both", &am.Error{Code: am.TooBig, FirstStart: at, LongestEnd: at.Add(time.Hour)}, xmlrpc.Struct{opt("patchbay_first_start", "2030-01-02T03:04:05Z"), opt("patchbay_longest_end", "2030-01-02T04:04:05Z")}},
		{"a later start only", &am.Error{Code: am.TooBig, FirstStart: at}, xmlrpc.Struct{opt("patchbay_first_start", "2030-01-02T03:04:05Z")}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			body := (&call{event: Event{Method: "Allocate"}}).refuse(tt.err)
			want, err := xmlrpc.AppendResponse(nil, envelope(am.TooBig, am.NoDetail, tt.want, oneLine(tt.err.Error()), nil))
			if err != nil || string(body) != string(want) {
				t.Errorf("got %s\nwant %s, %v", body, want, err)
			}
		})
	}
}

// TestRenewableUntilIsShown checks the member of slivers that limits their renewal.
func TestRenewableUntilIsShown(t *testing.T) {
	d := newDetailWriter()
	until, _ := d.add(nil, &service.Report{RenewableUntil: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}).Get("patchbay_renewable_until")
	if none := d.add(nil, &service.Report{}); until != "2030-01-02T03:04:05Z" || len(none) > 0 {
		t.Errorf("%v; unknown: %v", until, none)
	}
}
