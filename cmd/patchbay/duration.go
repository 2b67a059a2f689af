package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// errTooLong is a time that is none any more.
var errTooLong = errors.New("longer than 36500d")

// parseDuration reads 90s, 10m, 24h, and also days: 30d, 1d12h.
func parseDuration(s string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a time like 30s, 10m, 24h or 30d", s)
	rest := strings.TrimSpace(s)
	var sum time.Duration
	if head, tail, ok := strings.Cut(rest, "d"); ok {
		days, err := strconv.ParseFloat(head, 64)
		if err != nil || !(days >= 0) {
			return 0, bad
		}
		if days > 36500 {
			return 0, fmt.Errorf("%q is too long: %w", s, errTooLong)
		}
		sum, rest = time.Duration(days*24*float64(time.Hour)), tail
		if rest == "" {
			return sum, nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || rest == "0" {
		return 0, bad
	}
	return sum + d, nil
}

// sayDuration prints a time as people say it: 30d, 23h50m, 10m, 1.5s.
func sayDuration(d time.Duration) string {
	if d >= 48*time.Hour && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
