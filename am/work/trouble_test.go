package work

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/inventory/provider"
)

func refusing(kind provider.Kind, msg string, temporary bool) func() *provider.Error {
	return func() *provider.Error { return &provider.Error{Kind: kind, Msg: msg, Temporary: temporary} }
}

func TestHangingNodesDelayNoOthers(t *testing.T) {
	for _, c := range []struct {
		rule   string
		places int
		limit  time.Duration
		hang   func(d *double, name string)
	}{
		{"sets hang, two places", 2, 30 * time.Second, func(d *double, n string) { d.hangs[n] = true }},
		{"sets hang, four places", 4, 15 * time.Second, func(d *double, n string) { d.hangs[n] = true }},
		{"gets hang", 2, time.Minute, func(d *double, n string) { d.getHangs[n] = true }},
	} {
		t.Run(c.rule, func(t *testing.T) {
			bubble(t, c.places, func(e *env) {
				for _, n := range []string{"a-1", "b-1", "c-1"} {
					c.hang(e.d, n)
				}
				e.start()
				e.allocate("a-1", "a-2", "b-1", "c-1", "d-1", "d-2", "f-1")
				e.provision("a-1", "a-2", "b-1", "c-1")
				// Nodes of the same batch may wait until one has timed out.
				e.provision("d-1", "d-2")
				e.becomes(c.limit+5*time.Second, notReady, "d-1", "d-2")
				e.on("d-1", "d-2")
				e.becomes(c.limit, ready, "d-1", "d-2")
				for range 5 { // at five different moments of their hanging
					time.Sleep(3700 * time.Millisecond)
					start := time.Now()
					e.provision("f-1")
					e.becomes(2*time.Second, notReady, "f-1")
					e.on("f-1")
					e.becomes(2*time.Second-time.Since(start), ready, "f-1")
					e.release("f-1")
					e.within(5*time.Second, "f-1 is gone", func() bool { return !e.exists("f-1") })
					e.allocate("f-1")
				}
				// A hanging node delays its own slice only until it is known to hang.
				e.becomes(time.Minute, notReady, "a-2")
			})
		})
	}
}

// TestManyHangingGetsDelayNoOthers has more hanging gets than may run at the same time.
func TestManyHangingGetsDelayNoOthers(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		var hanging []string
		for n := range 4 * slowGets {
			hanging = append(hanging, fmt.Sprintf("s%d-1", n))
			e.d.with(func() { e.d.getHangs[hanging[n]] = true })
		}
		e.allocate(hanging...)
		e.provision(hanging...)
		e.allocate("f-1")
		for range 10 { // at ten different moments of their hanging
			time.Sleep(37 * time.Second)
			e.provision("f-1")
			e.becomes(2*time.Second, notReady, "f-1")
			e.release("f-1")
			e.within(5*time.Second, "f-1 is gone", func() bool { return !e.exists("f-1") })
			e.allocate("f-1")
			e.d.with(func() {
				if e.d.most > 1+slowGets+2 { // a sweep, and one for everything
					t.Errorf("%d gets at once", e.d.most)
				}
			})
		}
	})
}

