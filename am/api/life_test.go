package api

import (
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/store"
)

// TestLife makes the calls of the automated jFed test in its order, then deletes slivers that are
// already gone, as omni does.
func TestLife(t *testing.T) {
	newWorld(t, "key", testKey[:60]).play(`
		alice owns s1 48h
		alice ListResources with=none -> BADARGS
		alice ListResources -> 'type="advertisement"' "ad.xsd" 'component_name="pc1"' 'now="true"' "rspec_opstate" "geni_update_users"
		alice Status s1 with=user -> FORBIDDEN
		alice Status s1 -> SEARCHFAILED
		alice Allocate s1 n0 version= -> n0:allocated 'type="manifest"' "manifest.xsd" 'sliver_id="urn:publicid:IDN+example.org+sliver+' "IDN+example.org+node+pc1" 'client_id="n0"'
		alice Provision s1.n0 geni_users=alice -> n0:provisioned n0:pending_allocation
		settle
		alice Status s1.n0 -> n0:notready value.geni_urn=<string>s1
		alice PerformOperationalAction s1.n0 geni_start -> #1
		alice PerformOperationalAction s1.n0 geni_start -> #1
		alice Status s1.n0 -> n0:configuring
		settle
		alice Status s1.n0 -> n0:ready
		alice PerformOperationalAction s1 geni_start
		alice Describe s1 -> 'authentication="ssh-keys"' 'hostname="pc1.example.org"' 'port="22"' 'username="alice"' "services_user" $key 'ipv4="192.0.2.7"'
		alice Renew s1 begin+24h5m
		alice Status s1 -> @begin+24h5m
		alice Delete s1 -> n0:unallocated @begin+24h5m
		alice Delete s1 -> SEARCHFAILED
		alice Status s1.n0 -> SEARCHFAILED
		settle
		alice Delete s1 -> SEARCHFAILED
		alice Status s1.n0 -> SEARCHFAILED
		alice owns s2 3h
		alice Allocate s2 a
		alice Provision s2 -> @+2h50m
	`)
}

// TestStartBeforeTheNodeIsMadeIsRemembered sends geni_start before the node is created. The start
// is carried out afterwards, unless another call cancels it.
func TestStartBeforeTheNodeIsMadeIsRemembered(t *testing.T) {
	const made = `
		alice owns s1 48h
		alice Allocate s1 a b
		alice PerformOperationalAction s1.a geni_start -> UNSUPPORTED "Provision it first"
		alice Provision s1 geni_users=alice
		alice PerformOperationalAction s1.a geni_start -> a:pending_allocation "1 of 1 slivers are still being made; geni_start is remembered"
	`
	for rule, story := range map[string]string{
		"carried out when the node is made": `
			alice Status s1 -> a:pending_allocation b:pending_allocation
			alice Describe s1 -> a:pending_allocation b:pending_allocation 'login="alice"'
			settle
			alice Status s1 -> a:ready b:notready
		`,
		"asked for twice": `
			alice PerformOperationalAction s1.a geni_start -> a:pending_allocation
			settle
			alice Status s1 -> a:ready b:notready
		`,
		"of the whole slice": `
			alice PerformOperationalAction s1 geni_start -> "2 of 2 slivers are still being made"
			settle
			alice Status s1 -> a:ready b:ready
		`,
		"with one that is only allocated": `
			alice Allocate s1 c
			alice PerformOperationalAction s1.c geni_start -> UNSUPPORTED !"geni_best_effort"
			alice PerformOperationalAction s1.b s1.c geni_start -> UNSUPPORTED "nothing was changed: geni_best_effort=true changes the slivers that allow it"
			alice PerformOperationalAction s1.b s1.c geni_start geni_best_effort=true -> b:pending_allocation c:pending_allocation "1 of 2 slivers" "Provision it first"
			settle
			alice Status s1 -> a:ready b:ready c:pending_allocation
		`,
		"a stop takes it back": `
			alice PerformOperationalAction s1 geni_stop -> a:pending_allocation b:pending_allocation "geni_stop is remembered: they are left switched off"
			settle
			alice Status s1 -> a:notready b:notready
		`,
		"a stop takes back the start of CreateSliver": `
			alice owns s2 48h
			alice CreateSliver s2 d users=alice
			alice PerformOperationalAction s2 geni_stop -> d:pending_allocation
			alice SliverStatus s2 -> value.geni_status=<string>configuring
			settle
			alice Status s2 -> d:notready
		`,
		"a restart is refused and changes nothing": `
			alice PerformOperationalAction s1.a geni_restart -> UNSUPPORTED "in state geni_pending_allocation; it is possible in state geni_ready"
			settle
			alice Status s1 -> a:ready b:notready
		`,
		"the lease is renewed": `
			alice Renew s1 +30h
			settle
			alice Status s1 -> a:ready b:notready @+30h
		`,
		"deleted and reserved anew": `
			alice Delete s1
			settle
			alice Allocate s1 a
			alice Provision s1
			settle
			alice Status s1 -> a:notready
		`,
		"shut down": `
			alice Shutdown s1
			settle
			alice SliverStatus s1 -> value.geni_status=<string>shutdown
			thaw s1
			alice Status s1 -> a:notready b:notready
		`,
	} {
		t.Run(rule, func(t *testing.T) { newWorld(t).play(made + story) })
	}
}

