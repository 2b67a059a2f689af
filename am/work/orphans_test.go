package work

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	testwait "patchbay/am/testkit/wait"
	"patchbay/am/urn"
	"patchbay/inventory/provider"
)

// realName is the name of sliver n as the service makes names, in slice 00000001.
func realName(n int) string { return fmt.Sprintf("%08x-1111-4222-8333-444444444444", n) }

// addOrphans adds nodes to the provider.
func (e *env) addOrphans(names ...string) {
	e.d.with(func() {
		for _, n := range names {
			e.d.nodes[n] = &node{is: provider.Resource{"name": n, "ensure": "present", "component": "pc7"}}
		}
	})
}

// remember writes the journal entry of a decision about a sliver.
func (e *env) remember(event string, names ...string) {
	e.t.Helper()
	e.commit(func(*store.View) (cs store.ChangeSet, err error) {
		var all []urn.URN
		for _, n := range names {
			all = append(all, sliverURN(n))
		}
		cs.Log(am.JournalEntry{Event: event, Slice: sliceURN("a-1"), Slivers: all})
		return cs, nil
	})
}

// TestOrphans checks which orphans are found, and which are removed, in most of a
// day in which a provider has one node too many.
func TestOrphans(t *testing.T) {
	const ( // what is seen in the end
		nothing  = "not found, not there"
		kept     = "not found, there"
		reported = "found, there"
	)
	for _, tt := range []struct {
		rule   string
		remove bool
		name   string
		play   func(e *env, name string)
		want   string
	}{
		{"released here and there again: removed by policy", true, realName(1), func(e *env, name string) {
			e.remember(string(am.EventDelete), name)
			e.addOrphans(name)
		}, nothing},
		{"released by its lease: the same", true, realName(1), func(e *env, name string) {
			e.remember(string(am.EventExpire), name)
			e.addOrphans(name)
		}, nothing},
		{"without that policy it is reported", false, realName(1), func(e *env, name string) {
			e.remember(string(am.EventDelete), name)
			e.addOrphans(name)
		}, reported},
		{"of which the journal knows nothing is another site's, or of a newer store: reported", true, realName(1), func(e *env, name string) { e.addOrphans(name) }, reported},
		{"of which it knows no release: reported", true, realName(1), func(e *env, name string) {
			e.remember("Allocate", name)
			e.addOrphans(name)
		}, reported},
		{"whose name is none of ours: reported, whatever the journal says", true, "operators-own", func(e *env, name string) {
			e.remember(string(am.EventDelete), name)
			e.addOrphans(name)
		}, reported},
		{"there for less than the time it takes: reported", true, realName(1), func(e *env, name string) {
			e.remember(string(am.EventDelete), name)
			time.Sleep(20*time.Hour - 9*time.Minute)
			e.addOrphans(name)
		}, reported},
		{"known, but absent", true, realName(1), func(e *env, name string) {
			e.d.with(func() {
				e.d.nodes[name] = &node{is: provider.Resource{"name": name, "ensure": "absent"}, until: time.Now().Add(1000 * time.Hour)}
			})
		}, kept},
		{"a sliver's", true, realName(1), func(e *env, name string) {
			e.remember(string(am.EventDelete), name) // even then
			e.allocate(name)
			e.provision(name)
		}, kept},
		{"a sliver's that is being removed", true, realName(1), func(e *env, name string) {
			e.allocate(name)
			e.provision(name)
			e.becomes(time.Minute, notReady, name)
			e.d.with(func() { e.d.refuses[name] = refusing(provider.Failed, "busy", true) })
			e.release(name)
			e.remember(string(am.EventDelete), name)
		}, kept},
		{"gone without a removal: forgotten", false, realName(1), func(e *env, name string) {
			e.addOrphans(name)
			time.Sleep(time.Hour)
			e.d.with(func() { delete(e.d.nodes, name) })
		}, nothing},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				e.d.sliceOf = func(string) string { return "" }
				e.remove = tt.remove
				e.start()
				begun := time.Now()
				e.addOrphans() // the double has its nodes before it is asked
				tt.play(e, tt.name)
				time.Sleep(20*time.Hour + 2*time.Second - time.Since(begun))
				got := "not found"
				if n, listed := e.r.CountOrphans()["double"]; !listed || n != len(e.r.Orphans()) {
					t.Errorf("%d are counted, %v", n, listed)
				}
				if all := e.r.Orphans(); len(all) > 0 {
					got = "found"
					if u := all[0]; len(all) > 1 || u.Name != tt.name || u.Provider != "double" || u.Component != "pc7" {
						t.Errorf("found %+v", all)
					}
				}
				if e.node(tt.name) {
					got += ", there"
				} else {
					got += ", not there"
				}
				if got != tt.want {
					t.Errorf("%s; want %s", got, tt.want)
				}
			})
		})
	}
}

