package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/operate"
	"patchbay/am/testkit/wait"
)

// TestDrainWhileServed drains nodes of a served site: requests pass them by, or
// are refused as if the nodes were held; who is there is listed and left alone;
// all of it over a restart, until it is taken back.
func TestDrainWhileServed(t *testing.T) {
	o := newOperated(t)
	ctx := t.Context()
	c := o.as(o.user, false)
	there, thereCred := o.slice("there")
	o.ready(c, there, thereCred)
	var on operate.Sliver
	if err := json.Unmarshal([]byte(o.does("slivers", "--json")), &on); err != nil {
		t.Fatal(err)
	}
	out := o.does("drain", on.ComponentName, "fan broken")
	has(t, out, "nothing new goes there: "+on.ComponentName, "What is there is left alone", on.ComponentName+"   there", "flooby")
	if strings.Contains(out, "not served") {
		t.Errorf("the site is served: %s", out)
	}
	o.state(c, there, thereCred, "geni_ready")

	other, otherCred := o.slice("other")
	bound := fmt.Sprintf(`<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="n" component_id="%s"/></rspec>`, on.Component)
	if _, r, _ := c.Allocate(ctx, other, otherCred, bound, client.Options{}); r.Code != am.TooBig || !strings.Contains(r.Output, "out of service") {
		t.Errorf("Allocate on what is drained: %d %s", r.Code, r.Output)
	}
	if _, r, _ := c.Renew(ctx, []string{there}, thereCred, time.Now().Add(2*time.Hour), client.Options{}); r.Code != am.Success {
		t.Errorf("Renew on what is drained: %d %s", r.Code, r.Output)
	}

	// When it is given back it stays empty, also after a restart.
	has(t, o.does("release", "there/n", "--reason", "the fan"), "Released: 1 sliver", "to be removed by providers; to see what is left: ")
	wait.Until(t, "it is removed", func() bool { return strings.Contains(o.does("slivers"), "There is no such sliver.") })
	o.stop()
	o.start()
	c = o.as(o.user, false)
	if _, r, _ := c.Allocate(ctx, other, otherCred, bound, client.Options{}); r.Code != am.TooBig {
		t.Errorf("Allocate on what is drained, after a restart: %d %s", r.Code, r.Output)
	}
	has(t, o.does("nodes", on.ComponentName), "drained", "fan broken")
	if _, r, _ := c.Allocate(ctx, other, otherCred, nodeN, client.Options{}); r.Code != am.Success {
		t.Errorf("Allocate anywhere: %d %s", r.Code, r.Output)
	}
	if out := o.does("slivers"); strings.Contains(out, " "+on.ComponentName+" ") {
		t.Errorf("it is on what is drained:\n%s", out)
	}
	has(t, o.does("renew", "other/n", "--for", "5h"), "in 5h", "leases.allocated_max")
	has(t, o.does("undrain", on.ComponentName), "No longer drained: "+on.ComponentName)
	third, thirdCred := o.slice("third")
	if _, r, _ := c.Allocate(ctx, third, thirdCred, bound, client.Options{}); r.Code != am.Success {
		t.Errorf("Allocate on what is no longer drained: %d %s", r.Code, r.Output)
	}
	has(t, o.refused("release", "thrid"), "there is no slice thrid here; did you mean third?")
	has(t, o.refused("slivers", "thrid"), "did you mean third?")
	has(t, o.does("journal", "--event", "drain"), "operator ", on.ComponentName+": fan broken")
	has(t, o.does("journal", "--event", "undrain"), "operator ", on.ComponentName)
	has(t, o.does("journal", "--user", "flooby", "--limit", "1"), "third", "Allocate")
}
