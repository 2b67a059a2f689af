package display

import (
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
		say  string
	}{
		{"30s", 30 * time.Second, "30s"},
		{"10m", 10 * time.Minute, "10m"},
		{"24h", 24 * time.Hour, "24h"},
		{"1d", 24 * time.Hour, "24h"},
		{"30d", 720 * time.Hour, "30d"},
		{"1d12h", 36 * time.Hour, "36h"},
		{"1.5d", 36 * time.Hour, "36h"},
		{"23h50m", 23*time.Hour + 50*time.Minute, "23h50m"},
		{"1500ms", 1500 * time.Millisecond, "1.5s"},
	} {
		got, err := ParseDuration(c.text)
		if err != nil || got != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.text, got, err, c.want)
		}
		if s := Duration(got); s != c.say {
			t.Errorf("%s is said %q, want %q", c.text, s, c.say)
		}
	}
	for _, bad := range []string{"", "30", "-5m", "d", "1d2", "99999999d", "NaNd", "1d-3h", "0", "week"} {
		if d, err := ParseDuration(bad); err == nil {
			t.Errorf("%q was read as %s", bad, d)
		}
	}
}
