package api

import (
	"fmt"
	"regexp"
	"time"
)

// timeForm is RFC 3339 with what clients make of it: T, t or a blank between
// date and time, a fraction of any length, Z in either case, an offset with or
// without its colon, or none, which means UTC.
var timeForm = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.\d+)?(?:[Zz]|([+-]\d{2}):?(\d{2}))?$`)

// The years in which a lease can sensibly end.
const firstYear, lastYear = 1990, 9999

// parseTime reads a time argument; fractions are cut off. The answer is in UTC.
func parseTime(s string) (time.Time, error) {
	normal := ""
	if m := timeForm.FindStringSubmatch(s); m != nil {
		normal = m[1] + "T" + m[2] + "Z"
		if m[3] != "" {
			normal = m[1] + "T" + m[2] + m[3] + ":" + m[4]
		}
	}
	t, err := time.Parse(time.RFC3339, normal)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.40q is no time; write it like 2030-01-31T12:00:00Z", s)
	}
	if t = t.UTC(); t.Year() < firstYear || t.Year() > lastYear {
		return time.Time{}, fmt.Errorf("the year of %.40q makes no sense", s)
	}
	return t, nil
}

// formatTime writes whole seconds in UTC with a Z, in which clients compare.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
