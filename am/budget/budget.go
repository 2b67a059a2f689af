// Package budget shares an amount of memory among callers, so that no caller takes
// all of it.
//
// It counts and never waits: callers answer a refused request with "try again later".
package budget

import (
	"math"
	"sync"
)

// ShareDivisor is the number by which a budget is divided to get a caller's share.
const ShareDivisor = 4

// Budget is a number of bytes that callers share. All methods may be called
// concurrently.
type Budget struct {
	most, perCaller, reserve int64

	mu   sync.Mutex
	used int64
	by   map[string]int64 // bytes in use, by caller
}

// New returns a budget of most bytes. A caller may take a quarter of them, and the
// largest single amount in any case. Another quarter is the reserve for small amounts.
func New(most, largest int64) *Budget {
	part := most / ShareDivisor
	return &Budget{
		most: most, perCaller: min(most, max(part, largest+1)), reserve: max(0, min(part, most-largest-1)),
		by: make(map[string]int64),
	}
}

// PerCaller returns a budget that gives each caller n, independently of others.
func PerCaller(n int) *Budget {
	return &Budget{most: math.MaxInt64, perCaller: int64(n), by: make(map[string]int64)}
}

// Reserve returns the number of bytes that large amounts must leave free.
func (b *Budget) Reserve() int64 { return b.reserve }

// Take reserves n more bytes for a caller. It returns false if the caller's share or the
// budget is used up, or if fewer than free bytes would be left.
func (b *Budget) Take(caller string, n, free int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n+free > b.most || b.by[caller]+n > b.perCaller {
		return false
	}
	b.add(caller, n)
	return true
}

// Release returns n bytes of a caller to the budget.
func (b *Budget) Release(caller string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(caller, -n)
}

// Used returns the number of bytes in use.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

func (b *Budget) add(caller string, n int64) {
	b.used += n
	if b.by[caller] += n; b.by[caller] == 0 {
		delete(b.by, caller)
	}
}