// TestRefusalsInPendingAllocationDoNotAdviseToWait checks that refusals of a second Provision and
// of a restart do not advise to wait, because neither ever becomes possible.
func TestRefusalsInPendingAllocationDoNotAdviseToWait(t *testing.T) {
	newWorld(t).play(`
		alice owns s1 48h
		alice Allocate s1 a b
		alice Provision s1.a
		alice Provision s1.a -> UNSUPPORTED "Provision is not possible in state geni_pending_allocation; it is provisioned already"
		alice Provision s1.a s1.b geni_best_effort=true -> "it is provisioned already" !"wait until"
		settle
		alice Provision s1.a -> UNSUPPORTED "in state geni_notready; it is provisioned already" !"possible now"
	`)
}

func TestURNsArgument(t *testing.T) {
	w := newWorld(t).play(`
		alice owns s1 24h
		alice owns s2 24h
		alice Allocate s1 n
		alice Allocate s2 n
		mallory owns m 24h
		mallory Status s1.n with=m -> FORBIDDEN "+sliver+" !"+slice+s1" code.am_code=<int>22
		mallory Delete s1 with=s1 -> FORBIDDEN
		mallory Delete s1 with=m -> FORBIDDEN
		alice Status s1
	`)
	for _, tt := range []struct {
		rule string
		urns xmlrpc.Value
		want am.Code
	}{
		{"not an array", w.urns["s1"], am.BadArgs},
		{"empty", strs(), am.BadArgs},
		{"no string", []xmlrpc.Value{1}, am.BadArgs},
		{"no URN", strs("hello"), am.BadArgs},
		{"a node", strs("urn:publicid:IDN+example.org+node+pc1"), am.BadArgs},
		{"two slices", strs(w.urns["s1"], w.urns["s2"]), am.BadArgs},
		{"slice and sliver", strs(w.urns["s1"], w.urns["s1.n"]), am.BadArgs},
		{"one known, one not", strs(w.urns["s1.n"], missing), am.SearchFailed},
	} {
		w.who("alice").ask(3, "Status", tt.urns, creds(w.creds["s1"], w.creds["s2"]), opts()).want(t, tt.rule, tt.want)
	}
}

func TestGeniMany(t *testing.T) {
	long := strings.Repeat("long", 64) // the longest client_id that is read
	w := newWorld(t).play(strings.ReplaceAll(`
		alice owns s1 24h
		alice Allocate s1 LONG
		alice Allocate s1 LONG -> ALREADYEXISTS
	`, "LONG", long))
	if output := w.answer.member("output"); len(output) > 400 {
		t.Errorf("the refusal repeats a long client_id: %d bytes", len(output))
	}
	w.play(`
		alice Delete s1
		alice Allocate s1 a b
		alice Allocate s1 b c -> ALREADYEXISTS
		alice Allocate s1 c -> !'client_id="a"' 'client_id="c"'
		alice Describe s1 -> #3 1*'client_id="a"' 1*'client_id="b"' 1*'client_id="c"'
		alice Describe s1.b -> !'client_id="a"' 'client_id="b"'
		alice Delete s1.b
		alice Allocate s1 b
	`)
}

func TestShutdown(t *testing.T) {
	s := newWorld(t, "user", "urn:publicid:IDN+example.org+user+x").play(`
		alice owns s1 24h
		alice Allocate s1 a
		alice Shutdown $user with=s1 -> BADARGS
		alice Shutdown s1 with=user -> FORBIDDEN
		alice Shutdown s1 version= -> value=<boolean>1
		alice Shutdown s1
		pass 12h
	`) // the lease is over, but the sliver is kept for inspection
	left, err := s.store.Slivers()
	if err != nil || len(left) != 1 || !left[0].Live(s.clock()) {
		t.Errorf("the frozen sliver is not kept: %v, %v", left, err)
	}
}

