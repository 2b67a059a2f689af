package api

import (
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	for _, tt := range []struct{ rule, in, want string }{
		{"as jFed sends it", "2030-01-31T12:00:00Z", "2030-01-31T12:00:00Z"},
		{"as omni sends it", "2030-01-31T12:00:00+00:00", "2030-01-31T12:00:00Z"},
		{"omni without offset means UTC", "2030-01-31T12:00:00", "2030-01-31T12:00:00Z"},
		{"blank between date and time", "2030-01-31 12:00:00", "2030-01-31T12:00:00Z"},
		{"lower case", "2030-01-31t12:00:00z", "2030-01-31T12:00:00Z"},
		{"an eastern offset is earlier in UTC", "2030-01-31T12:00:00+02:00", "2030-01-31T10:00:00Z"},
		{"a western offset is later in UTC", "2030-01-31T23:30:00-0130", "2030-02-01T01:00:00Z"},
		{"fractions are cut off", "2030-01-31T12:00:00.999999999999Z", "2030-01-31T12:00:00Z"},
		{"year 9999", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"},
		{"date alone", "2030-01-31", ""},
		{"no such month", "2030-13-01T00:00:00Z", ""},
		{"no such day", "2030-02-30T00:00:00Z", ""},
		{"leap second", "2030-06-30T23:59:60Z", ""},
		{"year 0001", "0001-01-01T00:00:00Z", ""},
		{"trailing blank", "2030-01-31T12:00:00Z ", ""},
		{"empty", "", ""},
		{"number", "1893456000", ""},
		{"beyond year 9999 by its offset", "9999-12-31T23:59:59-01:00", ""},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			got, err := parseTime(tt.in)
			if (err == nil) != (tt.want != "") || err == nil && formatTime(got) != tt.want {
				t.Errorf("parseTime(%q) = %v, %v; want %q", tt.in, got, err, tt.want)
			}
		})
	}
}

func FuzzParseTime(f *testing.F) {
	f.Add("2030-01-31T12:00:00+01:00")
	f.Fuzz(func(t *testing.T, s string) {
		m, err := parseTime(s)
		if err != nil {
			return
		}
		if again, err := parseTime(formatTime(m)); err != nil || !again.Equal(m) {
			t.Fatalf("%q became %v, then %v, %v", s, m, again, err)
		}
	})
}

func TestExpirationTimeIsAnyText(t *testing.T) {
	want := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	for rule, v := range map[string]any{
		"string": "2030-01-31T12:00:00Z", "base64": []byte("2030-01-31T12:00:00Z"), "with white space around": " 2030-01-31T12:00:00Z\n",
	} {
		c := new(call)
		if err := c.readTime(v); err != nil || !c.until.Equal(want) {
			t.Errorf("%s: %v, %v", rule, c.until, err)
		}
	}
	for _, v := range []any{1, true, want, []any{}, []byte("tomorrow")} {
		if err := new(call).readTime(v); err == nil {
			t.Errorf("%v is taken for a time", v)
		}
	}
}
