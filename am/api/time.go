package api

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"patchbay/am/api/xmlrpc"
)

// timeForm matches RFC 3339 and the variants that clients send: a date without hyphens, as
// in XML-RPC; T, t or a blank between date and time; a fraction of any length; Z or z; an
// offset with or without its colon; no offset, which means UTC.
var timeForm = regexp.MustCompile(`^(\d{4})(?:-(\d{2})-(\d{2})|(\d{2})(\d{2}))[Tt ](\d{2}:\d{2}:\d{2})(?:\.\d+)?(?:[Zz]|([+-]\d{2}):?(\d{2}))?$`)

const firstYear, lastYear = 1990, 9999

// parseTime returns a time in UTC, without fractions of a second.
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
		return time.Time{}, fmt.Errorf("%.40q is not a time; write it like 2030-01-31T12:00:00Z", s)
	}
	return checkYear(t)
}

func checkYear(t time.Time) (time.Time, error) {
	if t = t.UTC(); t.Year() < firstYear || t.Year() > lastYear {
		return time.Time{}, fmt.Errorf("the year of %s is out of range", FormatTime(t))
	}
	return t, nil
}

// ParseTime accepts a text, or the dateTime.iso8601 of XML-RPC. A time without an offset
// is UTC. An empty text is the zero time.
func ParseTime(v xmlrpc.Value) (t time.Time, err error) {
	if t, ok := v.(time.Time); ok {
		return checkYear(t.Truncate(time.Second))
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

// FormatTime returns a time in whole seconds, in UTC with a Z, because clients compare
// times as text.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