// TestFaults checks that a body which is no valid call gets a Fault, and that wrong arguments do
// not.
func TestFaults(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	for _, tt := range []struct {
		version    int
		body, says string // nothing for no fault
	}{
		{3, "<methodCall><methodName>GetVersion", "ends inside"},
		{3, "<methodCall><methodName>Update</methodName></methodCall>", `no method "Update"`},
		{3, "<methodCall><methodName>GetVersion</methodName><params><param><value>a</value></param><param><value>b</value></param></params></methodCall>", "parameters"},
		{3, "<methodCall><methodName>Describe</methodName><params><param><value>a</value></param></params></methodCall>", "parameters"},
		{2, "<methodCall><methodName>CreateSliver</methodName><params><param><value>a</value></param><param><value>b</value></param><param><value>c</value></param></params></methodCall>", "parameters"},
		{3, "<methodCall><methodName>GetVersion</methodName><params><param><value>a</value></param></params></methodCall>", ""},
		{2, "<methodCall><methodName>Allocate</methodName></methodCall>", "v3 has it, at https://am.example.org:8443/am/3.0"},
		{3, "<methodCall><methodName>CreateSliver</methodName></methodCall>", "v2 has it, at https://am.example.org:8443/am/2.0"},
	} {
		e := alice.read(alice.post(tt.version, tt.body))
		if got := e.child("fault") != nil; got != (tt.says != "") || !strings.Contains(e.everything(), tt.says) {
			t.Errorf("%s: a fault %v: %s", tt.body, got, e.everything())
		}
	}
}

func TestCallerWithoutTrustedIssuerIsRefused(t *testing.T) {
	w := newWorld(t)
	other := setting{}.world(t)
	other.trial = newAuthority(t, t.TempDir(), other.now)
	other.play("mallory owns s1 1h")
	w.callers["mallory"], w.creds, w.urns = other.callers["mallory"], other.creds, other.urns
	w.callers["mallory"].site = w.site
	w.play(`
		mallory GetVersion
		mallory ListResources -> FORBIDDEN code.am_code=<int>23
		mallory ListResources with=none -> FORBIDDEN
		mallory Allocate s1 a -> FORBIDDEN
		nobody Allocate s1 a -> FORBIDDEN
	`)
}

func TestAdvertisementForms(t *testing.T) {
	w := newWorld(t).play(`
		alice owns s1 1h
		alice ListResources version= -> BADARGS
		alice ListResources geni_slice_urn=s1 -> BADARGS
		alice ListResources -> 24*"<node "
	`)
	alice := w.who("alice")
	text := func(gz bool, o ...xmlrpc.Member) string {
		t.Helper()
		a := w.serve(Request{Chain: alice.chain, Body: callBody(t, "ListResources", creds(alice.user), opts(o...)), AcceptGzip: gz}).want(t, "ListResources", am.Success)
		if want := gz && len(o) == 0; a.resp.Gzip != want { // what is compressed already is not compressed again
			t.Errorf("gzip %v, want %v", a.resp.Gzip, want)
		}
		return a.value.(string)
	}
	full := w.answer.at("value").text
	for _, free := range []bool{false, true} {
		if free {
			w.play(`alice Allocate s1 a
				alice ListResources -> 1*'now="false"' 24*"<node "
				alice ListResources geni_available=true -> !'now="false"' 23*"<node "`)
			full = w.answer.at("value").text
		}
		if got := unzip(t, text(true, opt("geni_compressed", 1), opt("geni_available", free))); got != full {
			t.Errorf("the compressed one differs: %s", got)
		}
	}
	if text(true) != text(false) {
		t.Error("the gzip body differs")
	}
}

// TestSubstitutedImageIsReported requests an image that the site does not have and gets the default
// image. Allocate, Status and Describe report the substitution. The request in the manifest keeps
// the name that was asked for.
func TestSubstitutedImageIsReported(t *testing.T) {
	image := func(name string) string {
		return `<node client_id="` + name + `"><sliver_type name="raw-pc"><disk_image name="` + name + `"/></sliver_type></node>`
	}
	w := newWorld(t, "one", image("ubuntu-24"), "two", image("beos")).play(`
		alice owns s1 1h
		alice Allocate s1 $one $two -> '<disk_image name="beos"/>' '"beos"' "debian-12"
	`)
	output := w.answer.member("output")
	if !strings.Contains(output, `"beos"`) || strings.Contains(output, "ubuntu") {
		t.Errorf("output: %q", output)
	}
	const images = `value.geni_slivers.0.patchbay_image=<string>"ubuntu-24" value.geni_slivers.1.patchbay_image=<string>"debian-12"`
	w.play(`
		alice Status s1 -> ` + images + `
		alice Describe s1 -> ` + images + ` '<disk_image name="beos"/>' 1*' here; debian-12 is used instead</notice>'
	`)
}

