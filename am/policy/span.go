package policy

import (
	"fmt"
	"strings"
	"time"
)

// longestSpan is the longest time that a rule may name.
const longestSpan = 36500 * 24 * time.Hour

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
