package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"patchbay/am"
	"patchbay/am/urn"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func at() time.Time { return noon }

func sliceURN(name string) urn.URN {
	return urn.URN{Authority: "example.org", Type: urn.Slice, Name: name}
}

func sliverURN(name string) urn.URN {
	return urn.URN{Authority: "example.org", Type: urn.Sliver, Name: name}
}

func componentURN(name string) urn.URN {
	return urn.URN{Authority: "example.org", Type: urn.Node, Name: name}
}

// sliver is an allocated sliver that expires some minutes after noon.
func sliver(name, slice string, minutes int) am.Sliver {
	return am.Sliver{
		URN:       sliverURN(name),
		Slice:     sliceURN(slice),
		Component: componentURN("pc-" + name),
		Status:    am.Status{Allocation: am.Allocated, Operational: am.PendingAllocation},
		Expires:   noon.Add(time.Duration(minutes) * time.Minute),
	}
}

// open opens a store in a folder of its own, closed with the test.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Now == nil {
		o.Now = at
	}
	o.GroupTime = cmp.Or(o.GroupTime, time.Hour) // groups are what a test makes them
	s, err := Open(filepath.Join(t.TempDir(), "store.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// isClosed reports whether Close was called.
func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// commitAfter has f asked before each commit of a transaction; its error is the commit's.
func commitAfter(f func() error) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		if err := f(); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}
}

// put is a decision that puts slivers.
func put(slivers ...am.Sliver) Decision {
	return func(*View) (ChangeSet, error) {
		var cs ChangeSet
		for _, s := range slivers {
			cs.PutSliver(s)
		}
		return cs, nil
	}
}

func commit(t testing.TB, s *Store, d Decision) {
	t.Helper()
	if err := s.Commit(context.Background(), d); err != nil {
		t.Fatal(err)
	}
}

// names lists what is published.
func names(t testing.TB, s *Store) []string {
	t.Helper()
	all, err := s.Slivers()
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, x := range all {
		list = append(list, x.URN.Name)
	}
	return list
}

// together makes one group of the decisions, in order, and gives the answers.
func together(t testing.TB, s *Store, ctx context.Context, decisions ...Decision) []error {
	t.Helper()
	busy, release := make(chan struct{}), make(chan struct{})
	answers := make([]error, len(decisions))
	var all sync.WaitGroup
	all.Go(func() {
		_ = s.Commit(context.Background(), func(*View) (ChangeSet, error) {
			close(busy)
			<-release
			return ChangeSet{}, errNo
		})
	})
	<-busy
	for i, d := range decisions {
		all.Go(func() { answers[i] = s.Commit(ctx, d) })
		for s.queue.len() != i+1 { // it is only a moment until it stands in the queue
			time.Sleep(10 * time.Microsecond)
		}
	}
	close(release)
	all.Wait()
	return answers
}

var errNo = errors.New("no")

// watch is an observer that keeps what it is told.
type watch struct {
	mu                sync.Mutex
	staged, published map[Key]any
	publishes         int
	rollbacks         int
}

func newWatch() *watch { return &watch{staged: map[Key]any{}, published: map[Key]any{}} }

func (w *watch) Stage(cs ChangeSet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range cs.Delete {
		delete(w.staged, k)
	}
	for _, r := range cs.Put {
		if r.Key.Kind == Slivers {
			w.staged[r.Key] = r.Value
		}
	}
}

func (w *watch) Publish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.publishes++
	w.published = map[Key]any{}
	for k, v := range w.staged {
		w.published[k] = v
	}
}

func (w *watch) Rollback() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rollbacks++
	w.staged = map[Key]any{}
	for k, v := range w.published {
		w.staged[k] = v
	}
}

func consistent(t testing.TB, s *Store) {
	t.Helper()
	if err := inconsistency(s); err != nil {
		t.Error(err)
	}
}

// inconsistency compares the indexes of a store with its records.
func inconsistency(s *Store) error {
	return s.db.read(func(r reader) error {
		want := map[string]bool{}
		v := &View{r: r}
		err := v.Slivers(func(x am.Sliver) bool {
			id := x.URN.Key()
			want[bySlice+string(sliceIndexKey(x.Slice.Key(), id))] = true
			if mayExpire(&x) {
				want[byExpiry+string(expiryKey(x.Expires, id))] = true
			}
			return true
		})
		if err != nil {
			return err
		}
		for _, bucket := range []string{bySlice, byExpiry} {
			r.scan(bucket, nil, nil, func(k, _ []byte) bool {
				if !want[bucket+string(k)] {
					err = errors.Join(err, fmt.Errorf("%s has %q without a record", bucket, k))
				}
				delete(want, bucket+string(k))
				return true
			})
		}
		for k := range want {
			err = errors.Join(err, fmt.Errorf("a record lacks %q", k))
		}
		return err
	})
}
