package api

import (
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/service"
)

// The states of AM API v2, the ones that decide about a whole slice first.
const (
	shutdown2    = "shutdown"
	failed2      = "failed"
	configuring2 = "configuring"
	unknown2     = "unknown"
	ready2       = "ready"
)

var states2 = []string{shutdown2, failed2, configuring2, unknown2, ready2}

// of2 is what version 2 calls the operational states of version 3.
var of2 = map[am.OperationalState]string{
	am.PendingAllocation: configuring2,
	am.NotReady:          configuring2,
	am.Configuring:       configuring2,
	am.Stopping:          configuring2,
	am.Ready:             ready2,
	am.UpdatingUsers:     ready2,
	am.Failed:            failed2,
}

// status2 is the state of one sliver as version 2 calls it.
func status2(s am.Status, shutdown bool) string {
	if shutdown {
		return shutdown2
	}
	if word, ok := of2[s.Operational]; ok {
		return word
	}
	return unknown2
}

// overall is the state of a slice whose slivers have these.
func overall(states []string) string {
	for _, s := range states2 {
		if slices.Contains(states, s) {
			return s
		}
	}
	return unknown2
}

// earliest is when the first lease of an outcome ends.
func earliest(out service.Outcome) time.Time {
	var t time.Time
	for i := range out.Slivers {
		if e := out.Slivers[i].Expires; t.IsZero() || e.Before(t) {
			t = e
		}
	}
	return t
}
