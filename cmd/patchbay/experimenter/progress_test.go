package experimenter

import (
	"bytes"
	"strings"
	"testing"

	"patchbay/am/client"
	"patchbay/am/client/experiment"
)

// TestProgress proves that a terminal gets one line that is redrawn, with colours unless
// disabled, and other output one plain line for each phase and each stage of a setup.
func TestProgress(t *testing.T) {
	for name, tt := range map[string]struct {
		terminal, colours bool
		lines             int
		escapes, colour   bool
	}{
		"a file":                   {false, false, 4, false, false},
		"a terminal":               {true, true, 2, true, true},
		"a terminal with NO_COLOR": {true, false, 2, true, false},
	} {
		var out bytes.Buffer
		p := newProgress(&out)
		p.terminal, p.colours = tt.terminal, tt.colours
		list := []client.Sliver{{Operational: "geni_ready"}, {Operational: "geni_configuring"}}
		p.show(experiment.Allocating, nil)
		p.show(experiment.Starting, list)
		p.show(experiment.Starting, list)
		for _, plan := range []string{"stage 1 of 2, 1 of 2 nodes", "stage 1 of 2, 1 of 2 nodes", "stage 2 of 2, 0 of 1 nodes; waits for db, not started"} {
			list[1].Plan = plan
			p.show(experiment.Starting, list)
		}
		list[1].Plan = ""
		p.show(experiment.Starting, list)
		p.finish()
		text := out.String()
		if strings.Count(text, "\n") != tt.lines || strings.Contains(text, "\r") != tt.escapes || strings.Contains(text, "\x1b[3") != tt.colour {
			t.Errorf("%s: %q", name, text)
		}
		want := "start nodes: stage 2 of 2, 0 of 1 nodes; waits for db, not started\n"
		if tt.terminal {
			want = "  1 of 2  stage 2 of 2, 0 of 1 nodes\r"
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s: %q is missing: %q", name, want, text)
		}
	}
}
