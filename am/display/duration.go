package display

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrTooLong is the error for a duration above the limit.
var ErrTooLong = errors.New("longer than 36500d")

// ParseDuration parses durations such as 90s, 10m, 24h, and also days: 30d, 1d12h. It
// fails for a negative duration, a 0 without a unit, and a number of days above 36500.
func ParseDuration(s string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a time like 30s, 10m, 24h or 30d", s)
	rest := strings.TrimSpace(s)
	var sum time.Duration
	if head, tail, ok := strings.Cut(rest, "d"); ok {
		days, err := strconv.ParseFloat(head, 64)
		if err != nil || !(days >= 0) {
			return 0, bad
		}
		if days > 36500 {
			return 0, fmt.Errorf("%q is too long: %w", s, ErrTooLong)
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
