package api

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"patchbay/am/xmlrpc"
)

// timeForm is RFC 3339 with what clients make of it: a date without hyphens, as
// XML-RPC has it, T, t or a blank between date and time, a fraction of any length, Z
// in either case, an offset with or without its colon, or none, which means UTC.
var timeForm = regexp.MustCompile(`^(\d{4})(?:-(\d{2})-(\d{2})|(\d{2})(\d{2}))[Tt ](\d{2}:\d{2}:\d{2})(?:\.\d+)?(?:[Zz]|([+-]\d{2}):?(\d{2}))?$`)

// The years in which a lease can sensibly end.
const firstYear, lastYear = 1990, 9999

// parseTime reads a time argument; fractions are cut off. The answer is in UTC.
func parseTime(s string) (time.Time, error) {
	normal := ""
	if m := timeForm.FindStringSubmatch(s); m != nil {
		normal = m[1] + "-" + m[2] + m[4] + "-" + m[3] + m[5] + "T" + m[6] + "Z"
		if m[7] != "" {
			normal = strings.TrimSuffix(normal, "Z") + m[7] + ":" + m[8]
		}
	}
	t, err := time.Parse(time.RFC3339, normal)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.40q is no time; write it like 2030-01-31T12:00:00Z", s)
	}
	return sensible(t)
}

// sensible is a time in UTC, or an error for a year in which no lease ends.
func sensible(t time.Time) (time.Time, error) {
	if t = t.UTC(); t.Year() < firstYear || t.Year() > lastYear {
		return time.Time{}, fmt.Errorf("the year of %s makes no sense", formatTime(t))
	}
	return t, nil
}

// moment reads a time, as text or as the dateTime.iso8601 of XML-RPC, which without
// an offset is UTC; an empty text is zero.
func moment(v xmlrpc.Value) (t time.Time, err error) {
	if t, ok := v.(time.Time); ok {
		return sensible(t.Truncate(time.Second))
	}
	s, ok := xmlrpc.AsString(v)
	if !ok {
		return t, errors.New("it must be a time such as 2030-01-31T12:00:00Z")
	}
	if s = strings.TrimSpace(s); s != "" {
		t, err = parseTime(s)
	}
	return t, err
}

// formatTime writes whole seconds in UTC with a Z, in which clients compare.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
