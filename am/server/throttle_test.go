package server

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestLogLinesAreLimited limits the log lines of events that clients can cause any number of times, from
// any number of addresses.
func TestLogLinesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s logThrottle
		var lines []string
		tell := func(source string) {
			s.count("calls", source, func(source string, times int) { lines = append(lines, fmt.Sprint(source, " ", times)) })
		}
		want := func(rule string, want ...string) {
			t.Helper()
			slices.Sort(lines)
			if !slices.Equal(lines, want) {
				t.Errorf("%s: the lines are %q, want %q", rule, lines, want)
			}
			lines = nil
		}
		for range 6 {
			tell("a")
		}
		tell("b")
		want("the first of each has its line at once", "a 1", "b 1")
		s.flush(false)
		want("the others wait")

		time.Sleep(throttlePause)
		s.flush(false)
		want("they share a line after the pause", "a 5")
		s.flush(true)
		want("none is counted twice")
		if _, ok := s.kinds["calls"]["b"]; ok {
			t.Error("a source that is quiet is not forgotten")
		}
		tell("a")
		s.flush(true)
		want("at the end nothing waits", "a 1")

		time.Sleep(throttlePause)
		s.flush(false)
		for i := range 5 * throttleSources {
			tell(fmt.Sprint(i))
		}
		if len(lines) != throttleSources+1 {
			t.Errorf("%d sources have %d lines, want %d", 5*throttleSources, len(lines), throttleSources+1)
		}
		lines = nil
		s.flush(true)
		want("all are counted", fmt.Sprint("others ", 4*throttleSources-1))
	})
}
