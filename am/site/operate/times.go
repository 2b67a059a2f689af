package operate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"patchbay/am/display"
)

// ParsePast accepts a time, or a duration before now; "" is the zero time.
func ParsePast(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := display.ParseDuration(s); err == nil {
		return now.Add(-d), nil
	}
	t, err := ParseTime(s)
	if err != nil {
		return t, fmt.Errorf("%s %w, or as a duration before now such as 2h or 3d", flag, err)
	}
	return t, nil
}

// ParseTime accepts several formats with a zone, or a number of seconds since 1970.
func ParseTime(s string) (time.Time, error) {
	s = strings.TrimSpace(s)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 0 && n < 1<<40 {
		return time.Unix(n, 0), nil
	}
	day := strings.Replace(s, " ", "T", 1)
	day = strings.NewReplacer(" UTC", "Z", " GMT", "Z", " Z", "Z", " ", "").Replace(day)
	for _, zone := range []string{"Z07:00", "Z0700"} {
		for _, clock := range []string{"T15:04:05", "T15:04"} {
			if t, err := time.Parse("2006-01-02"+clock+zone, day); err == nil {
				return t, nil
			}
		}
	}
	for _, local := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if _, err := time.Parse(local, day); err == nil {
			return time.Time{}, fmt.Errorf("%q is incomplete; write day, time and zone, like \"2026-11-20 14:05 +0100\" or 2026-11-20T13:05:00Z", s)
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time; write it like 2026-11-20T13:05:00Z, \"2026-11-20 14:05 +0100\", or in seconds since 1970", s)
}

// ParseFuture accepts a time, or a duration from now; "" is now.
func ParseFuture(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return now, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC().Truncate(time.Second), nil
	}
	d, err := display.ParseDuration(s)
	if err != nil {
		return now, futureError(flag, s)
	}
	return now.Add(d).Truncate(time.Second), nil
}

// futureError is for a text that is neither a time nor a duration from now.
func futureError(flag, s string) error {
	if day, err := time.Parse(time.DateOnly, s); err == nil {
		if day.Before(time.Now().Add(-24 * time.Hour)) {
			return fmt.Errorf("%s %s is in the past", flag, s)
		}
		return fmt.Errorf("%s %q has no time of day; write it with time and zone, like %s", flag, s, day.Format(time.RFC3339))
	}
	return fmt.Errorf("%s %q is neither a time like 2030-01-31T12:00:00Z, with its zone, nor a duration from now like 2h or 3d", flag, s)
}

// ParseEnd accepts a time or a duration. A duration begins when the site changes the
// leases.
func ParseEnd(flag, s string) (e End, err error) {
	if t, failed := time.Parse(time.RFC3339, s); failed == nil {
		e.Until = t
		return e, nil
	}
	if e.For, err = LeaseSeconds(flag, s); err != nil {
		err = futureError(flag, s)
	}
	return e, err
}

// LeaseSeconds fails for less than one second.
func LeaseSeconds(flag, s string) (int64, error) {
	d, err := display.ParseDuration(s)
	if err == nil && d < time.Second {
		err = errors.New("a lease lasts at least 1s; to end it now: patchbay release")
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", flag, err)
	}
	return int64(d / time.Second), err
}
