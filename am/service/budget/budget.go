// Package budget shares an amount of memory among callers, so that no caller takes
// all of it.
//
// A Budget only counts and never waits. If it refuses an amount, the caller's request fails
// with "try again later".
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

// New returns a budget with a total in bytes. A caller's share is a quarter of the total. The
// reserve for small amounts is another quarter. If an amount of largest bytes would not fit,
// the share is larger or the reserve smaller.
func New(total, largest int64) *Budget {
	part := total / ShareDivisor
	return &Budget{
		most: total, perCaller: min(total, max(part, largest+1)), reserve: max(0, min(part, total-largest-1)),
		by: make(map[string]int64),
	}
}

// PerCaller returns a budget that gives each caller n bytes, independently of the others.
// Its total is unlimited.
func PerCaller(n int) *Budget {
	return &Budget{most: math.MaxInt64, perCaller: int64(n), by: make(map[string]int64)}
}

// Reserve returns the number of bytes that are reserved for small amounts. Pass it to Take as
// minFree for larger amounts.
func (b *Budget) Reserve() int64 { return b.reserve }

// Take reserves n more bytes for a caller. It returns false if this exceeds the caller's share,
// or if fewer than minFree bytes of the budget would be left.
func (b *Budget) Take(caller string, n, minFree int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n+minFree > b.most || b.by[caller]+n > b.perCaller {
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

// add adds n to the bytes in use, which may be negative. mu must be held.
func (b *Budget) add(caller string, n int64) {
	b.used += n
	if b.by[caller] += n; b.by[caller] == 0 {
		delete(b.by, caller)
	}
}
