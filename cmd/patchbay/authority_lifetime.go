package main

import (
	"errors"
	"fmt"
	"math"
	"time"

	"patchbay/am/display"
)

// parseLifetime reads --expires. What is too long for any time is as long as
// can be said.
func parseLifetime(s string) (time.Duration, error) {
	life, err := display.ParseDuration(s)
	switch {
	case errors.Is(err, display.ErrTooLong):
		return math.MaxInt64, nil
	case err != nil:
		return 0, fmt.Errorf("--expires: %w", err)
	case life == 0:
		return 0, fmt.Errorf("--expires %s is no time at all; say how long, such as 2h", s)
	}
	return life, nil
}

// until is when a credential ends that lasts so long from now on, as long as
// the authority does.
func (t *trialSite) until(life time.Duration, now time.Time) (time.Time, error) {
	if longest := t.Expires().Sub(now); life >= longest {
		return time.Time{}, fmt.Errorf("--expires is too long: the trial authority ends on %s, so the longest is %dd",
			t.Expires().Format(time.DateOnly), max(0, longest-time.Minute)/(24*time.Hour))
	}
	return now.Add(life), nil
}
