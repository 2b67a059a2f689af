package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// longestSpan is the longest time that a rule may name.
const longestSpan = 36500 * 24 * time.Hour

// readSpan reads 90s, 10m, 24h, and also days: 30d, 1d12h; longer than nothing.
func readSpan(s string) (time.Duration, bool) {
	var sum time.Duration
	if head, tail, ok := strings.Cut(s, "d"); ok {
		days, err := strconv.ParseUint(head, 10, 16)
		if err != nil || days > 36500 {
			return 0, false
		}
		if sum, s = time.Duration(days)*24*time.Hour, tail; s == "" {
			return sum, sum > 0
		}
	}
	d, err := time.ParseDuration(s)
	return sum + d, err == nil && d > 0 && d <= longestSpan
}

// sayTime prints a time as people say it: 3d, 1d12h, 10m.
func sayTime(d time.Duration) string {
	const day = 24 * time.Hour
	text := ""
	if d >= day {
		text, d = fmt.Sprintf("%dd", d/day), d%day
		if d == 0 {
			return text
		}
	}
	rest := d.String()
	if strings.HasSuffix(rest, "m0s") {
		rest = strings.TrimSuffix(rest, "0s")
	}
	if strings.HasSuffix(rest, "h0m") {
		rest = strings.TrimSuffix(rest, "0m")
	}
	return text + rest
}
