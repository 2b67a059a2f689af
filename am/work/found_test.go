package work

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/inventory/provider"
)

// foundOn returns the capabilities in the component's record, and the record's revision.
func (e *env) foundOn(component string) (capabilities []string, rev store.Rev) {
	e.t.Helper()
	err := e.st.Read(func(v *store.View) error {
		f, at, err := v.Component(componentURN(component))
		capabilities, rev = f.Capabilities, at
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		e.t.Fatal(err)
	}
	return capabilities, rev
}

func TestCapabilitiesOfExclusiveComponentAreRecorded(t *testing.T) {
	bubble(t, 2, func(e *env) {
		var reported atomic.Int32
		e.found = func() { reported.Add(1) }
		e.start()
		e.allocate("a-1", "b-1")
		e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
			alone, _, err := v.Sliver(sliverURN("a-1"))
			alone.Component, alone.ComponentName, alone.Provider, alone.Exclusive = componentURN("pc2"), "pc2", "double", true
			cs.PutSliver(alone)
			return cs, err
		})
		e.provision("a-1", "b-1")
		e.becomes(time.Minute, notReady, "a-1", "b-1")
		report := func(name string, items ...string) {
			e.d.with(func() { e.d.nodes[name].is[provider.AttrCapabilities] = items })
		}
		check := func(when string, want []string, calls int32) {
			t.Helper()
			if got, _ := e.foundOn("pc2"); !slices.Equal(got, want) || reported.Load() != calls {
				t.Errorf("%s: %q, reported %d times; want %q, %d times", when, got, reported.Load(), want, calls)
			}
			if got, _ := e.foundOn("pc1"); got != nil {
				t.Errorf("%s: the shared component has %q", when, got)
			}
		}
		observes := func(name string, want ...string) {
			t.Helper()
			e.within(31*time.Second, name+" has new capabilities", func() bool { return slices.Equal(e.sliver(name).Observed.Capabilities, want) })
		}
		report("a-1", "cpu.count=8", "bad")
		report("b-1", "cpu.count=8")
		e.on("a-1", "b-1")
		e.becomes(time.Minute, ready, "a-1", "b-1")
		observes("a-1", "cpu.count=8")
		observes("b-1", "cpu.count=8")
		check("with the task that starts the node", []string{"cpu.count=8"}, 1)
		report("a-1", "memory.size=64G", "cpu.count=8")
		observes("a-1", "cpu.count=8", "memory.size=64G")
		check("of a ready node", []string{"cpu.count=8", "memory.size=64G"}, 2)
		_, before := e.foundOn("pc2")
		report("a-1")
		observes("a-1")
		report("a-1", "memory.size=64G", "cpu.count=8")
		observes("a-1", "cpu.count=8", "memory.size=64G")
		check("reported again", []string{"cpu.count=8", "memory.size=64G"}, 2)
		if _, after := e.foundOn("pc2"); after != before {
			t.Errorf("the record was written again, with revision %d after %d", after, before)
		}
		if s := e.sliver("a-1"); s.Status != ready || s.Error != "" {
			t.Errorf("the sliver: %v %q", s.Status, s.Error)
		}
		e.release("a-1")
		e.within(time.Minute, "the node is gone", func() bool { return !e.exists("a-1") })
		check("after the node", []string{"cpu.count=8", "memory.size=64G"}, 2)
		if err := e.st.Read(func(v *store.View) error {
			return v.Components(func(f am.FoundComponent) bool {
				if f.Name != "pc2" || f.Provider != "double" {
					t.Errorf("the record is %+v", f)
				}
				return true
			})
		}); err != nil {
			t.Error(err)
		}
	})
}
