package storetest

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	"patchbay/am/store"
)

// Outcome is what becomes of an Apply.
type Outcome int

// Outcomes.
const (
	// Done happens and says so.
	Done Outcome = iota
	// Refused does not happen and says so.
	Refused
	// Late happens, and is said to have failed.
	Late
)

// ErrTold is wrapped by what Memory was told to fail.
var ErrTold = errors.New("the engine was told to fail")

// Memory is a place in memory. The zero value is empty and does what it should.
// All methods may be called at the same time.
type Memory struct {
	mu      sync.Mutex
	buckets map[string]*node // never changed: an Apply makes another
	open    *memoryEngine    // nil while nobody has it open
	apply   func([]store.Op) Outcome
	view    func() error
}

// OnApply has f say what becomes of each Apply from now on; it may wait, too. nil
// lets all happen.
func (m *Memory) OnApply(f func([]store.Op) Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.apply = f
}

// OnView has f be asked before each View, which fails with its error. nil lets all
// happen.
func (m *Memory) OnView(f func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.view = f
}

// Open opens the engine, unless somebody has it open.
func (m *Memory) Open() (store.Engine, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open != nil {
		return nil, store.ErrLocked
	}
	m.open = &memoryEngine{place: m}
	return m.open, nil
}

// Crash gives a place with what is here, that does what it should.
func (m *Memory) Crash() (Place, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{buckets: m.buckets}, nil
}

// memoryEngine is a Memory that is open.
type memoryEngine struct {
	place   *Memory
	writing sync.Mutex     // held by Apply
	views   sync.WaitGroup // guarded against Close by place.mu
}

var errClosed = errors.New("the engine is closed")

// now is what is there, and the function to ask.
func (e *memoryEngine) View(f func(store.Reader) error) error {
	m := e.place
	m.mu.Lock()
	if m.open != e {
		m.mu.Unlock()
		return errClosed
	}
	r, ask := memoryReader(m.buckets), m.view
	e.views.Add(1)
	m.mu.Unlock()
	defer e.views.Done()
	if ask != nil {
		if err := ask(); err != nil {
			return err
		}
	}
	return f(r)
}

func (e *memoryEngine) Apply(ops []store.Op) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	m := e.place
	m.mu.Lock()
	ask := m.apply
	m.mu.Unlock()
	outcome := Done
	if ask != nil {
		outcome = ask(ops)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open != e {
		return errClosed
	}
	if outcome == Refused {
		return fmt.Errorf("%w, and has changed nothing", ErrTold)
	}
	after := maps.Clone(m.buckets)
	if after == nil {
		after = map[string]*node{}
	}
	for _, o := range ops {
		switch k := string(o.Key); {
		case k == "" || len(k) > store.MaxKey:
			return fmt.Errorf("a key has %d bytes", len(k))
		case o.Value == nil:
			after[o.Bucket] = after[o.Bucket].without(k)
		default:
			after[o.Bucket] = after[o.Bucket].with(k, append([]byte{}, o.Value...))
		}
	}
	m.buckets = after
	if outcome == Late {
		return fmt.Errorf("%w, and yet has done it", ErrTold)
	}
	return nil
}

func (e *memoryEngine) Close() error {
	m := e.place
	m.mu.Lock()
	if m.open == e {
		m.open = nil
	}
	m.mu.Unlock()
	e.views.Wait()
	return nil
}

type memoryReader map[string]*node

func (r memoryReader) Get(bucket string, key []byte) []byte { return r[bucket].get(string(key)) }

func (r memoryReader) Scan(bucket string, prefix, from []byte, f func(k, v []byte) bool) {
	r[bucket].scan(string(prefix), max(string(prefix), string(from)), f)
}
