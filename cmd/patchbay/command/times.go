package command

import (
	"time"

	"patchbay/am/display"
)

// TimeAndDistance returns a text such as "2030-01-31T12:00:00Z in 3h12m".
func TimeAndDistance(at, now time.Time) string {
	return display.Time(at) + " " + Distance(at.Sub(now))
}

// Distance returns a text such as "in 3h12m" or "4m ago", rounded to days, minutes or
// seconds.
func Distance(d time.Duration) string {
	past := d < 0
	if d = d.Abs(); d >= 48*time.Hour {
		d = d.Round(24 * time.Hour)
	} else if d >= time.Minute {
		d = d.Round(time.Minute)
	} else {
		d = d.Round(time.Second)
	}
	text := display.Duration(d)
	if past {
		return text + " ago"
	}
	return "in " + text
}
