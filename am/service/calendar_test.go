package service

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// window stores a sliver that holds a component from an hour until another one, for a slice.
func (x *freeTestbed) window(component string, from, until int, slice string) {
	err := x.cfg.Store.Commit(x.t.Context(), func(*store.View) (cs store.ChangeSet, err error) {
		c, _ := x.Inventory().ComponentNamed(component)
		cs.PutSliver(am.Sliver{
			URN: urn.MustParse(fmt.Sprintf("urn:publicid:IDN+example.org+sliver+%s-%d-%s", component, from, slice)), Slice: sliceNamed(slice),
			Creator: urn.MustParse("urn:publicid:IDN+example.org+user+hidden"), ClientID: "hidden", Component: c.URN, ComponentName: c.Name, Provider: c.Provider,
			Exclusive: c.Exclusive, Amount: c.SliverTypes[0].Needs, Status: am.Status{Allocation: am.Allocated}, Begins: oclock(from), Expires: oclock(until), Ends: oclock(until),
		})
		return cs, nil
	})
	if err != nil {
		x.t.Fatal(err)
	}
}

func sliceNamed(name string) urn.URN {
	return urn.MustParse("urn:publicid:IDN+example.org+slice+" + name)
}

// calendarRow returns the windows of a component from 0 until 12 o'clock: "kind from-until free" each, and * if a slice named mine
// holds it.
func (x *freeTestbed) calendarRow(typeName, component string) (windows, free string) {
	c, err := x.Calendar(oclock(0), oclock(12), []urn.URN{sliceNamed("mine")})
	if err != nil {
		x.t.Fatal(err)
	}
	hour := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Format("15")
	}
	for _, t := range c.Types {
		for _, k := range t.Components {
			if t.Name != typeName || k.Name != component {
				continue
			}
			var list []string
			for _, w := range k.Windows {
				text := fmt.Sprintf("%s %s-%s", w.Kind, hour(w.From), hour(w.Until))
				if t.Kind == "shared" {
					text += fmt.Sprint(" ", w.Free)
				}
				if !w.Mine.IsZero() {
					text += "*"
				}
				list = append(list, text)
			}
			var counts []string
			for _, f := range t.Free {
				counts = append(counts, fmt.Sprintf("%s:%d", hour(f.From), f.Free))
			}
			return strings.Join(list, ", "), strings.Join(counts, " ")
		}
	}
	x.t.Fatalf("no %s of type %s", component, typeName)
	return "", ""
}

func TestCalendar(t *testing.T) {
	for _, tt := range []struct {
		rule, row     string // type and component
		prepare       func(x *freeTestbed)
		windows, free string
	}{
		{"nothing is held", "raw-pc pc1", func(x *freeTestbed) {}, "", "00:2"},
		{"a lease that runs", "raw-pc pc1", func(x *freeTestbed) { x.hold("pc1 3") }, "held -03", "00:1 03:2"},
		{"a reservation ahead", "raw-pc pc1", func(x *freeTestbed) { x.window("pc1", 3, 5, "other") }, "ahead 03-05", "00:2 03:1 05:2"},
		{"mine is marked", "raw-pc pc1", func(x *freeTestbed) { x.window("pc1", 3, 5, "mine"); x.window("pc1", 5, 6, "other") }, "ahead 03-05*, ahead 05-06", "00:2 03:1 06:2"},
		{"a start that has come, and waits", "raw-pc pc1", func(x *freeTestbed) { x.window("pc1", 3, 5, "mine"); x.now = oclock(4) }, "held 03-05*", "00:2 03:1 05:2"},
		{"cleaning", "raw-pc pc1", func(x *freeTestbed) { x.hold("pc1 3 cleaning") }, "cleaning -01", "00:1 01:2"},
		{"frozen: no end", "raw-pc pc1", func(x *freeTestbed) { x.hold("pc1 3 frozen") }, "held -", "00:1"},
		{"a lease that is over is cleaned", "raw-pc pc1", func(x *freeTestbed) { x.hold("pc1 3"); x.now = oclock(4) }, "cleaning -05", "00:1 05:2"},
		{"maintenance hides what is held", "raw-pc pc1", func(x *freeTestbed) {
			x.hold("pc1 9")
			x.setPlan("planned: [{components: [pc1], from: 2030-01-01T02:00:00Z, until: 2030-01-01T04:00:00Z, text: disks}]")
		}, "held -02, maintenance 02-04, held 04-09", "00:1 09:2"},
		{"drained by the inventory", "raw-pc old", func(x *freeTestbed) {}, "drained -", "00:1"},
		{"drained by the plan", "raw-pc pc1", func(x *freeTestbed) { x.setPlan("drained: [{components: [pc1]}]") }, "drained -", "00:1"},
		{"beyond the range", "raw-pc pc1", func(x *freeTestbed) { x.window("pc1", 12, 13, "other") }, "", "00:2"},
		{"across the end of the range", "raw-pc pc1", func(x *freeTestbed) { x.window("pc1", 11, 13, "other") }, "ahead 11-13", "00:2 11:1"},
		{"slots of a shared host", "vm h1", func(x *freeTestbed) { x.hold("h1 3", "h1 5"); x.window("h1", 4, 6, "mine") }, "held -03 1, held 03-04 2, held 04-05 1*, ahead 05-06 2*", "00:1 03:2 04:1 05:2 06:3"},
		{"one slice alone on a shared host", "vm h1", func(x *freeTestbed) { x.hold("h1 3 alone") }, "held -03 0", "00:0 03:3"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			x := newFreeTestbed(t, freeSite)
			tt.prepare(x)
			typeName, component, _ := strings.Cut(tt.row, " ")
			if windows, free := x.calendarRow(typeName, component); windows != tt.windows || free != tt.free {
				t.Errorf("%s, free %s\nwant %s, free %s", windows, free, tt.windows, tt.free)
			}
		})
	}
}

