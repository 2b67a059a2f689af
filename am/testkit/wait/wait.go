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
)

// Limit returns how long a test waits for a condition before it fails.
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

// Until waits until ok returns true. It fails the test with the text what if that takes too
// long.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Holds(t, ok, func() string { return what })
}

// Holds waits until ok returns true. It fails the test with the result of problem if that
// takes too long.
func Holds(t testing.TB, ok func() bool, problem func() string) {
	t.Helper()
	Clear(t, func() string {
		if ok() {
			return ""
		}
		return problem()
	})
}

// Clear waits until problem returns "". It fails the test with the last result of problem if
// that takes too long.
func Clear(t testing.TB, problem func() string) {
	t.Helper()
	limit := Limit(t)
	for end := time.Now().Add(limit); ; time.Sleep(pause) {
		last := problem()
		if last == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after a wait of %v: %s", limit, last)
		}
	}
}

// Success waits until try returns no error. It fails the test with the text what and the last
// error if that takes too long.
func Success(t testing.TB, what string, try func() error) {
	t.Helper()
	Clear(t, func() string {
		if err := try(); err != nil {
			return what + ": " + err.Error()
		}
		return ""
	})
}