// TestPastLinksErrorsAndEndTimesAreForgotten checks three cases. A link without nodes can be requested again. Renew
// and Delete do not report the error of an earlier failure, which Status does. A Renew of the
// reservation replaces the geni_end_time of Allocate.
func TestPastLinksErrorsAndEndTimesAreForgotten(t *testing.T) {
	end := func(id string) string {
		return `<node client_id="` + id + `"><sliver_type name="raw-pc"/><interface client_id="` + id + `:0"/></node>`
	}
	link := func(a, b string) string {
		return `<link client_id="lan"><interface_ref client_id="` + a + `:0"/><interface_ref client_id="` + b + `:0"/></link>`
	}
	newWorld(t, "first", request(end("a"), end("b"), end("c"), link("a", "b")), "second", request(end("d"), end("e"), link("d", "e"))).play(`
		alice owns s1 1h
		alice Allocate s1 $first
		alice Allocate s1 $second -> ALREADYEXISTS
		alice Delete s1.a
		alice Allocate s1 $second -> ALREADYEXISTS
		alice Delete s1.b
		alice Allocate s1 $second
	`)
	w := newWorld(t).play(`
		alice owns s1 24h
		alice Allocate s1 a
		alice Provision s1
	`)
	w.edit(t, func(x *am.Sliver) { x.Status.Operational, x.Error = am.Failed, "it broke" })
	w.play(`
		alice Status s1 -> value.geni_slivers.0.geni_error=<string>"it broke"
		alice Renew s1 +1h -> value.0.geni_error=<string>''
		alice Delete s1 -> value.0.geni_error=<string>''
		alice owns s2 48h
		alice Allocate s2 a geni_end_time=+5m
		alice Renew s2 +1h
		pass 20m
		alice Provision s2 -> @+24h
	`)
}

// edit changes all slivers in the store.
func (s *site) edit(t testing.TB, f func(*am.Sliver)) {
	t.Helper()
	err := s.store.Commit(t.Context(), func(v *store.View) (cs store.ChangeSet, err error) {
		return cs, v.Slivers(func(x am.Sliver) bool { f(&x); cs.PutSliver(x); return true })
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestExpiredSliversAreNotFound checks that no method of either version finds a sliver at the end
// of its lease, also before the runner ends it. Its client_id is free again.
func TestExpiredSliversAreNotFound(t *testing.T) {
	for state, reach := range map[string]string{
		"reserved": "pass 10m",
		"pending":  "alice Provision s1\npass 24h",
		"ready":    "alice Provision s1\nsettle\nalice PerformOperationalAction s1 geni_start\nsettle\npass 24h",
	} {
		t.Run(state, func(t *testing.T) {
			w := newWorld(t).play("alice owns s1 48h\nalice Allocate s1 a\n" + reach)
			w.pass(-1)
			w.play("alice Status s1")
			w.pass(1)
			for _, at := range []string{"s1", "s1.a"} {
				w.play(strings.ReplaceAll(`
					alice Status AT -> SEARCHFAILED
					alice Provision AT -> SEARCHFAILED
					alice Renew AT +1h -> SEARCHFAILED
					alice PerformOperationalAction AT geni_start -> SEARCHFAILED
					alice PerformOperationalAction AT geni_update_users geni_users= -> SEARCHFAILED
					alice Delete AT -> SEARCHFAILED
				`, "AT", at))
			}
			w.play(`
				alice Describe s1.a -> SEARCHFAILED
				alice Describe s1 -> #0
				alice SliverStatus s1 -> SEARCHFAILED
				alice RenewSliver s1 +1h -> SEARCHFAILED
				alice DeleteSliver s1 -> SEARCHFAILED
				alice ListResources2 s1 with=s1 -> !"<node "
				alice Shutdown s1 -> SEARCHFAILED
				alice CreateSliver s1 a
				alice Status s1 -> a:pending_allocation
			`)
		})
	}
}

// TestExpiredLeaseFreesItsNode checks that an expired reservation frees its node at once, and that
// an expired provisioned node is free after it is cleaned up, although the runner has not ended the
// lease.
func TestExpiredLeaseFreesItsNode(t *testing.T) {
	setting{endLeases: true}.world(t).play(`
		alice owns s1 48h
		bob owns s2 80h
		alice Allocate s1 a@pc7
		pass 9m59s
		bob Allocate s2 a@pc7 -> TOOBIG
		pass 1s
		bob Allocate s2 a@pc7
		alice Status s1 -> SEARCHFAILED
		bob Provision s2
		settle
		pass 24h
		alice Allocate s1 a@pc7 -> BUSY
		settle
		alice Allocate s1 a@pc7
		bob Status s2 -> SEARCHFAILED
	`)
}
