package main

import (
	"fmt"
	"time"

	"patchbay/am/display"
)

// parseMoment reads a time, or a while from now; nothing is now.
func parseMoment(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return now, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC().Truncate(time.Second), nil
	}
	d, err := display.ParseDuration(s)
	if err != nil {
		return now, noMoment(flag, s)
	}
	return now.Add(d).Truncate(time.Second), nil
}

// noMoment says that a text is neither a time nor a while from now.
func noMoment(flag, s string) error {
	if day, err := time.Parse(time.DateOnly, s); err == nil {
		return fmt.Errorf("%s %q has no time of day; write it with time and zone, like %s", flag, s, day.Format(time.RFC3339))
	}
	return fmt.Errorf("%s %q is neither a time like 2030-01-31T12:00:00Z, with its zone, nor a while from now like 2h or 3d", flag, s)
}
