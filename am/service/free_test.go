package service

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/service/maintenance"
	"patchbay/am/store"
	"patchbay/am/urn"
)

const freeSite = `
provider: rack
cleaning_time: 2m
hardware_types: [small, large]
sliver_types: [{name: raw-pc}, {name: vm, needs: {slots: 1, memory: 1G}}]
components:
  - {names: pc1..pc2, exclusive: true, sliver_types: [raw-pc, vm], hardware_types: [small]}
  - {name: big1, exclusive: true, sliver_types: [raw-pc], hardware_types: [large]}
  - {name: old, exclusive: true, sliver_types: [raw-pc], hardware_types: [large], drained: true}
  - {name: h1, exclusive: false, sliver_types: [vm], hardware_types: [large], capacity: {slots: 3, memory: 8G}}
`

// freeTestbed is a Service with a clock, which begins at midnight.
type freeTestbed struct {
	*Service
	t   testing.TB
	now time.Time
}

func newFreeTestbed(t testing.TB, text string) *freeTestbed {
	x := &freeTestbed{t: t, now: oclock(0)}
	st, err := store.Open(filepath.Join(t.TempDir(), "store"), store.Options{Now: func() time.Time { return x.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	x.Service = New(Config{Store: st, Inventory: inForce(parseInventory(t, text))})
	return x
}

func oclock(hour int) time.Time { return time.Date(2030, 1, 1, hour, 0, 0, 0, time.UTC) }

// hold stores slivers, such as "pc1 3": on pc1 until three o'clock. A third word is cleaning, frozen or alone, or
// from, before the hour of a start.
func (x *freeTestbed) hold(words ...string) {
	err := x.cfg.Store.Commit(x.t.Context(), func(*store.View) (cs store.ChangeSet, err error) {
		on := map[string]int{} // the number of slivers of a component
		for _, w := range words {
			var name, state string
			var hour, from int
			fmt.Sscan(w, &name, &hour, &state, &from)
			c, _ := x.Inventory().ComponentNamed(name)
			s := am.Sliver{
				URN: urn.MustParse(fmt.Sprintf("urn:publicid:IDN+example.org+sliver+%s-%d", name, on[name])), Slice: urn.MustParse("urn:publicid:IDN+example.org+slice+hidden"),
				Component: c.URN, ComponentName: c.Name, Provider: c.Provider, Exclusive: c.Exclusive || state == "alone", Amount: c.SliverTypes[0].Needs,
				Status: am.Status{Allocation: am.Provisioned, Operational: am.Ready}, Frozen: state == "frozen", Expires: oclock(hour),
			}
			if state == "from" {
				s.Begins, s.Ends = oclock(from), s.Expires
			}
			if state == "cleaning" {
				s.Status = am.Status{Allocation: am.Unallocated}
			}
			on[name]++
			cs.PutSliver(s)
		}
		return cs, nil
	})
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *freeTestbed) setPlan(text string) {
	p, err := maintenance.Parse([]byte(text), "m.yaml")
	if err == nil {
		err = x.SetPlan(x.t.Context(), p)
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *freeTestbed) free() Free {
	f, err := x.Free()
	if err != nil {
		x.t.Fatal(err)
	}
	return f
}

func TestFree(t *testing.T) {
	window := func(components string, from, until int) string {
		return fmt.Sprintf("planned:\n- {components: [%s], from: 2030-01-01T%02d:00:00Z, until: 2030-01-01T%02d:00:00Z, text: disks}\n", components, from, until)
	}
	for _, tt := range []struct {
		rule string
		held []string
		plan string
		// want is a row: free, in service and total, number in cleaning, next free time, and the time of the next change. 00:00 is none.
		want string
	}{
		{"all is free", nil, "", "raw-pc/small exclusive 2/2/2 0 00:00 00:00"},
		{"a component counts for each of its sliver types", []string{"pc1 3"}, "", "vm/small exclusive 1/2/2 0 00:00 00:00"},
		{"the inventory drains", nil, "", "raw-pc/large exclusive 1/1/2 0 00:00 00:00"},
		{"the plan drains", nil, "drained: [{components: [pc1], text: hidden}]", "raw-pc/small exclusive 1/1/2 0 00:00 00:00"},
		{"the first end of a lease, and the time of cleaning", []string{"pc1 5", "pc2 3"}, "", "raw-pc/small exclusive 0/2/2 0 03:02 03:02"},
		{"a frozen lease has no end", []string{"pc1 5", "pc2 3 frozen"}, "", "raw-pc/small exclusive 0/2/2 0 05:02 05:02"},
		{"cleaning has no known end", []string{"pc1 5 cleaning", "pc2 3 cleaning"}, "", "raw-pc/small exclusive 0/2/2 2 00:00 00:00"},
		{"a lease that ends now is soon free", []string{"pc1 0", "pc2 3"}, "", "raw-pc/small exclusive 0/2/2 0 00:02 00:02"},
		{"a drained component is never free", []string{"pc1 3", "pc2 5"}, "drained: [{components: [pc1]}]", "raw-pc/small exclusive 0/1/2 0 05:02 05:02"},
		{"nothing ends", []string{"pc1 3"}, "drained: [{components: [pc1..pc2]}]", "raw-pc/small exclusive 0/0/2 0 00:00 00:00"},
		{"maintenance", nil, window("pc1", 0, 4), "raw-pc/small exclusive 1/1/2 0 00:00 04:00"},
		{"a window that begins later", nil, window("pc1", 1, 4), "raw-pc/small exclusive 2/2/2 0 00:00 01:00"},
		{"the end of maintenance", []string{"pc1 5"}, window("pc2", 0, 4), "raw-pc/small exclusive 0/1/2 0 04:00 04:00"},
		{"a lease that ends during maintenance", []string{"pc1 5", "pc2 9"}, window("pc1", 5, 6), "raw-pc/small exclusive 0/2/2 0 06:00 05:00"},
		{"windows are listed until they end, earliest first", nil,
			"planned: [{from: 2030-01-03T00:00:00Z, until: 2030-01-03T02:00:00Z, text: move}, {from: 2029-01-03T00:00:00Z, until: 2030-01-01T00:00:00Z, text: over}, " +
				"{components: [pc1..pc2, h1], from: 2030-01-02T00:00:00Z, until: 2030-01-02T04:00:00Z, text: disks}]",
			"vm/large shared 3/3/3 0 00:00 00:00\n2 00:00 04:00 disks [pc1..pc2 h1]\n3 00:00 02:00 move []"},
		{"shared hosts count what fits", []string{"h1 3"}, "", "vm/large shared 2/3/3 0 00:00 00:00"},
		{"a full host", []string{"h1 7", "h1 6", "h1 9"}, "", "vm/large shared 0/3/3 0 06:02 06:02"},
		{"a full host is cleaned", []string{"h1 7", "h1 6 cleaning", "h1 9"}, "", "vm/large shared 0/3/3 1 07:02 07:02"},
		{"one slice has the host alone", []string{"h1 4 alone", "h1 2"}, "", "vm/large shared 0/3/3 0 04:02 04:02"},
		{"a reservation that begins soon", []string{"pc1 3", "pc2 4 from 1"}, "", "raw-pc/small exclusive 1/2/2 0 00:00 01:00"},
		{"it is in the way of the hour before it", []string{"pc1 3", "pc1 6 from 4", "pc2 8"}, "", "raw-pc/small exclusive 0/2/2 0 06:02 04:00"},
		{"but not of an earlier one", []string{"pc1 3", "pc1 6 from 5", "pc2 8"}, "", "raw-pc/small exclusive 0/2/2 0 03:02 03:02"},
		{"it ends first", []string{"pc1 9", "pc2 5", "pc2 7 from 5"}, "", "raw-pc/small exclusive 0/2/2 0 07:02 05:00"},
		{"on a host", []string{"h1 3", "h1 9", "h1 8", "h1 5 from 4"}, "", "vm/large shared 0/3/3 0 05:02 04:00"},
		{"a lockdown", []string{"pc1 3", "pc2 3"}, "lockdown: {text: power}", "raw-pc/small exclusive 0/2/2 0 00:00 00:00"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			x := newFreeTestbed(t, freeSite)
			if tt.plan != "" {
				x.setPlan(tt.plan)
			}
			x.hold(tt.held...)
			f, got := x.free(), "\n"
			for _, r := range f.Types {
				got += fmt.Sprintf("%s/%s %s %d/%d/%d %d %s %s\n", r.Name, strings.Join(r.Hardware, ","), r.Kind, r.Free, r.InService, r.Total, r.Cleaning,
					r.NextFree.Format("15:04"), f.Changes.Format("15:04"))
			}
			for _, w := range f.Maintenance {
				got += fmt.Sprintln(w.From.Day(), w.From.Format("15:04"), w.Until.Format("15:04"), w.Text, w.Components)
			}
			text, err := json.Marshal(f)
			if !strings.Contains(got, "\n"+tt.want+"\n") || strings.Contains(string(text), "hidden") || err != nil {
				t.Errorf("got%swant %s; %v %s", got, tt.want, err, text)
			}
		})
	}
}

// TestFreeFollowsChanges checks when an answer is made anew, and when it counts as another one.
func TestFreeFollowsChanges(t *testing.T) {
	x := newFreeTestbed(t, freeSite)
	x.hold("h1 9")
	was, number := x.free(), x.Service.free.begun.Load()
	for _, tt := range []struct {
		rule      string
		change    func()
		anew, new bool
	}{
		{"nothing changes", func() { x.now = x.now.Add(time.Minute) }, false, false},
		{"the store changes, the answer does not", func() { x.hold("h1 8") }, true, false},
		{"a lease", func() { x.hold("pc1 1", "pc2 1") }, true, true},
		{"its end and the cleaning pass", func() { x.now = oclock(2) }, true, true},
		{"the clock is set back", func() { x.now = oclock(0) }, true, true},
		{"a plan", func() { x.setPlan("planned: [{from: 2030-01-01T05:00:00Z, until: 2030-01-01T06:00:00Z, text: move}]") }, true, true},
		{"a window begins", func() { x.now = oclock(5) }, true, true},
		{"a window ends", func() { x.now = oclock(6) }, true, true},
		{"an inventory", func() {
			v := parseInventory(t, strings.ReplaceAll(freeSite, "slots: 3", "slots: 4"))
			x.cfg.Inventory.Store(v)
		}, true, true},
	} {
		tt.change()
		f := x.free()
		again := x.Service.free.begun.Load()
		if (again > number) != tt.anew || (f.Version != was.Version) != tt.new || f.Version == was.Version && !f.At.Equal(was.At) {
			t.Errorf("%s: made anew %v, version %d then %d", tt.rule, again > number, was.Version, f.Version)
		}
		was, number = f, again
	}
}

// TestFreeIsMadeOnce has callers wait for a result: they share the one that is made next.
func TestFreeIsMadeOnce(t *testing.T) {
	x := newFreeTestbed(t, freeSite)
	x.Service.free.making.Lock()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { x.Free() })
	}
	x.Service.free.making.Unlock()
	all.Wait()
	if n := x.Service.free.begun.Load(); n != 1 {
		t.Errorf("%d results for 20 callers", n)
	}
}

// BenchmarkFree makes the answer for 10,000 components anew, and reads the cached one.
func BenchmarkFree(b *testing.B) {
	x := newFreeTestbed(b, strings.NewReplacer("pc1..pc2", "pc1..pc9000", "name: h1", "names: h1..h1000", "slots: 3, memory: 8G", "slots: 10, memory: 64G").Replace(freeSite))
	for _, part := range []int{0, 5, 10} {
		var words []string
		for i, c := range x.Inventory().Components {
			for k := 0; k < int(c.Capacity.Slots) && i%10 < part; k++ {
				words = append(words, fmt.Sprint(c.Name, " ", 1+i%7+k))
			}
		}
		x.hold(words...)
		x.free()
		b.Run(fmt.Sprintf("%d%% held", part*10), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x.makeFree(x.Service.free.last.Load())
			}
		})
	}
	b.Run("cached", func(b *testing.B) {
		for b.Loop() {
			x.free()
		}
	})
}