// TestReleasedNodeReappears checks that a node that its provider reported absent, and
// then present again, is an orphan that was released here.
func TestReleasedNodeReappears(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.d.sliceOf = func(string) string { return "" }
		e.remove = true
		e.start()
		e.makeReady(realName(1), realName(2))
		was := e.d.nodes[realName(1)]
		e.lease(realName(1), time.Now().Add(time.Minute))
		e.within(2*time.Minute, "it is gone", func() bool { return !e.exists(realName(1)) })
		was.is["ensure"] = "present"
		e.d.with(func() { e.d.nodes[realName(1)] = was })
		e.within(7*time.Minute, "it is found", func() bool { return len(e.r.Orphans()) == 1 })
		if u := e.r.Orphans()[0]; !u.Released || u.Name != realName(1) {
			t.Errorf("found %+v", u)
		}
		e.within(20*time.Minute, "it is removed", func() bool { return !e.node(realName(1)) })
		e.within(7*time.Minute, "it is forgotten", func() bool { return len(e.r.Orphans()) == 0 })
		if !e.node(realName(2)) || e.sliver(realName(2)).Status != ready {
			t.Error("a sliver was touched")
		}
	})
}

func TestRemovalsPerHourAreLimited(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.d.sliceOf = func(string) string { return "" }
		e.remove, e.limits.Removals = true, 5
		var names []string
		for i := range 12 {
			names = append(names, realName(i))
		}
		e.remember(string(am.EventDelete), names...)
		e.addOrphans(names...)
		e.start()
		left := func() (n int) { e.d.with(func() { n = len(e.d.nodes) }); return n }
		for _, want := range []int{7, 2, 0} {
			time.Sleep(time.Hour)
			if n := left(); n != want {
				t.Fatalf("%d are left, want %d", n, want)
			}
		}
	})
}

// TestProvidersThatCannotList checks that they are skipped with one line in the log.
func TestProvidersThatCannotList(t *testing.T) {
	for _, tt := range []struct {
		rule string
		play func(*double)
	}{
		{"an error", func(d *double) { d.noList = &provider.Error{Kind: provider.Unsupported, Msg: "ask by name"} }},
		{"an answer that is too large", func(d *double) { d.noList = fmt.Errorf("wrote more than 16777216 bytes") }},
		{"no answer in time", func(d *double) { d.answer = time.Hour }},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				var log testwait.Buffer
				e.log = slog.New(slog.NewTextHandler(&log, nil))
				e.addOrphans("x")
				tt.play(e.d)
				e.start()
				time.Sleep(20 * time.Hour)
				if n := strings.Count(log.String(), "does not list its resources"); n != 1 || len(e.r.Orphans()) != 0 {
					t.Errorf("%d lines, %v:\n%s", n, e.r.Orphans(), log.String())
				}
				e.d.with(func() { e.d.noList, e.d.answer = nil, 0 })
				e.within(10*time.Minute, "it is found", func() bool { return len(e.r.Orphans()) == 1 })
			})
		})
	}
}

func TestIsUUID(t *testing.T) {
	for name, want := range map[string]bool{
		realName(1): true, "": false, "pc1": false, strings.ToUpper(realName(0xabcdef01)): false,
		"00000001-1111-1222-8333-444444444444": false, realName(1) + "0": false, strings.ReplaceAll(realName(1), "-", "_"): false,
	} {
		if isUUID(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
