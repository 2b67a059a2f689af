package web

import (
	"slices"
	"strings"
	"testing"

	"patchbay/am/site/operate"
)

func TestNaturalOrder(t *testing.T) {
	want := "a a1 a2 a02 a10 a10b a10b2 a10b11 b lab1 lab1-student2 lab1-student10 lab2-student1 z99999999999999999999998 z99999999999999999999999"
	sorted := strings.Fields(want)
	for range 3 {
		got := slices.Clone(sorted)
		slices.Reverse(got)
		slices.SortFunc(got, naturalOrder)
		if text := strings.Join(got, " "); text != want {
			t.Errorf("got  %s\nwant %s", text, want)
		}
		sorted = append(sorted[1:], sorted[0])
	}
	if naturalOrder("", "") != 0 || naturalOrder("x1", "x1") != 0 || naturalOrder("", "1") >= 0 {
		t.Error("equal and empty names")
	}
}

// TestStatesOfSlivers checks the words for the states of the operators' lists.
func TestStatesOfSlivers(t *testing.T) {
	for _, x := range []struct{ state, setup, want string }{
		{"ready", "", "ready"}, {"ready", operate.SetupFailed, "setup failed"}, {"failed", operate.SetupFailed, "setup failed"}, {"failed", "", "failed"},
		{"configuring", "", "starting"}, {"configuring", operate.SetupRuns, "setting up"}, {"notready", operate.SetupFailed, "stopped"},
		{operate.StateAllocated, "", "reserved"}, {operate.StateMaking, "", "being created"}, {operate.StateRemoving, operate.SetupFailed, "being removed"}, {operate.StateExpired, "", "expired"},
	} {
		if got := stateOf(operate.Sliver{State: x.state, Setup: x.setup}); got != x.want {
			t.Errorf("%s with setup %q: %q, want %q", x.state, x.setup, got, x.want)
		}
	}
	for _, state := range operate.SliverStates {
		if word := stateOf(operate.Sliver{State: state}); strings.Contains(word, "_") && state != operate.StateSetupFailed {
			t.Errorf("%s has no word for people", state)
		}
	}
	if got, want := summaryOf(map[string]int{"ready": 3, "failed": 1, operate.StateMaking: 2, operate.StateExpired: 1, "odd": 1}), "1 failed, 2 being created, 3 ready, 1 expired, 1 odd"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSomeOf(t *testing.T) {
	for names, want := range map[string]string{"": "", "a b": "a, b", "a b c d e f g h": "a, b, c, d, e, f, g, h", "a b c d e f g h i j": "a, b, c, d, e, f, g, h, 2 more"} {
		if got := someOf(strings.Fields(names)); got != want {
			t.Errorf("%s: %q, want %q", names, got, want)
		}
	}
}