// TestSlowGetIsNoFailure has a provider with slow gets. No attempt fails, no line is logged,
// and slivers have no error before a get has had its 60 s.
func TestSlowGetIsNoFailure(t *testing.T) {
	for _, tt := range []struct {
		think  time.Duration
		names  []string
		failed bool
		limit  time.Duration // of the provider's metadata
	}{
		{1600 * time.Millisecond, []string{"a-1"}, false, 0},
		{1600 * time.Millisecond, []string{"a-1", "a-2", "a-3", "b-1", "c-1"}, false, 0},
		{10 * time.Second, []string{"a-1"}, false, 0},
		{10 * time.Second, []string{"a-1", "a-2", "a-3", "b-1", "c-1"}, false, 0},
		{59 * time.Second, []string{"a-1"}, false, 0},
		{59 * time.Second, []string{"a-1", "a-2", "a-3", "a-4", "a-5", "a-6", "a-7", "b-1", "c-1"}, false, 0},
		{61 * time.Second, []string{"a-1"}, true, 0},
		{80 * time.Second, []string{"a-1"}, false, 90 * time.Second},
	} {
		t.Run(fmt.Sprintf("%v, %d slivers", tt.think, len(tt.names)), func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				var log strings.Builder
				e.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
				e.d.think = tt.think
				if tt.limit > 0 {
					e.providers = func(string) (Provider, error) { return unhurried{e.d, tt.limit}, nil }
				}
				e.start()
				e.allocate(tt.names...)
				e.provision(tt.names...)
				attempts := 0
				trouble := func() (all string) {
					for _, name := range tt.names {
						x, _ := e.task(name)
						attempts = max(attempts, x.Attempt)
						all += e.sliver(name).Error
					}
					return all
				}
				if tt.failed {
					time.Sleep(59 * time.Second)
					if all := trouble(); all != "" || attempts > 0 {
						e.t.Errorf("before the limit: error %q, %d attempts", all, attempts)
					}
					e.within(5*time.Second, "the attempt has failed", func() bool { return trouble() != "" && attempts == 1 })
				} else {
					e.within(10*time.Minute, "all are made", func() bool {
						if all := trouble(); all != "" || attempts > 0 {
							e.t.Fatalf("error %q, %d attempts", all, attempts)
						}
						return !slices.ContainsFunc(tt.names, func(n string) bool { return e.sliver(n).Status != notReady })
					})
				}
				if err := e.stop(); err != nil || !tt.failed && log.Len() > 0 {
					e.t.Errorf("%v, logged %s", err, log.String())
				}
			})
		})
	}
}

// unhurried is a provider whose metadata say how long its calls may take.
type unhurried struct {
	*double
	limit time.Duration
}

func (u unhurried) Timeout(string) time.Duration { return u.limit }

func TestBatchThatDiesIsTriedOneByOne(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.d.dies["a-3"] = true
		e.start()
		names := []string{"a-1", "a-2", "a-3", "a-4", "a-5"}
		e.allocate(names...)
		e.provision(names...)
		e.becomes(5*time.Second, notReady, "a-1", "a-2", "a-4", "a-5")
		e.becomes(5*time.Minute, failed, "a-3")
		e.d.with(func() {
			for i, names := range e.d.setCalls {
				if i > 0 && len(names) != 1 {
					t.Errorf("set %d holds %v", i, names)
				}
				if i > 0 && (names[0] == "a-1" || names[0] == "a-2") {
					t.Errorf("%v was done and set again", names)
				}
			}
		})
		if s := e.sliver("a-3"); s.Error != "provider double: set: exit status 1" {
			t.Errorf("error %q", s.Error)
		}
	})
}

// TestWaitingForAPlaceIsNoAttempt checks that a set without a free place does not count as a failed
// attempt, alone or in a batch.
func TestWaitingForAPlaceIsNoAttempt(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.d.crowded = 20 // more than a task has attempts
		e.start()
		e.allocate("a-1", "b-1", "b-2")
		e.provision("a-1", "b-1", "b-2")
		e.becomes(time.Hour, notReady, "a-1", "b-1", "b-2")
		for _, name := range []string{"a-1", "b-1", "b-2"} {
			if s := e.sliver(name); s.Error != "" {
				t.Errorf("%s: error %q", name, s.Error)
			}
		}
	})
}

// TestUpdateOfUsersThatBreaksTheMachine checks that the failure is reported at the provider's
// answer and not at the next sweep.
func TestUpdateOfUsersThatBreaksTheMachine(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.limits.Sweep = 24 * time.Hour
		e.start()
		e.makeReady("a-1", "a-2")
		seen := map[am.OperationalState]bool{}
		e.d.with(func() {
			e.d.watch = func(u provider.Update) {
				if u.Name == "a-1" {
					e.d.nodes["a-1"].fails = "it has crashed"
				}
			}
		})
		e.do(am.ActionUpdateUsers, am.GoalUsers, func(d *am.Desired) { d.Accounts = []am.Account{{Login: "bob"}} }, "a-1", "a-2")
		e.within(10*time.Second, "the update ends", func() bool {
			s := e.sliver("a-1")
			seen[s.Status.Operational] = true
			_, waits := e.task("a-1")
			return !waits
		})
		if s := e.sliver("a-1"); s.Status != failed || s.Error != "it has crashed" || s.Observed.State != provider.StateFailed || seen[am.Ready] {
			t.Errorf("%v %q, seen %v", s.Status, s.Error, seen)
		}
		e.becomes(10*time.Second, ready, "a-2")
	})
}

