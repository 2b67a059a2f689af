package api

import (
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/service"
)

// The states of AM API v2.
const (
	shutdown2    = "shutdown"
	failed2      = "failed"
	configuring2 = "configuring"
	unknown2     = "unknown"
	ready2       = "ready"
)

// states2 contains the states in order of precedence: a slice has the first of these states
// that any of its slivers has.
var states2 = []string{shutdown2, failed2, configuring2, unknown2, ready2}

var statesOf2 = map[am.OperationalState]string{
	am.PendingAllocation: configuring2,
	am.NotReady:          configuring2,
	am.Configuring:       configuring2,
	am.Stopping:          configuring2,
	am.Ready:             ready2,
	am.UpdatingUsers:     ready2,
	am.Failed:            failed2,
}

// status2 returns the version 2 state of a sliver. The parameter shutdown means that its
// slice is shut down.
func status2(s am.Status, shutdown bool) string {
	if shutdown {
		return shutdown2
	}
	if word, ok := statesOf2[s.Operational]; ok {
		return word
	}
	return unknown2
}

// overall returns the state of a slice whose slivers have the given states; unknown2 if it
// has no slivers.
func overall(states []string) string {
	for _, s := range states2 {
		if slices.Contains(states, s) {
			return s
		}
	}
	return unknown2
}

// earliest returns the end of the lease that ends first; zero if there are no slivers.
func earliest(out service.Outcome) time.Time {
	var t time.Time
	for i := range out.Slivers {
		if e := out.Slivers[i].Expires; t.IsZero() || e.Before(t) {
			t = e
		}
	}
	return t
}
