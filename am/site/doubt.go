package site

import "patchbay/am/clock"

// DoubtReason says in words why there is a doubt.
func DoubtReason(d clock.Doubt) string {
	switch d {
	case clock.Behind:
		return "after a boot it was behind the last known time"
	case clock.Settling:
		return "the host has just booted, and no time service has set it yet"
	}
	return "it was set, and not by the time that has gone by"
}