func TestCalendarHidesOthers(t *testing.T) {
	x := newFreeTestbed(t, freeSite)
	x.hold("pc1 3")
	x.window("pc2", 3, 5, "hidden")
	x.window("h1", 3, 5, "mine")
	c, err := x.Calendar(oclock(0), oclock(12), []urn.URN{sliceNamed("mine")})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(c)
	if all := fmt.Sprintf("%s %+v", text, c); strings.Contains(all, "hidden") || strings.Contains(string(text), "mine") || !strings.Contains(string(text), `"name":"pc2","windows":[{"kind":"ahead"`) {
		t.Errorf("the calendar:\n%s", all)
	}
}

// TestCalendarFollowsChanges checks that what Calendar has read is used again until the store, the plan or the inventory changes.
func TestCalendarFollowsChanges(t *testing.T) {
	x := newFreeTestbed(t, freeSite)
	spans := func() *calendarSpans {
		s, err := x.calendarSpans()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	was := spans()
	for _, change := range []func(){
		func() { x.window("pc1", 3, 5, "mine") },
		func() { x.setPlan("drained: [{components: [pc1]}]") },
		func() { x.cfg.Inventory = inForce(parseInventory(t, freeSite)); x.Service.plan.Store(nil) },
	} {
		if spans() != was {
			t.Error("the store was read again without a change")
		}
		change()
		if now := spans(); now == was {
			t.Error("a change is not seen")
		} else {
			was = now
		}
	}
}

// BenchmarkCalendar reads the calendar of 10,000 components with two windows each, after a change.
func BenchmarkCalendar(b *testing.B) {
	x := newFreeTestbed(b, "provider: rack\nhardware_types: [small]\nsliver_types: [{name: raw-pc}]\ncomponents:\n  - {names: pc1..pc10000, exclusive: true, hardware_types: [small]}\n")
	err := x.cfg.Store.Commit(b.Context(), func(*store.View) (cs store.ChangeSet, err error) {
		for i, c := range x.Inventory().Components {
			for k := range 2 {
				s := am.Sliver{
					URN: urn.URN{Authority: "example.org", Type: urn.Sliver, Name: fmt.Sprint(i, "-", k)}, Slice: sliceNamed(fmt.Sprint("s", i%1000)),
					Component: c.URN, ComponentName: c.Name, Provider: c.Provider, Exclusive: true, Amount: am.Amount{Slots: 1},
					Status: am.Status{Allocation: am.Allocated}, Begins: oclock(0).Add(time.Duration(k*24+i%24) * time.Hour),
				}
				s.Ends = s.Begins.Add(8 * time.Hour)
				s.Expires = s.Ends
				cs.PutSliver(s)
			}
		}
		return cs, nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"read again", "cached"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if name != "cached" {
					x.calendar.last.Store(nil)
				}
				if _, err := x.Calendar(oclock(0), oclock(7*24), nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
