package display

import (
	"fmt"
	"strings"
	"time"
)

// ParseExpires parses the end of a credential. A time without an offset is UTC.
func ParseExpires(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, strings.TrimSpace(s)); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("its end, expires, is %.40q; it must be a time such as 2026-01-31T12:00:00Z", s)
}
