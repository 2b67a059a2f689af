package require

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is the longest time that goroutines may take to end. It is more than any goroutine
// needs on a busy host.
const patience = time.Minute

// NoLeaks runs the tests and returns the exit status of the test program. The status is 1 if
// all tests have passed but goroutines still run. Goleak itself waits for less than half a
// second, which is too short for connections that close on a busy host.
func NoLeaks(m *testing.M) int {
	code := m.Run()
	if code == 0 {
		if err := leaks(); err != nil {
			fmt.Fprintf(os.Stderr, "goroutines still run after the tests: %v\n", err)
			code = 1
		}
	}
	return code
}

// NoneLeft fails the test if goroutines still run, other than those that options exclude.
func NoneLeft(t testing.TB, options ...goleak.Option) {
	t.Helper()
	if err := leaks(options...); err != nil {
		t.Errorf("goroutines still run: %v", err)
	}
}

func leaks(options ...goleak.Option) error {
	err := goleak.Find(options...)
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
		err = goleak.Find(options...)
	}
	return err
}
