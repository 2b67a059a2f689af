package api

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/service"
	"patchbay/am/testkit/require"
	"patchbay/credentials/cert"
	"patchbay/schemas"
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
			alice CreateSliver s1 a geni_start_time=+50s geni_end_time=+30s -> BADARGS "geni_end_time"
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

// TestRequestOfNITOS makes the request with a lease of the corpus on its date, with only its names changed.
func TestRequestOfNITOS(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(require.Shared(t, "corpus", "rspecs", "request"), "omn-geni-fire-20151006-nitos-test-request.rspec.xml"))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2015, 10, 6, 14, 41, 0, 0, time.UTC)
	trial := newAuthority(t, t.TempDir(), at)
	anchors, err := cert.ParsePEM(trial.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer("omf:nitos.outdoor+node+node004", authority+"+node+pc1", "omf:nitos+authority", authority+"+authority", "omf:nitos+interface+node004:if1", authority+"+interface+pc1:eth1")
	w := setting{began: at, anchors: cert.NewAnchors(cert.Anchor{Certificate: anchors[0]})}.world(t, "request", names.Replace(string(text)))
	w.trial = trial
	w.play(`
		alice owns s1 72h
		alice Allocate s1 $request geni_start_time=+1h -> BADARGS "line 7: the lease" "leave out"
		alice Allocate s1 $request patchbay_provision_at_start=true -> test1:allocated "2015-10-07T12:00:00Z" "2015-10-07T16:00:00Z" "asks for a channel" 'leaseID="testid"' '<ol:lease_ref id_ref="testid" />' '<ol:channel'
		alice Allocate s1 b@pc1 geni_start_time=+20h geni_end_time=+22h -> TOOBIG
		pass 22h
		begin
		settle
		alice Status s1 -> test1:ready
		pass 4h
		expire
		alice Allocate s1 $request -> BADARGS "line 7: the lease" "ended"
	`)
}

// TestLeasesOfNodes reserves nodes of one request for different times.
func TestLeasesOfNodes(t *testing.T) {
	for rule, set := range map[string]setting{"without dry runs": {}, "with dry runs": {prober: onlyNow{meanwhile{func() {}}, t}}} {
		t.Run(rule, func(t *testing.T) { leasesOfNodes(set.world(t)) })
	}
}

// onlyNow is a provider that is never asked about what begins later.
type onlyNow struct {
	meanwhile
	t *testing.T
}

func (p onlyNow) Probe(ctx context.Context, slivers, removed []am.Sliver, changed func(am.Sliver) bool) []*am.Error {
	for i := range slivers {
		if !slivers[i].Begins.IsZero() {
			p.t.Errorf("%s begins at %s, and its provider is asked", slivers[i].ClientID, slivers[i].Begins)
		}
	}
	return p.meanwhile.Probe(ctx, slivers, removed, changed)
}

// TestStartDuringADryRun lets a start come while the provider checks a node of the same request, which begins now. The reservation
// waits for the end of the dry run, and does not outlive one that never ends.
func TestStartDuringADryRun(t *testing.T) {
	for _, tt := range []struct{ rule, meanwhile, after string }{
		{"it ends", "pass 70s\nbegin", `-> a:allocated b:allocated
			begin
			settle
			alice Status s1 -> a:ready b:allocated`},
		{"it does not", "pass 2m\nexpire\nbob Allocate s2 x@pc1 geni_start_time=+2m geni_end_time=+3h", "-> SEARCHFAILED"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			var w *world
			calls := 0
			w = setting{prober: meanwhile{func() {
				if calls++; calls == 1 {
					w.play(tt.meanwhile)
				}
			}}}.world(t)
			w.texts["$mixed"] = strings.Replace(request(`<ol:lease leaseID="l" valid_from="`+w.at(65*time.Second)+`" valid_until="`+w.at(4*time.Hour)+`"/>`,
				`<node client_id="a" component_id="urn:publicid:IDN+`+authority+`+node+pc1"><ol:lease_ref id_ref="l"/></node>`, `<node client_id="b"/>`), "<rspec ", `<rspec xmlns:ol="`+schemas.NITOS+`" `, 1)
			w.play("alice owns s1 24h\nbob owns s2 24h\nalice Allocate s1 $mixed patchbay_provision_at_start=true " + tt.after)
		})
	}
}