func TestBackoffDoublesUpToItsLimit(t *testing.T) {
	l := Limits{}.withDefaults()
	for _, c := range []struct {
		attempt int
		remove  bool
		want    time.Duration
	}{{1, false, l.RetryMin}, {2, false, 2 * l.RetryMin}, {5, false, 16 * l.RetryMin}, {1000, false, l.RetryMax}, {1000, true, l.RemoveMax}} {
		for range 100 {
			if d := l.backoff(c.attempt, c.remove); d < c.want*3/4 || d > c.want*5/4+1 {
				t.Fatalf("backoff(%d, %v) = %v, want about %v", c.attempt, c.remove, d, c.want)
			}
		}
	}
}

func TestMissingProviderIsWaitedFor(t *testing.T) {
	bubble(t, 2, func(e *env) {
		var missing atomic.Bool
		missing.Store(true)
		e.providers = func(string) (Provider, error) {
			if missing.Load() {
				return nil, errors.New("/etc/x.prov: no such file")
			}
			return e.d, nil
		}
		e.start()
		e.allocate("a-1", "a-2")
		e.provision("a-1", "a-2")
		time.Sleep(time.Hour)
		if s := e.sliver("a-1"); s.Status != pending || s.Error != `its provider "double" cannot be used now` {
			t.Errorf("while it is missing: %v %q", s.Status, s.Error)
		}
		missing.Store(false)
		e.becomes(2*time.Second, notReady, "a-1", "a-2")
		if s := e.sliver("a-1"); s.Error != "" {
			t.Errorf("error stays %q", s.Error)
		}
	})
}

// Loading a provider may take long; others do not wait for it.
func TestSlowLoadOfAProviderDelaysNoOthers(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.components = func(u urn.URN) (string, string, bool) { return u.Name, u.Name, true }
		e.providers = func(name string) (Provider, error) {
			if name == "pc1" {
				return e.d, nil
			}
			time.Sleep(10 * time.Second)
			return nil, errors.New("describe did not end")
		}
		e.start()
		e.allocate("a-1", "b-1")
		e.commit(onComponent("a-1", "pc2"))
		e.provision("a-1")
		time.Sleep(time.Second)
		e.provision("b-1")
		e.becomes(time.Second, notReady, "b-1")
	})
}

// An operator's freeze switches a failed sliver off and keeps its reason.
func TestFailedSliverKeepsItsReason(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.makeReady("a-1", "a-2")
		e.d.with(func() { e.d.nodes["a-1"].fails = "kernel panic"; e.d.nodes["a-2"].fails = "disk broken" })
		e.becomes(40*time.Second, failed, "a-1", "a-2")
		e.d.with(func() { e.d.nodes["a-1"].fails = ""; delete(e.d.nodes, "a-2") })
		e.do(am.EventShutdown, am.GoalStop, func(d *am.Desired) { d.On = false }, "a-1", "a-2")
		e.becomes(5*time.Second, failed, "a-1", "a-2")
		if s := e.sliver("a-1"); s.Error != "kernel panic" || e.d.show("a-1").Text("power") != "off" {
			t.Errorf("a-1: error %q", s.Error)
		}
		if s := e.sliver("a-2"); s.Error != "disk broken" {
			t.Errorf("a-2: error %q", s.Error)
		}
	})
}

