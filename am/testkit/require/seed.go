package require

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Long reports whether PATCHBAY_LONG asks for long tests with new random numbers,
// as make check-full does. Else tests are short, and draw the same each time.
func Long() bool { return os.Getenv("PATCHBAY_LONG") != "" }

// Seed is where the random numbers of a test begin: 1, PATCHBAY_SEED, or with
// PATCHBAY_LONG a random one. It is logged.
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
