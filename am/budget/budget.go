// Package budget shares an amount of memory among callers, so that no caller takes
// all of it.
//
// It counts and never waits: whoever gets nothing is told to come back.
package budget

import (
	"math"
	"sync"
)

// Part is the share of a budget that one caller may have: a quarter.
const Part = 4

// Budget is a number of bytes that callers share. All methods may be called at the
// same time.
type Budget struct {
	most, perCaller, reserve int64

	mu   sync.Mutex
	used int64
	by   map[string]int64 // by caller
}

// New shares most bytes. A caller may have a quarter of them, and the largest single
// amount in any case; another quarter is the reserve for small amounts.
func New(most, largest int64) *Budget {
	part := most / Part
	return &Budget{
		most: most, perCaller: min(most, max(part, largest+1)), reserve: max(0, min(part, most-largest-1)),
		by: make(map[string]int64),
	}
}

// PerCaller gives each caller n, whatever the others have.
func PerCaller(n int) *Budget {
	return &Budget{most: math.MaxInt64, perCaller: int64(n), by: make(map[string]int64)}
}

// Reserve is how many bytes large amounts leave free.
func (b *Budget) Reserve() int64 { return b.reserve }

// Take gives n further bytes to a caller; false when there is no room for them, or
// fewer than free bytes would be left.
func (b *Budget) Take(caller string, n, free int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n+free > b.most || b.by[caller]+n > b.perCaller {
		return false
	}
	b.add(caller, n)
	return true
}

// Give takes n bytes back from a caller.
func (b *Budget) Give(caller string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(caller, -n)
}

// Used is how many bytes are given out.
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
