package main

import (
	"bytes"
	"strings"
	"testing"

	"patchbay/am/client"
	"patchbay/am/experiment"
)

// TestProgress proves that a terminal gets one line that is redrawn, with colours unless
// disabled, and other output one plain line for each phase.
func TestProgress(t *testing.T) {
	for name, tt := range map[string]struct {
		terminal, colours bool
		lines             int
		escapes, colour   bool
	}{
		"a file":                   {false, false, 2, false, false},
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
		p.finish()
		text := out.String()
		if strings.Count(text, "\n") != tt.lines || strings.Contains(text, "\r") != tt.escapes || strings.Contains(text, "\x1b[3") != tt.colour {
			t.Errorf("%s: %q", name, text)
		}
		if tt.terminal && !strings.Contains(text, "1 of 2") {
			t.Errorf("%s: how many nodes are ready is not shown: %q", name, text)
		}
	}
}
