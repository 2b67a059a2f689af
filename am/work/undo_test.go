package work

import (
	"fmt"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/inventory/provider"
)

// half has the double create nodes and then report them as failed.
func half(d *double, names ...string) {
	d.watch = func(u provider.Update) {
		for _, n := range names {
			if u.Name == n && u.Should.Text(provider.AttrEnsure) == provider.Present {
				d.nodes[n] = &node{is: provider.Resource{"name": n}, fails: "no boot image"}
			}
		}
	}
}

func (e *env) node(name string) bool {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	return e.d.nodes[name] != nil
}

func (e *env) freeze(is bool, names ...string) {
	e.t.Helper()
	e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		for _, n := range names {
			s, _, err := v.Sliver(sliverURN(n))
			if err != nil {
				return cs, err
			}
			s.Frozen = is // Shutdown changes nothing else of a failed sliver
			cs.PutSliver(s)
		}
		return cs, nil
	})
}

// TestIncompleteSliversAreRemoved checks that a sliver that cannot be created stays as failed
// with the reason, and that its incomplete node is removed.
func TestIncompleteSliversAreRemoved(t *testing.T) {
	for _, tt := range []struct {
		rule string
		play func(*env)
		// at the end: its record, its task, its node
		want string
	}{
		{"what was made is taken away, and the sliver tells why", func(e *env) {
			e.provision("a-1")
			e.becomes(time.Minute, failed, "a-1")
		}, `failed "no boot image", no task, no node`},
		{"made and started in one: the same", func(e *env) {
			e.do(am.EventProvision, am.GoalMake, func(d *am.Desired) { d.Present, d.On = true, true }, "a-1")
			e.becomes(time.Minute, failed, "a-1")
		}, `failed "no boot image", no task, no node`},
		{"taking it away is tried for ever, and changes no reason", func(e *env) {
			make := e.d.watch
			e.d.watch = func(u provider.Update) {
				make(u)
				if u.Should.Text(provider.AttrEnsure) == provider.Absent {
					e.d.refuses["a-1"] = refusing(provider.Forbidden, "it is on fire", false)
				}
			}
			e.provision("a-1")
			time.Sleep(20 * time.Hour)
			if x, _ := e.task("a-1"); x.Attempt < 100 || !e.node("a-1") {
				e.t.Errorf("after most of a day: %+v", x)
			}
			e.d.with(func() { half(e.d, "a-1"); clear(e.d.refuses) })
			e.becomes(7*time.Minute, failed, "a-1")
		}, `failed "no boot image", no task, no node`},
		{"Delete takes over", func(e *env) {
			e.d.with(func() {
				e.d.lies["a-1"] = true
				e.d.nodes["a-1"] = &node{is: provider.Resource{"name": "a-1", "ensure": "present"}, fails: "no boot image"}
			})
			e.provision("a-1")
			e.within(time.Minute, "it is being undone", func() bool { x, _ := e.task("a-1"); return x.Goal == am.GoalUndo })
			e.release("a-1")
			if x, _ := e.task("a-1"); x.Goal != am.GoalRemove {
				e.t.Errorf("task %+v", x)
			}
			e.d.with(func() { clear(e.d.lies) })
			e.within(10*time.Minute, "it is gone", func() bool { return !e.exists("a-1") })
		}, `no record, no task, no node`},
		{"so does the end of its lease", func(e *env) {
			e.provision("a-1")
			e.becomes(time.Minute, failed, "a-1")
			e.lease("a-1", time.Now().Add(time.Minute))
			e.within(2*time.Minute, "it is gone", func() bool { return !e.exists("a-1") })
		}, `no record, no task, no node`},
		{"a frozen slice keeps all, until it is thawed", func(e *env) {
			e.d.with(func() { // its provider answers when the slice is frozen
				e.provision("a-1")
				e.freeze(true, "a-1")
			})
			e.within(time.Minute, "it has failed", func() bool { return e.sliver("a-1").Status == failed })
			time.Sleep(time.Hour)
			if x, _ := e.task("a-1"); x.Goal != am.GoalUndo || !e.node("a-1") {
				e.t.Errorf("while it is frozen: task %+v, node %v", x, e.node("a-1"))
			}
			e.freeze(false, "a-1")
			e.becomes(time.Minute, failed, "a-1")
		}, `failed "no boot image", no task, no node`},
		{"frozen while it is undone: it stops", func(e *env) {
			e.d.with(func() {
				e.d.lies["a-1"] = true
				e.d.nodes["a-1"] = &node{is: provider.Resource{"name": "a-1", "ensure": "present"}, fails: "no boot image"}
			})
			e.provision("a-1")
			e.within(time.Minute, "it has been tried", func() bool { x, _ := e.task("a-1"); return x.Goal == am.GoalUndo && x.Attempt > 0 })
			e.freeze(true, "a-1")
			e.d.with(func() { clear(e.d.lies) })
			time.Sleep(24 * time.Hour)
		}, `failed "no boot image", task undo, a node`},
		{"one that fails after it was made keeps its node: there may be data on it", func(e *env) {
			e.d.watch = nil
			e.provision("a-1")
			e.becomes(time.Minute, notReady, "a-1")
			e.d.with(func() { e.d.nodes["a-1"].fails = "no boot image" })
			e.becomes(time.Minute, failed, "a-1")
			time.Sleep(time.Hour)
		}, `failed "no boot image", no task, a node`},
		{"one that cannot be started keeps it, too", func(e *env) {
			e.d.watch = nil
			e.provision("a-1")
			e.becomes(time.Minute, notReady, "a-1")
			e.d.with(func() { e.d.refuses["a-1"] = refusing(provider.Forbidden, "no boot image", false) })
			e.on("a-1")
			e.becomes(time.Minute, failed, "a-1")
			time.Sleep(time.Hour)
		}, `failed "no boot image", no task, a node`},
		{"services that must succeed and fail leave their node to look at", func(e *env) {
			e.d.watch = nil
			e.strict = true
			if err := e.stop(); err != nil {
				e.t.Fatal(err)
			}
			e.start()
			e.asks("a-1", steps[0])
			e.d.watch = func(provider.Update) {
				e.d.nodes["a-1"] = &node{is: provider.Resource{"name": "a-1", provider.AttrServices: []string{`{"state":"failed","message":"no boot image"}`}}}
			}
			e.provision("a-1")
			e.becomes(time.Minute, failed, "a-1")
			time.Sleep(time.Hour)
		}, `failed "install 1 of 1, http://example.org/a.tgz: no boot image", no task, a node`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				half(e.d, "a-1")
				e.start()
				e.allocate("a-1")
				tt.play(e)
				got := "no record"
				if s := e.sliver("a-1"); s.Status == failed {
					got = fmt.Sprintf("failed %q", s.Error)
				} else if !s.URN.IsZero() {
					got = fmt.Sprint(s.Status)
				}
				if x, ok := e.task("a-1"); ok {
					got += ", task " + string(x.Goal)
				} else {
					got += ", no task"
				}
				if e.node("a-1") {
					got += ", a node"
				} else {
					got += ", no node"
				}
				if got != tt.want {
					t.Errorf("%s\nwant %s", got, tt.want)
				}
			})
		})
	}
}
