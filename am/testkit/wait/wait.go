package wait

import (
	"os"
	"strconv"
	"testing"
	"time"
)

const (
	usual = 3 * time.Minute
	pause = 5 * time.Millisecond
	// longest is the longest pause between two checks.
	longest = 250 * time.Millisecond
)

// Limit returns the longest time that a test waits for a condition.
func Limit(t testing.TB) time.Duration {
	t.Helper()
	text := os.Getenv("PATCHBAY_WAIT")
	if text == "" {
		return usual
	}
	times, err := strconv.ParseFloat(text, 64)
	if err != nil || times <= 0 {
		t.Fatalf("PATCHBAY_WAIT=%q is not a positive number", text)
	}
	return time.Duration(times * float64(usual))
}

// Until waits until ok returns true. If that takes too long, it fails the test with message.
func Until(t testing.TB, message string, ok func() bool) {
	t.Helper()
	Holds(t, ok, func() string { return message })
}

// Holds waits until ok returns true. If that takes too long, it fails the test with the result
// of problem.
func Holds(t testing.TB, ok func() bool, problem func() string) {
	t.Helper()
	Clear(t, func() string {
		if ok() {
			return ""
		}
		return problem()
	})
}

// Clear waits until problem returns "". If that takes too long, it fails the test with the last
// result of problem.
func Clear(t testing.TB, problem func() string) {
	t.Helper()
	limit := Limit(t)
	for end := time.Now().Add(limit); ; {
		begun := time.Now()
		last := problem()
		took := time.Since(begun)
		if last == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after a wait of %v: %s", limit, last)
		}
		// A check that takes long, such as a command, must not take the host's time from the
		// program that it waits for.
		time.Sleep(max(pause, min(5*took, longest)))
	}
}

// Success calls f until f returns no error. If that takes too long, it fails the test with
// message and the last error.
func Success(t testing.TB, message string, f func() error) {
	t.Helper()
	Clear(t, func() string {
		if err := f(); err != nil {
			return message + ": " + err.Error()
		}
		return ""
	})
}
