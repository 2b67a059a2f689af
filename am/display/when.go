package display

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// ParseTime parses a time as people write it: RFC 3339, "2026-12-01 09:00", "today 9:00", "tomorrow 9:00", each also
// with seconds, or a duration such as 2h or +3d, which counts from the time from. "9:00" is the first one after from.
// A time without an offset is in the zone of now. ParseTime fails if it does not exist there or is there twice, because
// the clock is changed; then the error names both readings.
func ParseTime(s string, now, from time.Time) (time.Time, error) {
	text := strings.TrimSpace(s)
	if d, err := ParseDuration(strings.TrimPrefix(text, "+")); err == nil {
		return from.Add(d).UTC().Truncate(time.Second), nil
	}
	if t, err := time.Parse(time.RFC3339, strings.Replace(text, " ", "T", 1)); err == nil {
		return t.UTC(), nil
	}
	day, clock, hasDay := strings.Cut(strings.Replace(text, "T", " ", 1), " ")
	if !hasDay {
		day, clock = "", day
	}
	at, err := time.Parse("15:04:05", clock)
	if err != nil {
		at, err = time.Parse("15:04", clock)
	}
	date, zone := now, now.Location()
	switch {
	case err != nil:
	case !hasDay:
		date = from.In(zone)
	case day == "tomorrow":
		date = now.AddDate(0, 0, 1)
	case day != "today":
		date, err = time.Parse(time.DateOnly, day)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("%.40q is not a time; write it like \"2026-12-01 09:00\", \"tomorrow 9:00\", 2026-12-01T08:00:00Z or 2h", s)
	}
	wall := time.Date(date.Year(), date.Month(), date.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
	t, err := onClock(wall, zone)
	if err == nil && !hasDay && !t.After(from) {
		t, err = onClock(wall.AddDate(0, 0, 1), zone)
	}
	return t, err
}

// onClock returns the time at which the clocks of a zone show what wall shows in UTC.
func onClock(wall time.Time, zone *time.Location) (time.Time, error) {
	var readings, right []time.Time
	for _, near := range []time.Time{wall.AddDate(0, 0, -1), wall.AddDate(0, 0, 1)} { // before and after a change of the clock
		_, offset := near.In(zone).Zone()
		t := wall.Add(-time.Duration(offset) * time.Second)
		if len(readings) > 0 && t.Equal(readings[0]) {
			continue
		}
		readings = append(readings, t)
		if t.In(zone).Format(time.DateTime) == wall.Format(time.DateTime) {
			right = append(right, t)
		}
	}
	if len(right) == 1 {
		return right[0], nil
	}
	what := "does not exist"
	if len(right) == 2 {
		what = "is there twice"
	}
	return time.Time{}, fmt.Errorf("%s %s in the zone %s, because the clock is changed then; write %s or %s", wall.Format("2006-01-02 15:04"), what, zone,
		readings[0].In(zone).Format(time.RFC3339), readings[1].In(zone).Format(time.RFC3339))
}

// Local formats a time in its zone, to the minute, with the name of the zone: 2026-12-01 09:00 CET.
func Local(t time.Time) string { return t.Format("2006-01-02 15:04 MST") }

// LocalAndUTC formats a time in its zone and in UTC.
func LocalAndUTC(t time.Time) string {
	if name, _ := t.Zone(); name == "UTC" {
		return Time(t)
	}
	return Local(t) + " (" + Time(t) + ")"
}

var timeInText = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// LocalTimes returns a text with its times in UTC written as Local does, in the zone of the user.
func LocalTimes(text string) string {
	return timeInText.ReplaceAllStringFunc(text, func(s string) string {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return s
		}
		return Local(t.Local())
	})
}