// TestReasonOfAnAttemptIsGoneWithTheNext checks that a sliver no longer has the error of an
// earlier attempt during the next one.
func TestReasonOfAnAttemptIsGoneWithTheNext(t *testing.T) {
	away := &provider.Error{Kind: provider.Failed, Msg: "the testbed does not run", Temporary: true}
	for _, tt := range []struct {
		rule       string
		goes, back func(*double)
	}{
		{"no answer to get", func(d *double) { d.breaks = away }, func(d *double) { d.breaks = nil }},
		{"set refused", func(d *double) { d.refuses["a-1"] = func() *provider.Error { return away } }, func(d *double) { clear(d.refuses) }},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				e.d.slow = 5 * time.Minute
				tt.goes(e.d)
				e.start()
				e.allocate("a-1")
				e.provision("a-1")
				e.within(10*time.Second, "its error", func() bool { return e.sliver("a-1").Error == away.Msg })
				e.d.with(func() { tt.back(e.d) })
				e.within(time.Minute, "no error", func() bool { return e.sliver("a-1").Error == "" })
				if s := e.sliver("a-1"); s.Status != pending {
					t.Errorf("it is %v, not still being made", s.Status)
				}
				// A provider that is missing while the node changes is reported, too.
				e.d.with(func() { e.d.breaks = away })
				e.within(10*time.Second, "its error", func() bool { return e.sliver("a-1").Error == away.Msg })
				e.d.with(func() { e.d.breaks = nil })
				e.within(time.Minute, "no error", func() bool { return e.sliver("a-1").Error == "" })
				e.becomes(10*time.Minute, notReady, "a-1")
			})
		})
	}
}

func TestLostNodeIsNotRecreated(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.makeReady("a-1")
		e.d.with(func() { delete(e.d.nodes, "a-1"); e.d.setCalls = nil })
		e.do(am.ActionRestart, am.GoalRestart, func(d *am.Desired) { d.RestartSerial++ }, "a-1")
		e.becomes(time.Second, failed, "a-1")
		if len(e.d.setCalls) != 0 {
			t.Errorf("sets %v", e.d.setCalls)
		}
	})
}

func TestBriefAbsenceDoesNotEndTask(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.makeReady("a-1")
		n := e.d.nodes["a-1"]
		e.d.with(func() { delete(e.d.nodes, "a-1") })
		e.do(am.ActionRestart, am.GoalRestart, func(d *am.Desired) { d.RestartSerial++ }, "a-1")
		time.Sleep(e.r.limits.PollMin / 2)
		e.d.with(func() { e.d.nodes["a-1"] = n })
		e.becomes(time.Second, ready, "a-1")
	})
}

func TestSweepFindsNodesBesideAHangingOne(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprintf("a-%02d", i))
		}
		e.makeReady(names...)
		e.d.with(func() { e.d.getHangs["a-07"] = true; delete(e.d.nodes, "a-15") })
		e.becomes(10*time.Minute, failed, "a-15")
		if e.sliver("a-07").Status != ready {
			t.Error("a node of which nothing is known was given up")
		}
	})
}

// TestSweepKeepsTheLoginOfChangingNodes checks that a node keeps its login while its
// restarted provider reports it as changing.
func TestSweepKeepsTheLoginOfChangingNodes(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.makeReady("a-1")
		before := e.sliver("a-1").Observed
		e.d.with(func() {
			is := e.d.nodes["a-1"].is
			delete(is, "login")
			is["addresses"] = []string{"192.0.2.77"}
			e.d.nodes["a-1"].until = time.Now().Add(40 * time.Second)
		})
		time.Sleep(35 * time.Second) // a sweep
		if now := e.sliver("a-1").Observed; !reflect.DeepEqual(now, before) || len(now.Logins) == 0 {
			t.Errorf("while it is changing it is seen as %+v, and was %+v", now, before)
		}
		e.within(time.Minute, "then it is seen", func() bool { return len(e.sliver("a-1").Observed.Addresses) == 1 })
	})
}

// TestRequestSweep checks that RequestSweep updates a sliver before the next regular sweep.
func TestRequestSweep(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.makeReady("a-1")
		e.d.with(func() { delete(e.d.nodes, "a-1") })
		e.r.RequestSweep()
		e.r.RequestSweep()
		e.becomes(5*time.Second, failed, "a-1")
	})
}

func TestDeletesGoFirst(t *testing.T) {
	bubble(t, 1, func(e *env) {
		e.start()
		e.makeReady("a-1", "b-1")
		e.d.with(func() { e.d.answer, e.d.setCalls = time.Second, nil })
		e.allocate("c-1", "d-1", "f-1")
		e.provision("c-1", "d-1", "f-1")
		time.Sleep(1500 * time.Millisecond) // the first set is running
		e.release("a-1", "b-1")
		e.within(time.Minute, "all is done", func() bool { _, busy := e.task("f-1"); return !busy && !e.exists("a-1") && !e.exists("b-1") })
		var order []string
		for _, s := range e.d.setCalls {
			order = append(order, s...)
		}
		if i := slices.Index(order, "b-1"); i > 3 || slices.Index(order, "a-1") > 3 {
			t.Errorf("order %v", order)
		}
	})
}

