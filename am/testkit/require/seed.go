package require

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Long reports whether the variable PATCHBAY_LONG is set, as by make check-full. Then tests are
// long and use new random numbers each time.
func Long() bool { return os.Getenv("PATCHBAY_LONG") != "" }

// Rounds returns how often a test kills or interrupts something: daily times or, if
// PATCHBAY_LONG is set, long times.
func Rounds(daily, long int) int {
	if Long() {
		return long
	}
	return daily
}

// Daily reports whether row i of a long table runs: each n-th one or, if PATCHBAY_LONG is set,
// every one.
func Daily(i, n int) bool { return Long() || i%n == 0 }

// Seed returns the seed for the random numbers of a test, and logs it. The seed is
// PATCHBAY_SEED if that variable is set. Otherwise it is a random number if PATCHBAY_LONG is
// set, and else 1.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(1)
	if text := os.Getenv("PATCHBAY_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("PATCHBAY_SEED: %v", err)
		}
	} else if Long() {
		seed = rand.Uint64N(1 << 31)
	}
	t.Logf("PATCHBAY_SEED=%d", seed)
	return seed
}
