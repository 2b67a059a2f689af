package api

import (
	"strings"
	"testing"

	"patchbay/am"
)

// TestStatusWords names, for each status that the table of transitions knows,
// the word of version 2.
func TestStatusWords(t *testing.T) {
	words := map[am.Status]string{
		{Allocation: am.Allocated, Operational: am.PendingAllocation}:   "configuring",
		{Allocation: am.Provisioned, Operational: am.PendingAllocation}: "configuring",
		{Allocation: am.Provisioned, Operational: am.NotReady}:          "configuring",
		{Allocation: am.Provisioned, Operational: am.Configuring}:       "configuring",
		{Allocation: am.Provisioned, Operational: am.Ready}:             "ready",
		{Allocation: am.Provisioned, Operational: am.UpdatingUsers}:     "ready",
		{Allocation: am.Provisioned, Operational: am.Stopping}:          "configuring",
		{Allocation: am.Provisioned, Operational: am.Failed}:            "failed",
	}
	for status, want := range words {
		if got := status2(status, false); got != want {
			t.Errorf("%v is %s, want %s", status, got, want)
		}
		if got := status2(status, true); got != "shutdown" {
			t.Errorf("%v of a slice that is shut down is %s", status, got)
		}
	}
	for _, tr := range am.Transitions {
		for _, status := range []am.Status{tr.From, tr.To} {
			if _, ok := words[status]; !ok && status.Allocation != am.Unallocated {
				t.Errorf("this table lacks %v", status)
			}
		}
	}
	if got := status2(am.Status{Allocation: am.Provisioned, Operational: "geni_strange"}, false); got != "unknown" {
		t.Errorf("a state that version 2 has no word for is %s", got)
	}
}

func TestOverall(t *testing.T) {
	for _, tt := range []struct{ nodes, want string }{
		{"ready", "ready"},
		{"ready ready", "ready"},
		{"ready configuring", "configuring"},
		{"configuring ready", "configuring"},
		{"ready unknown", "unknown"},
		{"unknown configuring", "configuring"},
		{"ready failed configuring", "failed"},
		{"configuring failed", "failed"},
		{"unknown failed", "failed"},
		{"failed shutdown ready", "shutdown"},
		{"shutdown shutdown", "shutdown"},
		{"", "unknown"},
	} {
		if got := overall(strings.Fields(tt.nodes)); got != tt.want {
			t.Errorf("overall of %q is %s, want %s", tt.nodes, got, tt.want)
		}
	}
}
