package api

import (
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
)

// staged are two nodes: web begins after db.
const staged = `<node client_id="db"><services xmlns:s="http://patchbay.example.org/rspec/ext/setup/1"><execute shell="sh" command="make db"/><execute shell="sh" command="make more"/></services></node>
<node client_id="web"><services xmlns:s="http://patchbay.example.org/rspec/ext/setup/1"><execute shell="sh" command="make web" s:order="1"/></services></node>`

func TestStagesNeedAProviderThatHasThem(t *testing.T) {
	plain := `<node client_id="a"><services><execute shell="sh" command="true"/></services></node>`
	for _, tt := range []struct {
		rule, request string
		stages        bool
		want          am.Code
	}{
		{"plain services, without stages", plain, false, am.Success},
		{"stages, with them", staged, true, am.Success},
		{"stages, without them", staged, false, am.Unsupported},
	} {
		alice := setting{stages: func(string) bool { return tt.stages }}.site(t).user("alice")
		slice, cred := alice.slice("s1", time.Hour)
		a := alice.call("Allocate", slice, creds(cred), request(tt.request), opts()).want(t, tt.rule, tt.want)
		if tt.want != am.Success && !strings.Contains(a.output, `node "web": the testbed of`) {
			t.Errorf("%s: output %q", tt.rule, a.output)
		}
	}
}

func TestSetupContinues(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("s1", 48*time.Hour)
	alice.call("Allocate", slice, creds(cred), request(staged), opts()).want(t, "Allocate", am.Success)
	alice.call("Provision", strs(slice), creds(cred), opts()).want(t, "Provision", am.Success)
	s.settle()
	alice.call("PerformOperationalAction", strs(slice), creds(cred), "geni_start", opts()).want(t, "start", am.Success)
	s.settle()
	fail := func() {
		s.observe("db", func(x *am.Sliver) {
			x.Observed.State, x.Observed.Services, x.Error = "ready", []am.StepReport{{State: am.StepDone}, {State: am.StepFailed, Exit: 2}}, "failed"
			x.SetupBegan = time.Unix(1, 0)
		})
		s.observe("web", func(x *am.Sliver) {
			x.Observed.State, x.Observed.Services, x.SetupStopped, x.Error = "ready", []am.StepReport{{State: am.StepWaiting}}, "not run", "not run"
		})
	}
	web, db := "", ""
	s.observe("web", func(x *am.Sliver) { web = x.URN.String() })
	s.observe("db", func(x *am.Sliver) { db = x.URN.String() })
	state := func(of string) (found *am.Sliver) {
		s.observe(of, func(x *am.Sliver) { y := *x; found = &y })
		return found
	}

	fail()
	alice.call("PerformOperationalAction", strs(db), creds(cred), "patchbay_setup", opts()).want(t, "of the failed node", am.Success)
	if x := state("db"); x.Desired.Stage != -1 || x.Status.Operational != am.Configuring || x.Error != "" || !x.SetupBegan.Equal(s.clock()) {
		t.Errorf("db is at stage %d, %v, error %q, from %v", x.Desired.Stage, x.Status, x.Error, x.SetupBegan)
	}
	if x := state("web"); x.SetupStopped != "" || x.Status.Operational != am.Configuring || x.Desired.Stage != 0 {
		t.Errorf("web is stopped by %q, %v, stage %d", x.SetupStopped, x.Status, x.Desired.Stage)
	}

	s.observe("db", func(x *am.Sliver) { x.Desired.Stage = 0 })
	s.settle()
	fail()
	alice.call("PerformOperationalAction", strs(slice), creds(cred), "patchbay_setup", opts()).want(t, "of the slice", am.Success)
	if x := state("web"); x.SetupStopped != "" || x.Status.Operational != am.Configuring {
		t.Errorf("web is stopped by %q, %v", x.SetupStopped, x.Status)
	}

	s.observe("db", func(x *am.Sliver) { x.Desired.Stage, x.Observed.Services[1].State = 0, am.StepDone })
	s.settle()
	generation := state("db").Generation
	alice.call("PerformOperationalAction", strs(slice), creds(cred), "patchbay_setup", opts()).want(t, "with nothing to do", am.Success)
	if x := state("db"); x.Generation != generation || x.Status.Operational != am.Ready {
		t.Errorf("db has generation %d and was %d, %v", x.Generation, generation, x.Status)
	}

	alice.call("PerformOperationalAction", strs(web), creds(cred), "geni_restart", opts()).want(t, "restart", am.Success)
	users := opts(opt("geni_users", []xmlrpc.Value{user(alice.urn.String(), testKey)}))
	alice.call("PerformOperationalAction", strs(web), creds(cred), "geni_update_users", users).want(t, "users while it is configured", am.Success)
	if x := state("web"); x.Status.Operational != am.Configuring || len(x.Desired.Accounts) != 1 {
		t.Errorf("web is %v with %d accounts", x.Status, len(x.Desired.Accounts))
	}
	alice.call("PerformOperationalAction", strs(web), creds(cred), "geni_stop", opts()).want(t, "stop while it is configured", am.Success)

	s.observe("db", func(x *am.Sliver) { x.Status.Operational, x.Error = am.Failed, "burnt" })
	alice.call("PerformOperationalAction", strs(db), creds(cred), "patchbay_setup", opts()).want(t, "of a burnt node", am.Unsupported)
}
