package conformance_test

import (
	"strings"
	"testing"
	"time"

	"patchbay/am/client/conformance"
	"patchbay/am/testkit/require"
)

// TestProbeOfFaults runs the probe on aggregates whose provider has a fault. It must call exactly
// one check broken, and say why.
func TestProbeOfFaults(t *testing.T) {
	for _, x := range []struct {
		fault, broken, says string
		wait                time.Duration
	}{
		{"slow", "", "", time.Minute},
		{"fail", "life3.configured", "is geni_failed", time.Minute},
		{"refuse", "life3.configured", "is geni_failed", time.Minute},
		{"die", "", "", time.Minute},
		{"lose", "", "", time.Minute},
		{"hang", "life3.configured", "is geni_pending_allocation", 3 * time.Second},
	} {
		if !require.Long() && (x.fault == "slow" || x.fault == "die") { // they take half a minute
			continue
		}
		t.Run(x.fault, func(t *testing.T) {
			t.Parallel() // it mostly waits
			c := newProbeLab(t, x.fault+": 1").config(t, "first")
			c.Wait, c.Groups, c.Only = x.wait, []string{"version", "life"}, []string{"version3", "life3"}
			r, err := conformance.Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			found := ""
			for _, y := range r.Results {
				if y.Verdict == conformance.Broken {
					found += y.Name + ": " + y.Text
				}
			}
			if x.broken == "" && found != "" || x.broken != "" && (!strings.HasPrefix(found, x.broken+": ") || !strings.Contains(found, x.says)) {
				t.Errorf("broken: %q, want %s", found, x.broken)
			}
		})
	}
}
