package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/conformance"
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
		t.Run(x.fault, func(t *testing.T) {
			dir := newSiteWith(t, []string{"user", "alice"}, []string{"slice", "first", "--owner", "alice"})
			removeSimulatedDelays(t, dir)
			edit(t, filepath.Join(dir, "providers", "simulated.yaml"), "\nchance: {}", "\nchance: {"+x.fault+": 1}")
			s := serve(t, dir)
			me, err := readCaller([]string{filepath.Join(dir, "users", "alice")}, "first")
			if err != nil {
				t.Fatal(err)
			}
			c := conformance.Config{
				URL: s.url + "/am/3.0", CertFile: me.certFile, KeyFile: me.keyFile, SliceURN: me.sliceURN, Wait: x.wait,
				Groups: []string{"version", "life"}, Only: []string{"version3", "life3"},
			}
			for _, y := range me.credentials {
				if y.kind == "slice" {
					c.Slice = []byte(y.text)
				} else {
					c.User = []byte(y.text)
				}
			}
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
