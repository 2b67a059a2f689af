package service

import (
	"context"
	"strings"
	"sync"

	"patchbay/am"
	"patchbay/am/budget"
	"patchbay/am/store"
	"patchbay/credentials"
	"patchbay/rspec"
)

// Memory is the memory of what calls have parsed: requests, the stored ones that a
// manifest is made of, and records of slivers. It is one budget for the site. All
// methods may be called at the same time.
type Memory struct {
	limits  rspec.Limits
	largest int64
	budget  *budget.Budget
	// parsing has room for the large requests that are being parsed, for that takes
	// several times the memory of the result.
	parsing chan struct{}

	mu sync.Mutex
	// turns are those of callers who parse: each has one request parsed at a time.
	turns map[string]*turn
}

// turn is a caller's to parse.
type turn struct {
	taken chan struct{} // has a value while the caller has a request parsed
	users int           // calls that have it or wait for it
}

// What a parsed request takes at most: measured on documents full of elements, of
// attributes, of text and of nodes. A record takes less.
const (
	memoryPerByte    = 10
	memoryPerElement = 300
)

// memoryFree is how many times an amount must be left free, up to the budget's reserve:
// who takes much is refused long before those who take little.
const memoryFree = 4

// Memory is the site's. Callers hold what they parse themselves.
func (s *Service) Memory() *Memory { return s.memory }

// newMemory makes a budget of twice the largest request that limits allow. One caller
// may have that request and its slivers, which count for half of it at most. A quarter
// of the budget is its reserve, so that is always left to others.
func newMemory(limits rspec.Limits) *Memory {
	size, elements := limits.OfSlice()
	largest := memoryOf(size, elements)
	return &Memory{
		limits: limits, largest: largest, budget: budget.New(2*largest, largest+largest/2),
		parsing: make(chan struct{}, 1), turns: map[string]*turn{},
	}
}

func memoryOf(size, elements int) int64 {
	return memoryPerByte*int64(size) + memoryPerElement*int64(elements)
}

// Hold reserves the memory for the records of the slivers that targets name, before
// they are read. The caller calls release when the answer is made.
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
	return s.memory.hold(g.Caller().Key(), min(memoryOf(size, 0), s.memory.largest/2))
}

// Hold reserves the memory for requests of so many bytes and elements together, before
// they are parsed. The caller calls release when they are no longer used.
//
// Errors: ServerBusy, when the caller or all callers have too much already.
func (m *Memory) Hold(caller string, size, elements int) (release func(), err error) {
	return m.hold(caller, min(memoryOf(size, elements), m.largest)) // a slice of an earlier version may have more
}

func (m *Memory) hold(caller string, n int64) (release func(), err error) {
	if !m.budget.Take(caller, n, min(memoryFree*n, m.budget.Reserve())) {
		return nil, am.Errorf(am.ServerBusy, "too many large requests are being worked on, yours or others'; try again later")
	}
	return func() { m.budget.Give(caller, n) }, nil
}

// HoldText is Hold for a request that was not parsed before.
func (m *Memory) HoldText(caller, text string) (release func(), err error) {
	size, elements := m.limits.OfSlice() // what is beyond is refused before it is parsed
	return m.Hold(caller, min(size, len(text)), min(elements, strings.Count(text, "<")))
}

// Parse is rspec.ParseRequest. It waits until no other request of the caller is being
// parsed and, for a large one, no other large one at all, or until ctx ends, which is
// then the error.
func (m *Memory) Parse(ctx context.Context, caller string, text []byte, o rspec.ReadOptions) (*rspec.Request, error) {
	t := m.turnOf(caller)
	defer m.leave(caller, t)
	enter := func(c chan struct{}) (leave func()) {
		select {
		case c <- struct{}{}:
			return func() { <-c }
		case <-ctx.Done():
			return func() {}
		}
	}
	defer enter(t.taken)()
	if len(text) >= rspec.Large {
		defer enter(m.parsing)()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return rspec.ParseRequest(text, o)
}

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

func (m *Memory) leave(caller string, t *turn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(m.turns, caller)
	}
}
