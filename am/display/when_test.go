package display

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func TestTimesOfPeople(t *testing.T) {
	brussels, err := time.LoadLocation("Europe/Brussels")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 12, 1, 10, 30, 0, 0, brussels)
	start := time.Date(2026, 12, 4, 9, 0, 0, 0, brussels)
	for _, tt := range []struct {
		text string
		from time.Time
		want string // or the end of the error
	}{
		{"2026-12-01 09:00", now, "2026-12-01T08:00:00Z"},
		{" 2026-12-01 09:00:30 ", now, "2026-12-01T08:00:30Z"},
		{"2026-12-01T9:00", now, "2026-12-01T08:00:00Z"},
		{"2026-07-01 09:00", now, "2026-07-01T07:00:00Z"},
		{"2026-12-01T09:00:00Z", now, "2026-12-01T09:00:00Z"},
		{"2026-12-01 09:00:00+05:30", now, "2026-12-01T03:30:00Z"},
		{"today 9:00", now, "2026-12-01T08:00:00Z"},
		{"tomorrow 09:00", now, "2026-12-02T08:00:00Z"},
		{"tomorrow 09:00", start, "2026-12-02T08:00:00Z"},
		{"9:00", now, "2026-12-02T08:00:00Z"},
		{"11:00", now, "2026-12-01T10:00:00Z"},
		{"17:00", start, "2026-12-04T16:00:00Z"},
		{"+2h", now, "2026-12-01T11:30:00Z"},
		{"3d", start, "2026-12-07T08:00:00Z"},
		// In spring, the clock goes from 02:00 +01:00 to 03:00 +02:00.
		{"2026-03-29 01:59:59", now, "2026-03-29T00:59:59Z"},
		{"2026-03-29 02:30", now, "2026-03-29 02:30 does not exist in the zone Europe/Brussels, because the clock is changed then; write 2026-03-29T03:30:00+02:00 or 2026-03-29T01:30:00+01:00"},
		{"2026-03-29 03:00", now, "2026-03-29T01:00:00Z"},
		// In autumn, it goes from 03:00 +02:00 to 02:00 +01:00.
		{"2026-10-25 01:59:59", now, "2026-10-24T23:59:59Z"},
		{"2026-10-25 02:30", now, "2026-10-25 02:30 is there twice in the zone Europe/Brussels, because the clock is changed then; write 2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00"},
		{"2026-10-25 03:00", now, "2026-10-25T02:00:00Z"},
		{"2026-12-01", now, "\"2026-12-01\" is not a time; "},
		{"yesterday 9:00", now, "is not a time; "},
		{"2026-13-01 09:00", now, "is not a time; "},
		{"25:00", now, "is not a time; "},
		{"", now, "is not a time; "},
		{"-2h", now, "is not a time; "},
	} {
		got, err := ParseTime(tt.text, now, tt.from)
		if err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && Time(got) != tt.want {
			t.Errorf("%q from %s: got %s, %v, want %s", tt.text, tt.from, Time(got), err, tt.want)
		}
	}
	if got := LocalAndUTC(start); got != "2026-12-04 09:00 CET (2026-12-04T08:00:00Z)" {
		t.Error(got)
	}
	if got := LocalAndUTC(start.UTC()); got != "2026-12-04T08:00:00Z" {
		t.Error(got)
	}
}

func TestLocalTimes(t *testing.T) {
	zone := time.Local
	defer func() { time.Local = zone }()
	time.Local = time.FixedZone("CET", 3600)
	if got := LocalTimes("until 2026-12-04T08:00:00Z, x2026-12-04T08:00:00Z"); got != "until 2026-12-04 09:00 CET, x2026-12-04T08:00:00Z" {
		t.Error(got)
	}
}
