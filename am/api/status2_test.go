package api

import (
	"strings"
	"testing"

	"patchbay/am"
)

func TestOverall(t *testing.T) {
	for nodes, want := range map[string]string{
		"ready ready": "ready", "ready configuring": "configuring", "ready unknown": "unknown", "unknown configuring": "configuring",
		"configuring failed ready": "failed", "unknown failed": "failed", "failed shutdown ready": "shutdown", "": "unknown",
	} {
		if got := overall(strings.Fields(nodes)); got != want {
			t.Errorf("overall of %q is %s, want %s", nodes, got, want)
		}
	}
	if got := status2(am.Status{Allocation: am.Provisioned, Operational: "geni_strange"}, false); got != "unknown" {
		t.Errorf("a state that version 2 has no word for is %s", got)
	}
}
