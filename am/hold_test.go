package am

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestSweep(t *testing.T) {
	hour := func(n int) time.Time {
		if n < 0 {
			return time.Time{}
		}
		return time.Date(2030, 1, 1, n, 0, 0, 0, time.UTC)
	}
	for _, tt := range []struct {
		rule      string
		from, now int
		holds     [][2]int // from, until; negative: none
		stop      int      // the hour after which at returns false; 0: never
		want      string   // each instant with the number of holds
	}{
		{"nothing held", 2, 0, nil, 0, "2:0"},
		{"held already, without an end", 2, 0, [][2]int{{-1, -1}}, 0, "2:1"},
		{"it is over before", 4, 0, [][2]int{{1, 4}, {-1, 3}}, 0, "4:0"},
		{"begins and ends later", 2, 0, [][2]int{{4, 6}}, 0, "2:0 4:1 6:0"},
		{"one begins when another ends", 2, 0, [][2]int{{6, 8}, {4, 6}}, 0, "2:0 4:1 6:1 8:0"},
		{"several, in any order", 2, 0, [][2]int{{5, -1}, {3, 7}, {-1, 5}, {3, 4}}, 0, "2:1 3:3 4:2 5:2 7:1"},
		{"overdue ones last an hour from now", 5, 5, [][2]int{{-1, 3}, {7, 8}}, 0, "5:1 6:0 7:1 8:0"},
		{"at stops", 2, 0, [][2]int{{3, 4}, {5, 6}}, 4, "2:0 3:1 4:0"},
	} {
		var list []Hold
		for _, h := range tt.holds {
			list = append(list, Hold{From: hour(h[0]), Until: hour(h[1])})
		}
		held, got := 0, []string{}
		Sweep(list, hour(tt.from), hour(tt.now), func(*Hold) { held++ }, func(*Hold) { held-- }, func(at time.Time) bool {
			got = append(got, fmt.Sprint(at.Hour(), ":", held))
			return tt.stop == 0 || at.Hour() < tt.stop
		})
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s: got %s, want %s", tt.rule, text, tt.want)
		}
	}
}
