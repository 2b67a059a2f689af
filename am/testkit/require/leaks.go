package require

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines have to end: much longer than any takes,
// also on a host with other work.
const patience = time.Minute

// NoLeaks runs the tests and returns the code to exit with. It is 1 if
// goroutines are left once all tests have passed. Goleak by itself waits for
// less than half a second, which is too short for connections that close on a
// busy host.
func NoLeaks(m *testing.M) int {
	code := m.Run()
	if code == 0 {
		if err := leaks(); err != nil {
			fmt.Fprintf(os.Stderr, "goroutines are left: %v\n", err)
			code = 1
		}
	}
	return code
}

// NoneLeft fails the test if goroutines are left, but for those that options
// leave out.
func NoneLeft(t testing.TB, options ...goleak.Option) {
	t.Helper()
	if err := leaks(options...); err != nil {
		t.Errorf("goroutines are left: %v", err)
	}
}

// leaks returns an error if goroutines still run after a short wait for them to end.
func leaks(options ...goleak.Option) error {
	err := goleak.Find(options...)
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
		err = goleak.Find(options...)
	}
	return err
}
