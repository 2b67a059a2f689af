package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/operate"
	"patchbay/am/site"
	"patchbay/am/testkit/wait"
)

// TestRestoredSiteGivesNothingAway restores a backup that does not know of a machine
// which runs: it is not given to anybody until an operator has had it removed.
func TestRestoredSiteGivesNothingAway(t *testing.T) {
	o := newOperated(t)
	ctx := t.Context()
	c := o.as(o.user, false)
	early, earlyCred := o.slice("early")
	o.ready(c, early, earlyCred)
	backup := filepath.Join(t.TempDir(), "backup.db")
	o.does("backup", backup)
	late, lateCred := o.slice("late")
	o.ready(c, late, lateCred)
	var on operate.Sliver
	if err := json.Unmarshal([]byte(o.does("slivers", "late", "--json")), &on); err != nil {
		t.Fatal(err)
	}
	has(t, o.does("nodes", "--unpromised"), "they have nothing that nobody was promised")
	o.stop()
	for _, args := range [][]string{{"nodes", "--unpromised"}, {"release", "--unpromised", "x"}} {
		has(t, o.refused(args...), "the site is not served")
	}
	o.does("restore", "--yes", backup)
	o.start()
	c = o.as(o.user, false)

	other, otherCred := o.slice("other")
	bound := fmt.Sprintf(`<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="n" component_id="%s"/></rspec>`, on.Component)
	allocate := func(request string) client.Reply {
		t.Helper()
		var r client.Reply
		wait.Until(t, "the restored site takes new work", func() bool {
			_, r, _ = c.Allocate(ctx, other, otherCred, request, client.Options{})
			if r.Code == am.Unavailable {
				has(t, r.Output, "restored from a backup")
			}
			return r.Code != am.Unavailable
		})
		return r
	}
	if r := allocate(bound); r.Code != am.TooBig || !strings.Contains(r.Output, "out of service") {
		t.Fatalf("Allocate of a machine that runs: %d %s", r.Code, r.Output)
	}
	if r := allocate(nodeN); r.Code != am.Success {
		t.Errorf("Allocate anywhere: %d %s", r.Code, r.Output)
	}
	if out := o.does("slivers", "other"); strings.Contains(out, " "+on.ComponentName+" ") {
		t.Errorf("it is on the machine that runs:\n%s", out)
	}
	o.does("release", "other")
	o.state(c, early, earlyCred, "geni_ready")

	has(t, o.does("nodes", on.ComponentName), "drained", "has 1 that nobody was promised: nodes --unpromised")
	has(t, o.does("nodes", "--unpromised"), "simulated", on.URN.Name, on.ComponentName, "no ", "nothing new goes to its node")
	var row site.UnpromisedRow
	if err := json.Unmarshal([]byte(o.does("nodes", "--unpromised", "--json")), &row); err != nil || row.Resource != on.URN.Name || !row.Holds || row.Released {
		t.Errorf("%+v, %v", row, err)
	}
	// It is so after another start, too, at which nobody has to wait.
	o.stop()
	o.start()
	c = o.as(o.user, false)
	wait.Until(t, "the machine is held again", func() bool { return strings.Contains(o.does("nodes", on.ComponentName), "drained") })
	if r := allocate(bound); r.Code != am.TooBig {
		t.Errorf("Allocate after another start: %d %s", r.Code, r.Output)
	}

	has(t, o.refused("release", "--unpromised", on.URN.Name, "nothing"), "no provider has told of a resource nothing", "nothing was removed")
	has(t, o.does("release", "--unpromised", "simulated/"+on.URN.Name, "--reason", "restored"), "Gone: "+on.URN.Name+" of provider simulated on "+on.ComponentName)
	has(t, o.does("journal", "--limit", "1", "--wide"), "release unpromised", on.URN.Name+" of provider simulated on "+on.ComponentName+": restored")
	has(t, o.does("nodes", "--unpromised"), "they have nothing that nobody was promised")
	if r := allocate(bound); r.Code != am.Success {
		t.Errorf("Allocate of what is free: %d %s", r.Code, r.Output)
	}
	o.state(c, early, earlyCred, "geni_ready")
}
