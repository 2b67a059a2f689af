package service

import (
	"context"
	"strings"
	"sync"

	"patchbay/am"
	"patchbay/am/service/budget"
	"patchbay/am/store"
	"patchbay/credentials"
	"patchbay/rspec"
)

// Memory limits the memory of parsed data: new requests, stored requests of which a manifest is
// written, and records of slivers. All methods may be called concurrently.
type Memory struct {
	limits  rspec.Limits
	largest int64
	budget  *budget.Budget
	// parsing has a value while a large request is parsed or bound, or templates are compiled. Only one
	// call does so at a time, because that takes much memory or processor time.
	parsing chan struct{}

	mu    sync.Mutex
	turns map[string]*turn
}

type turn struct {
	taken chan struct{} // contains a value while a request of the caller is parsed
	users int           // calls that have the turn or wait for it
}

// The maximum memory of a parsed request in bytes, for each byte and each element of its text.
// The values were measured with large documents of many kinds. A sliver's record takes less.
const (
	memoryPerByte    = 10
	memoryPerElement = 300
	// sourceElement is the average length of the parts of a template's source in bytes. In memory
	// a part counts like an element.
	sourceElement = 16
)

// spareFactor determines how much memory must stay free: after an amount is taken, spareFactor
// times this amount, or the budget's reserve if that is less. So large amounts are refused long
// before small ones.
const spareFactor = 4

// Memory returns the site's memory budget. Code that calls Memory.Parse must first reserve
// memory for the request with Hold or HoldText.
func (s *Service) Memory() *Memory { return s.memory }

// newMemory returns a budget of twice the memory of the largest request that limits allow. One
// caller may hold three quarters of the budget. This suffices for the largest request and the
// records of its slivers, which count for at most half as much. A quarter always stays free for
// other callers.
func newMemory(limits rspec.Limits) *Memory {
	size, elements := limits.PerSlice()
	largest := memoryOf(size, elements)
	return &Memory{
		limits: limits, largest: largest, budget: budget.New(2*largest, largest+largest/2),
		parsing: make(chan struct{}, 1), turns: map[string]*turn{},
	}
}

func memoryOf(size, elements int) int64 {
	return memoryPerByte*int64(size) + memoryPerElement*int64(elements)
}

// Hold reserves the memory for the records of the slivers that t names. Call it before these
// records are read, and release when the answer is complete.
//
// Errors: those of Memory.Hold.
func (s *Service) Hold(g credentials.Grant, t Targets) (release func(), err error) {
	size := 0
	err = s.cfg.Store.Read(func(v *store.View) error {
		size = v.SliverBytes(t.Slice, t.Slivers)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.memory.acquire(g.Caller().Key(), min(memoryOf(size, 0), s.memory.largest/2))
}

// Hold reserves the memory for requests before they are parsed. size and elements are the numbers
// of bytes and elements of all these requests together. Call release when the requests are no
// longer used.
//
// Errors: ServerBusy if the caller holds too much memory already, or all callers together do.
func (m *Memory) Hold(caller string, size, elements int) (release func(), err error) {
	return m.acquire(caller, min(memoryOf(size, elements), m.largest)) // a slice of an earlier version may have larger requests
}

// acquire reserves n bytes or returns a ServerBusy error.
func (m *Memory) acquire(caller string, n int64) (release func(), err error) {
	if !m.budget.Take(caller, n, min(spareFactor*n, m.budget.Reserve())) {
		return nil, am.Errorf(am.ServerBusy, "too many large requests are being processed, yours or those of others; try again later")
	}
	return func() { m.budget.Release(caller, n) }, nil
}

// HoldText does what Hold does, for the text of one request. It estimates the number of elements.
func (m *Memory) HoldText(caller, text string) (release func(), err error) {
	size, elements := m.limits.PerSlice() // larger requests are refused before they are parsed
	return m.Hold(caller, min(size, len(text)), min(elements, strings.Count(text, "<")))
}

// Parse calls rspec.ParseRequest. It first waits until no other request of the caller is
// being parsed. For a large request, it also waits until no other large request is being
// parsed. It fails with ctx's error if ctx ends first.
func (m *Memory) Parse(ctx context.Context, caller string, text []byte, o rspec.ReadOptions) (r *rspec.Request, err error) {
	err = m.inTurn(ctx, caller, len(text) >= rspec.Large, func() (err error) {
		r, err = rspec.ParseRequest(text, o)
		return err
	})
	return r, err
}

// InTurn calls f when no other call of the caller is in such an f. It fails with ctx's error if ctx ends first.
func (m *Memory) InTurn(ctx context.Context, caller string, f func() error) error {
	return m.inTurn(ctx, caller, false, f)
}

// inTurn calls f when no other call of the caller is in f. If isLarge is true, it also waits until
// no other large f runs. It fails with ctx's error if ctx ends first.
func (m *Memory) inTurn(ctx context.Context, caller string, isLarge bool, f func() error) error {
	t := m.turnOf(caller)
	defer m.releaseTurn(caller, t)
	enter := func(c chan struct{}) (leave func()) {
		select {
		case c <- struct{}{}:
			return func() { <-c }
		case <-ctx.Done():
			return func() {}
		}
	}
	defer enter(t.taken)()
	if isLarge {
		defer enter(m.parsing)()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return f()
}

// turnOf adds one to the turn's users. Call releaseTurn afterwards.
func (m *Memory) turnOf(caller string) *turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.turns[caller]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		m.turns[caller] = t
	}
	t.users++
	return t
}

// releaseTurn ends one use of the turn, and deletes the turn after its last use.
func (m *Memory) releaseTurn(caller string, t *turn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(m.turns, caller)
	}
}
