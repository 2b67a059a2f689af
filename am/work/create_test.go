package work

import (
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/inventory/provider"
)

// create writes what CreateSliver of version 2 does: one task to create the slivers and switch them
// on.
func (e *env) create(names ...string) {
	e.t.Helper()
	e.allocate(names...)
	e.do(am.EventProvision, am.GoalMake, func(d *am.Desired) { d.Present, d.On = true, true }, names...)
}

// sets counts the calls of set for a sliver.
func (e *env) sets(name string) (n int) {
	e.d.with(func() {
		for _, names := range e.d.setCalls {
			for _, x := range names {
				if x == name {
					n++
				}
			}
		}
	})
	return n
}

// TestMadeAndStartedOnce checks that a sliver of version 2 is pending until it is ready, after one
// call of set and without an action.
func TestMadeAndStartedOnce(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.d.slow = 3 * time.Second
		e.start()
		e.create("a-1", "a-2")
		for range 20 { // it never waits in notready for a start
			time.Sleep(100 * time.Millisecond)
			if s := e.sliver("a-1"); s.Status != pending {
				t.Fatalf("while it is made: %v", s.Status)
			}
		}
		e.becomes(10*time.Second, ready, "a-1", "a-2")
		for _, name := range []string{"a-1", "a-2"} {
			if n := e.sets(name); n != 1 {
				t.Errorf("set was called %d times for %s, want once", n, name)
			}
			if e.d.show(name).Text("power") != "on" {
				t.Errorf("%s is not on", name)
			}
			if s := e.sliver(name); len(s.Observed.Logins) != 1 || s.Generation != 1 {
				t.Errorf("%s: %+v", name, s)
			}
		}
		time.Sleep(2 * time.Minute) // nothing follows
		if n := e.sets("a-1"); n != 1 {
			t.Errorf("set was called %d times in the end", n)
		}
		e.do(am.ActionStop, am.GoalStop, func(d *am.Desired) { d.On = false }, "a-1")
		e.becomes(10*time.Second, notReady, "a-1")
		e.on("a-1")
		e.becomes(10*time.Second, ready, "a-1")
	})
}

// TestFrozenWhileBeingMade shuts a slice of version 2 down before its sliver is created. The sliver
// is created and stays off.
func TestFrozenWhileBeingMade(t *testing.T) {
	for name, after := range map[string]time.Duration{"before its provider was asked": 0, "while its provider works": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				e.d.slow = 5 * time.Second
				e.create("a-1")
				if after > 0 {
					e.start()
					time.Sleep(after)
				}
				e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
					err = desire(v, &cs, "a-1", am.EventShutdown, am.GoalMake, func(d *am.Desired) { d.On = false })
					return cs, err
				})
				if after == 0 {
					e.start()
				}
				e.becomes(30*time.Second, notReady, "a-1")
				if e.d.show("a-1").Text("power") != "off" {
					t.Error("it is on")
				}
			})
		})
	}
}

// TestStartWhileTheProviderWorksIsRemembered starts a sliver that is being created. It is on in the
// end, also after a restart of the runner.
func TestStartWhileTheProviderWorksIsRemembered(t *testing.T) {
	start := func(e *env) {
		e.do(am.ActionStart, am.GoalMake, func(d *am.Desired) { d.On = true }, "a-1")
	}
	for name, story := range map[string]func(e *env){
		"before its provider was asked": func(e *env) { start(e); e.start() },
		"while its provider works":      func(e *env) { e.start(); time.Sleep(2 * time.Second); start(e) },
		"before the store is opened again": func(e *env) {
			e.start()
			time.Sleep(2 * time.Second)
			start(e)
			e.stop()
			e.st.Close()
			e.open()
			e.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				e.d.slow = 5 * time.Second
				e.allocate("a-1")
				e.provision("a-1")
				story(e)
				e.becomes(30*time.Second, ready, "a-1")
				if e.d.show("a-1").Text("power") != "on" {
					t.Error("it is off")
				}
			})
		})
	}
}

// TestFailedNodeHasNoPendingStart checks that a sliver that cannot be created is failed
// and no longer has to be on.
func TestFailedNodeHasNoPendingStart(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.allocate("a-1")
		e.provision("a-1")
		e.do(am.ActionStart, am.GoalMake, func(d *am.Desired) { d.On = true }, "a-1")
		e.d.refuses["a-1"] = func() *provider.Error { return &provider.Error{Kind: provider.Unsupported, Msg: "no boot image"} }
		e.start()
		e.becomes(30*time.Second, failed, "a-1")
		if s := e.sliver("a-1"); s.Desired.On || s.Error != "no boot image" {
			t.Errorf("on %v, error %q", s.Desired.On, s.Error)
		}
	})
}
