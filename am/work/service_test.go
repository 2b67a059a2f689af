package work

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/inventory/provider"
	setup "patchbay/rspec/step"
)

// asks gives services to an allocated sliver.
func (e *env) asks(name string, steps ...setup.Step) {
	e.t.Helper()
	e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		s, _, err := v.Sliver(sliverURN(name))
		s.Setup = steps
		cs.PutSliver(s)
		return cs, err
	})
}

// change changes the record of a sliver.
func (e *env) change(name string, f func(*am.Sliver)) {
	e.t.Helper()
	e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		s, _, err := v.Sliver(sliverURN(name))
		f(&s)
		cs.PutSliver(s)
		return cs, err
	})
}

// tells has the provider report services of a node.
func (e *env) tells(name string, items ...string) {
	e.d.with(func() { e.d.nodes[name].is[provider.AttrServices] = items })
}

var steps = []setup.Step{
	{Kind: setup.Install, URL: "http://example.org/a.tgz", InstallPath: "/local"},
	{Kind: setup.Install, URL: "http://example.org/b.tgz", InstallPath: "~", FileType: "tar.gz"},
	{Kind: setup.Execute, Shell: "bash", Command: "cd <&> /local\nmake"},
}

func TestServicesAreSentOnceAtCreation(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.allocate("a-1", "a-2")
		e.asks("a-1", steps...)
		e.asks("a-2")
		e.provision("a-1", "a-2")
		e.becomes(time.Minute, notReady, "a-1", "a-2")
		want := map[string][]string{"a-1": {
			`{"kind":"install","url":"http://example.org/a.tgz","install_path":"/local"}`,
			`{"kind":"install","url":"http://example.org/b.tgz","install_path":"~","file_type":"tar.gz"}`,
			`{"kind":"execute","shell":"bash","command":"cd <&> /local\nmake"}`,
		}}
		if diff := cmp.Diff(want, e.d.setups); diff != "" {
			t.Errorf("the provider got (-want +got):\n%s", diff)
		}
		// No later set has them again; the double checks this.
		e.on("a-1", "a-2")
		e.becomes(time.Minute, ready, "a-1", "a-2")
		e.do(am.ActionRestart, am.GoalRestart, func(d *am.Desired) { d.RestartSerial++ }, "a-1")
		e.becomes(time.Minute, ready, "a-1")
		if got := e.sliver("a-1"); got.Error != "" {
			t.Errorf("error %q, and nothing is known of the services", got.Error)
		}
	})
}

func TestProviderWithoutSetup(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.d.noSetup = true
		e.start()
		e.allocate("a-1", "a-2")
		e.asks("a-1", steps...)
		e.asks("a-2")
		e.provision("a-1", "a-2")
		e.becomes(time.Minute, notReady, "a-1", "a-2")
		if got := e.sliver("a-1").Error; !strings.Contains(got, "does not support install and execute") || !strings.Contains(got, "3 services") {
			t.Errorf("error %q", got)
		}
		if got := e.sliver("a-2").Error; got != "" {
			t.Errorf("error %q of a node without services", got)
		}
		e.on("a-1")
		e.becomes(time.Minute, ready, "a-1")
		if got := e.sliver("a-1").Error; got == "" {
			t.Error("no error once it is on")
		}
	})
}

const (
	stepDone    = `{"kind":"install","state":"done","exit":0}`
	stepFailed  = `{"kind":"install","state":"failed","exit":2,"message":"404 Not\nFound","output":"a\r\nb\n"}`
	stepRunning = `{"kind":"execute","state":"running","message":"half","output":"so far"}`
)

func TestFailedServices(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.makeReady("a-1")
		e.asks("a-1", steps...)
		e.tells("a-1", stepDone, stepFailed, stepRunning)
		e.do(am.ActionRestart, am.GoalRestart, func(d *am.Desired) { d.RestartSerial++ }, "a-1")
		e.becomes(time.Minute, ready, "a-1")
		want := []am.StepReport{{State: am.StepDone}, {State: am.StepFailed, Exit: 2, Message: "404 Not Found", Output: "a\nb"}, {State: am.StepRunning, Message: "half"}}
		s := e.sliver("a-1")
		if diff := cmp.Diff(want, s.Observed.Services); diff != "" {
			t.Errorf("services (-want +got):\n%s", diff)
		}
		if s.Error != "install 2 of 2, http://example.org/b.tgz: 404 Not Found" {
			t.Errorf("error %q", s.Error)
		}
		// A service that was still running fails later, and a sweep finds it.
		e.tells("a-1", stepDone, stepFailed, `{"state":"failed","exit":7}`)
		e.within(31*time.Second, "the second failure is told", func() bool { return strings.HasSuffix(e.sliver("a-1").Error, "; and 1 more failed") })
		if s := e.sliver("a-1"); s.Status != ready {
			t.Errorf("it is %v", s.Status)
		}
		// The sweep does not remove an error with another cause.
		e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
			s, _, err := v.Sliver(sliverURN("a-1"))
			s.Error = "something else"
			cs.PutSliver(s)
			return cs, err
		})
		e.tells("a-1", stepDone, stepDone, stepDone)
		e.within(31*time.Second, "all is done", func() bool { s := e.sliver("a-1"); return s.StepFailure() == "" })
		if got := e.sliver("a-1").Error; got != "something else" {
			t.Errorf("error %q", got)
		}
	})
}

func TestServicesThatMustSucceed(t *testing.T) {
	failed := am.Status{Allocation: am.Provisioned, Operational: am.Failed}
	bubble(t, 2, func(e *env) {
		e.strict = true
		e.start()
		e.makeReady("a-1", "a-2")
		e.asks("a-1", steps...)
		e.asks("a-2", steps...)
		e.tells("a-1", stepDone, stepFailed, stepRunning)
		e.do(am.ActionRestart, am.GoalRestart, func(d *am.Desired) { d.RestartSerial++ }, "a-1")
		e.becomes(time.Minute, failed, "a-1")
		e.tells("a-2", stepDone, stepDone, stepRunning)
		e.within(31*time.Second, "it runs", func() bool { return len(e.sliver("a-2").Observed.Services) == 3 })
		if s := e.sliver("a-2"); s.Status != ready || s.Error != "" {
			t.Fatalf("%v, %q", s.Status, s.Error)
		}
		e.tells("a-2", stepDone, stepDone, `{"state":"failed","exit":7}`)
		e.becomes(31*time.Second, failed, "a-2")
		for name, want := range map[string]string{"a-1": "install 2 of 2, http://example.org/b.tgz: 404 Not Found", "a-2": "execute 1 of 1, cd <&> /local…: it ended with status 7"} {
			if got := e.sliver(name).Error; got != want {
				t.Errorf("%s: error %q, want %q", name, got, want)
			}
		}
		// It can still be deleted.
		e.release("a-1", "a-2")
		e.within(time.Minute, "both are gone", func() bool { return !e.exists("a-1") && !e.exists("a-2") })
	})
}

func TestMoreServicesThanAsked(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.makeReady("a-1")
		e.asks("a-1", steps[0])
		e.tells("a-1", `nonsense`, stepFailed, stepFailed)
		e.do(am.ActionRestart, am.GoalRestart, func(d *am.Desired) { d.RestartSerial++ }, "a-1")
		e.becomes(time.Minute, ready, "a-1")
		if s := e.sliver("a-1"); s.Error != "" || len(s.Observed.Services) != 1 || s.StepProgress() != "" {
			t.Errorf("error %q, services %v", s.Error, s.Observed.Services)
		}
	})
}
