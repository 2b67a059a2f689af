package binder

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am/service/maintenance"
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
		{"what is drained counts apart", "drained: [{components: [pc2], text: fan}]\n", "", []string{"s pc1 raw-pc", "s pc3 raw-pc"}, 9, "no raw-pc is free: 2 of 2 are held; 1 more out of service; 12 vms"},
		{"both", window("pc1") + "drained: [{components: [pc2], text: fan}]\n", "", []string{"s pc3 raw-pc"}, 9, "no raw-pc is free: 1 of 1 are held; 1 more under maintenance; 1 more out of service; "},
		{"some are free", window("pc1") + "drained: [{components: [pc2], text: fan}]\n", ",", nil, 9, "2 raw-pcs requested, 1 free; 1 more under maintenance; 1 more out of service; "},
		{"the one that lasts longer is told", window("pc1") + strings.ReplaceAll(strings.ReplaceAll(window(""), "T10", "T12"), "new disks", "move"), "on=pc1", nil, 9, "until 2030-01-01T12:00:00Z: move"},
		{"what is not there is no matter", window("other"), "", nil, 9, "a=pc1"},
	} {
		x := holding(site(t, testbed), tt.held...)
		plan := tt.windows
		if strings.HasPrefix(plan, " ") {
			plan = "planned:\n" + plan
		}
		x.plan, x.now = planned(t, plan), hour(0)
		x.now = hour(tt.hour)
		got, err := bind(request(strings.Split(tt.request, ",")...), x, slice("mine"))
		said := result(got, err)
		if err != nil {
			said = err.(*UnsatisfiedError).Reasons[0].Code.String() + " " + err.Error()
		}
		if !strings.HasPrefix(said, tt.want) && !(err != nil && strings.Contains(said, tt.want)) {
			t.Errorf("%s: %s\nwant %s", tt.rule, said, tt.want)
		}
	}
}

// TestMaintenanceShows proves that the free capacity changes at the times of the plan.
func TestMaintenanceShows(t *testing.T) {
	x := newHoldings(site(t, testbed))
	x.plan, x.now = planned(t, "lockdown: {text: closed}\nplanned:\n"+window("pc1, h1")), hour(0)
	free := func() string { return fmt.Sprint(x.free(0), x.free(1), x.free(3)) }
	for _, step := range []struct {
		at   time.Time
		want string
	}{
		{hour(8).Add(-time.Nanosecond), "1 1 4"},
		{hour(8), "0 1 0"},
		{hour(9), "0 1 0"},
		{hour(10), "1 1 4"},
		{hour(20), "1 1 4"},
		{hour(9), "0 1 0"}, // the clock was set back
	} {
		x.now = step.at
		if got := free(); got != step.want {
			t.Errorf("at %v: free %s, want %s", step.at, got, step.want)
		}
	}
	x.inv = site(t, testbed)
	if got := free(); got != "0 1 0" {
		t.Errorf("after a new inventory: free %s", got)
	}
	x.plan, x.now = nil, hour(9)
	if got := free(); got != "1 1 4" {
		t.Errorf("without a plan: free %s", got)
	}
}
