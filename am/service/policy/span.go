package policy

import (
	"fmt"
	"strings"
	"time"
)

const longestSpan = 36500 * 24 * time.Hour

// formatDuration returns a text such as 3d, 1d12h or 10m.
func formatDuration(d time.Duration) string {
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