func TestProviderThatCannotRemove(t *testing.T) {
	p := withoutEnsure{newDouble(1)}
	i := &item{sliver: am.Sliver{URN: sliverURN("a-1")}, component: "pc1", task: am.Task{Goal: am.GoalRemove}}
	is := provider.Resource{"name": "a-1", "power": "on", "users": []string{`{"login":"alice","keys":[]}`}}
	if o := judge(p, i, provider.Result{Resource: is}, time.Hour); o.verdict != needSet {
		t.Errorf("on and open: verdict %v", o.verdict)
	}
	if d := provider.Diff(is, wanted(p, i)); d.Text("power") != "off" || d.List("users") == nil {
		t.Errorf("asks for %v", d)
	}
	is = provider.Resource{"name": "a-1", "power": "off"}
	if o := judge(p, i, provider.Result{Resource: is}, time.Hour); o.verdict != gone {
		t.Errorf("off and closed: verdict %v", o.verdict)
	}
}

type withoutEnsure struct{ *double }

func (w withoutEnsure) Reports(a string) bool { return a != provider.AttrEnsure && w.double.Reports(a) }

func componentURN(name string) urn.URN {
	return urn.URN{Authority: "example.org", Type: urn.Node, Name: name}
}

// TestHangingNodeDoesNotDelayOthers checks that the nodes of a hanging set which the
// provider has accepted are reported meanwhile, whether they succeeded or failed.
func TestHangingNodeDoesNotDelayOthers(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.d.hangs["a-4"] = true
		e.d.slow = time.Second
		e.d.watch = func(u provider.Update) {
			if u.Name == "a-1" && e.d.nodes["a-1"] == nil {
				e.d.nodes["a-1"] = &node{is: provider.Resource{"name": "a-1"}, fails: "no disk"}
			}
		}
		e.start()
		e.allocate("a-1", "a-2", "a-3", "a-4")
		begun := time.Now()
		e.provision("a-1", "a-2", "a-3", "a-4")
		e.within(6*time.Second, "the others are reported", func() bool {
			return e.sliver("a-1").Status == failed && e.sliver("a-2").Status == notReady && e.sliver("a-3").Status == notReady
		})
		if got := e.sliver("a-1").Error; got != "no disk" || e.r.TaskFailures() != 1 {
			t.Errorf("error %q, %d failures", got, e.r.TaskFailures())
		}
		if got := e.sliver("a-4").Status; got != pending {
			t.Errorf("the one that hangs is %v", got)
		}
		e.on("a-2") // waits for the end of the hanging set
		e.d.with(func() { delete(e.d.hangs, "a-4") })
		e.becomes(time.Minute, ready, "a-2")
		e.becomes(time.Minute, notReady, "a-3", "a-4")
		e.within(time.Minute, "the failed node is removed", func() bool {
			_, left := e.task("a-1")
			return !left
		})
		t.Logf("all settled after %v", time.Since(begun))
		e.d.with(func() {
			if n := len(e.d.setCalls[0]); n != 4 {
				t.Errorf("the first set was of %d", n)
			}
		})
	})
}

// A message of the provider about a ready node is its error as long as the provider reports
// it. An error with another cause is not changed.
func TestMessageOfAReadyNodeIsItsError(t *testing.T) {
	says := func(e *env, text string) {
		e.d.with(func() { e.d.nodes["a-1"].is[provider.AttrMessage] = text })
	}
	bubble(t, 2, func(e *env) {
		e.start()
		e.makeReady("a-1")
		for _, text := range []string{"it ran out of memory", "its system does not answer", ""} {
			says(e, text)
			e.within(31*time.Second, "the message is the error", func() bool { return e.sliver("a-1").Error == text })
			if s := e.sliver("a-1"); s.Status != ready {
				t.Errorf("%q: it is %v", text, s.Status)
			}
		}
	})
}