func leasesOfNodes(w *world) {
	at := func(d time.Duration) string { return FormatTime(w.clock().Add(d)) }
	request := func(leases string, nodes ...string) string {
		text := request(append([]string{leases}, nodes...)...)
		return strings.Replace(text, "<rspec ", `<rspec xmlns:ol="`+schemas.NITOS+`" `, 1)
	}
	lease := func(name string, from, until time.Duration) string {
		return `<ol:lease leaseID="` + name + `" valid_from="` + at(from) + `" valid_until="` + at(until) + `"/>`
	}
	on := func(id, component, lease string) string {
		ref := ""
		if lease != "" {
			ref = `<ol:lease_ref id_ref="` + lease + `"/>`
		}
		return `<node client_id="` + id + `" component_id="urn:publicid:IDN+` + authority + `+node+` + component + `"><interface client_id="` + id + `:0"/>` + ref + `</node>`
	}
	link := `<link client_id="l"><interface_ref client_id="a:0"/><interface_ref client_id="b:0"/></link>`
	both := lease("first", 2*time.Hour, 4*time.Hour) + lease("second", 3*time.Hour, 6*time.Hour)
	w.texts["$two"] = request(both, on("a", "pc1", "first"), on("b", "pc2", "second"), link)
	w.texts["$one"] = request(lease("first", 2*time.Hour, 4*time.Hour), on("a", "pc1", "first"), on("b", "pc2", ""))
	w.texts["$begun"] = request(lease("first", -time.Hour, 4*time.Hour), on("a", "pc1", "first"))
	w.texts["$past"] = request(lease("first", -2*time.Hour, -time.Hour), on("a", "pc1", "first"))
	w.texts["$late"] = request(lease("first", 999*time.Hour, 1000*time.Hour), on("a", "pc1", "first"))
	w.texts["$none"] = request("", on("a", "pc1", "first"))
	w.play(`
		alice owns s1 120h
		alice Allocate s1 $none -> BADARGS "line" "refers to the lease"
		alice Allocate s1 $past -> BADARGS "the lease" "ended"
		alice Allocate s1 $late -> REFUSED "the lease" "too late"

		alice Allocate s1 $two -> a@+2h30m b@+3h30m
		alice Status s1 -> a:allocated b:allocated
		alice Allocate s1 c@pc1 geni_start_time=+4h geni_end_time=+5h
		alice Allocate s1 d@pc1 geni_start_time=+3h geni_end_time=+5h -> TOOBIG
		alice Allocate s1 d@pc2 geni_start_time=+5h geni_end_time=+6h -> TOOBIG
		alice Delete s1

		alice Allocate s1 $one patchbay_provision_at_start=true -> a@+4h b@+10m
		alice Provision s1.b -> b@+24h
		alice Delete s1
		settle

		alice Allocate s1 $one geni_start_time=+2h geni_end_time=+4h -> a@+2h30m b@+2h30m
		alice Delete s1
		alice CreateSliver s1 $one
		alice SliverStatus s1 -> a@+4h b@+24h
		alice DeleteSliver s1
		settle

		alice Allocate s1 $begun -> a@+10m
		alice Provision s1 -> a@+4h
	`)
}

// TestAdvertisementOfAWindow checks which nodes are available in a time to come.
func TestAdvertisementOfAWindow(t *testing.T) {
	off := service.DefaultLeases
	off.AheadMax = 0
	free := func(component string) string { return `component_name="` + component + `"` }
	for _, tt := range []struct {
		rule string
		setting
		story string
	}{
		{"what is held in it is not available", setting{}, `
			alice Allocate s1 a@pc1 geni_start_time=+2h geni_end_time=+5h
			alice ListResources geni_available=1 -> PC1
			alice ListResources geni_available=1 geni_start_time=+1h geni_end_time=+2h -> PC1
			alice ListResources geni_available=1 geni_start_time=+1h geni_end_time=+3h -> !PC1 PC2
			alice ListResources2 geni_available=1 geni_start_time=+4h geni_end_time=+6h -> !PC1 PC2
			alice ListResources geni_available=1 geni_start_time=+5h -> PC1
			alice ListResources geni_available=1 geni_end_time=+3h -> !PC1 PC2
			alice Delete s1
			alice ListResources geni_available=1 geni_end_time=+3h -> PC1`},
		{"what is held now and is free then is available", setting{}, `
			alice CreateSliver s1 a@pc1 geni_end_time=+2h
			alice ListResources geni_available=1 -> !PC1
			alice ListResources geni_available=1 geni_start_time=+2h -> PC1`},
		{"the ordinary one shows what begins", setting{}, `
			alice Allocate s1 a@pc1 geni_start_time=+2h geni_end_time=+5h
			alice ListResources geni_available=1 -> PC1
			pass 2h
			alice ListResources geni_available=1 -> !PC1 PC2`},
		{"its time", setting{}, `
			alice ListResources -> !"<schedule"
			alice ListResources geni_start_time=+1h geni_end_time=+2h -> 'schedule/1" from="FROM" until="UNTIL"/>' !"<lease"
			alice GetVersion -> "http://patchbay.example.org/rspec/ext/schedule/1" "http://nitlab.inf.uth.gr/schema/sfa/rspec/1"`},
		{"taken times, without names", setting{adExtensions: []string{service.NITOS}}, `
			alice Allocate s1 a@pc1 geni_start_time=+2h geni_end_time=+5h
			alice Allocate s1 b@pc2 geni_start_time=+2h geni_end_time=+5h
			alice Allocate s1 c@pc1 geni_start_time=+6h
			alice ListResources geni_start_time=+1h geni_end_time=+2h -> !"<lease"
			alice ListResources geni_start_time=+1h geni_end_time=+7h -> 2*"<lease " 2*'<lease_ref xmlns="http://nitlab.inf.uth.gr/schema/sfa/rspec/1" id_ref="lease1"/>' 1*'id_ref="lease2"/>' !"+slice+" !"+sliver+" !"alice"`},
		{"mistakes", setting{}, `
			alice ListResources geni_end_time=-1h -> BADARGS "past"
			alice ListResources geni_start_time=+3h geni_end_time=+2h -> BADARGS "not after"
			alice ListResources geni_start_time=+1000h -> BADARGS "too late"
			alice ListResources geni_start_time=soon -> BADARGS "geni_start_time"`},
		{"a site without reservations ahead", setting{leases: off}, `
			alice ListResources geni_start_time=+3h -> UNSUPPORTED
			alice ListResources geni_end_time=+3h -> "<schedule"
			alice GetVersion -> !"schedule/1"`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			w := tt.world(t)
			at := func(d time.Duration) string { return FormatTime(w.clock().Add(d)) }
			w.play("alice owns s1 240h\n" + strings.NewReplacer("PC1", "'"+free("pc1")+"'", "PC2", "'"+free("pc2")+"'", "FROM", at(time.Hour), "UNTIL", at(2*time.Hour)).Replace(tt.story))
		})
	}
}
