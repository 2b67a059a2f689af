package binder

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am/maintenance"
)

func planned(t testing.TB, text string) *maintenance.Plan {
	t.Helper()
	p, err := maintenance.Parse([]byte(text), "maintenance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func hour(n int) time.Time { return time.Date(2030, 1, 1, n, 0, 0, 0, time.UTC) }

// window is maintenance from eight to ten of these, or of the whole site.
func window(components string) string {
	if components != "" {
		components = "components: [" + components + "], "
	}
	return "  - {" + components + "from: 2030-01-01T08:00:00Z, until: 2030-01-01T10:00:00Z, text: new disks}\n"
}

func TestMaintenance(t *testing.T) {
	for _, tt := range []struct {
		rule, windows, request string
		held                   []string
		hour                   int
		want                   string // how the answer begins, or what it has
	}{
		{"an unbound node avoids it", window("pc1"), "", nil, 8, "a=pc2"},
		{"… not before", window("pc1"), "", nil, 7, "a=pc1"},
		{"… nor when it is over", window("pc1"), "", nil, 10, "a=pc1"},
		{"… nor after", window("pc1"), "", nil, 11, "a=pc1"},
		{"a bound node is refused in the operator's words", window("pc1"), "on=pc1", nil, 9,
			`UNAVAILABLE line 1: node "a": pc1 is under maintenance until 2030-01-01T10:00:00Z: new disks; take another component, or try again then`},
		{"a hardware type", window("pc1"), "hw=small", nil, 9, "a=pc2"},
		{"all of a hardware type", window("pc1..pc2"), "hw=small", nil, 9,
			"UNAVAILABLE line 1: node \"a\": every raw-pc on small is under maintenance until 2030-01-01T10:00:00Z: new disks; 1 raw-pc, 12 vms, 6 big-vms free"},
		{"the whole site", window(""), "", nil, 9, "UNAVAILABLE line 1: node \"a\": every raw-pc is under maintenance until 2030-01-01T10:00:00Z: new disks; nothing else is free, or try again then"},
		{"hosts that are shared", window("h1..h2"), "type=vm", nil, 9, "a=h3"},
		{"all hosts", window("h1..h3"), "type=vm group=g,type=vm group=g", nil, 9, "UNAVAILABLE"},
		{"what is held counts apart", window("pc1"), "", []string{"s pc2 raw-pc", "s pc3 raw-pc"}, 9, "no raw-pc is free: 2 of 2 are held; 1 more under maintenance; "},
		{"the one that lasts longer is told", window("pc1") + strings.ReplaceAll(strings.ReplaceAll(window(""), "T10", "T12"), "new disks", "move"), "on=pc1", nil, 9, "until 2030-01-01T12:00:00Z: move"},
		{"what is not there is no matter", window("other"), "", nil, 9, "a=pc1"},
	} {
		x := holding(site(t, testbed), tt.held...)
		x.SetPlan(planned(t, "planned:\n"+tt.windows), hour(0))
		x.Advance(hour(tt.hour))
		got, err := Bind(request(strings.Split(tt.request, ",")...), x, slice("mine"))
		said := result(got, err)
		if err != nil {
			said = err.(*UnsatisfiedError).Reasons[0].Code.String() + " " + err.Error()
		}
		if !strings.HasPrefix(said, tt.want) && !(err != nil && strings.Contains(said, tt.want)) {
			t.Errorf("%s: %s\nwant %s", tt.rule, said, tt.want)
		}
	}
}

// TestMaintenanceShows holds that what is free, and the number of its state,
// change at the moments of the plan and at no other.
func TestMaintenanceShows(t *testing.T) {
	x := NewIndex(site(t, testbed))
	before := x.Version()
	x.SetPlan(planned(t, "lockdown: {text: closed}\nplanned:\n"+window("pc1, h1")), hour(0))
	if x.Version() == before {
		t.Error("a new plan does not show")
	}
	free := func() string { return fmt.Sprint(x.Free(0), x.Free(1), x.Free(3)) }
	for _, step := range []struct {
		at      time.Time
		want    string
		changes bool
	}{
		{hour(8).Add(-time.Nanosecond), "1 1 4", false},
		{hour(8), "0 1 0", true},
		{hour(9), "0 1 0", false},
		{hour(10), "1 1 4", true},
		{hour(20), "1 1 4", false},
		{hour(9), "0 1 0", true}, // the clock was set back
	} {
		before := x.Version()
		x.Advance(step.at)
		if got := free(); got != step.want || (x.Version() != before) != step.changes {
			t.Errorf("at %v: free %s, want %s; changed %v", step.at, got, step.want, x.Version() != before)
		}
	}
	x.SetInventory(site(t, testbed))
	if got := free(); got != "0 1 0" {
		t.Errorf("after a new inventory: free %s", got)
	}
	x.SetPlan(nil, hour(9))
	if got := free(); got != "1 1 4" {
		t.Errorf("without a plan: free %s", got)
	}
}

// TestMaintenanceBesidesWhatIsStaged begins maintenance between a decision and
// its write: what is only staged is not shown by it.
func TestMaintenanceBesidesWhatIsStaged(t *testing.T) {
	v := site(t, testbed)
	x := NewIndex(v)
	x.SetPlan(planned(t, "planned:\n"+window("pc1")), hour(0))
	stage(x, sliver(v, "1", "s", "pc2", "raw-pc"))
	x.Advance(hour(8))
	if x.Free(1) != 1 {
		t.Error("what is staged shows")
	}
	if got := result(Bind(request(""), x, slice("mine"))); !strings.HasPrefix(got, "a=pc3") {
		t.Errorf("bound %s", got)
	}
	x.Rollback()
	if x.Free(0) != 0 || x.Free(1) != 1 {
		t.Errorf("after the rollback %d and %d are free", x.Free(0), x.Free(1))
	}
}

func TestAdvanceFromEverywhere(t *testing.T) {
	v := site(t, testbed)
	x := NewIndex(v)
	x.SetPlan(planned(t, "planned:\n"+window("pc1")), hour(0))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 200 {
				x.Advance(hour((n + i) % 12))
				x.Free(0)
				Bind(request(""), x, slice("mine"))
			}
		})
	}
	for n := range 100 {
		stage(x, sliver(v, fmt.Sprint(n%3), "s", "pc2", []string{"raw-pc", "raw-pc~"}[n%2]))
		x.Publish()
	}
	wg.Wait()
}

// BenchmarkAdvance begins and ends maintenance on a large site; "nothing" is
// what each look at it costs.
func BenchmarkAdvance(b *testing.B) {
	for _, tt := range []struct{ name, components string }{{"one component", "pc1"}, {"the whole site", ""}} {
		b.Run(tt.name+" of 100000", func(b *testing.B) {
			x := fill(rack(b, 100_000), 0.3)
			x.SetPlan(planned(b, "planned:\n"+window(tt.components)), hour(0))
			for b.Loop() {
				x.Advance(hour(9))
				x.Advance(hour(11))
			}
		})
	}
	b.Run("nothing", func(b *testing.B) {
		x := fill(rack(b, 100_000), 0.3)
		x.SetPlan(planned(b, "planned:\n"+window("pc1")), hour(0))
		for b.Loop() {
			x.Advance(hour(7))
		}
	})
}
