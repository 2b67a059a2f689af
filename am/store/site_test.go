package store

import (
	"bytes"
	ordered "cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
	o.GroupTime = ordered.Or(o.GroupTime, time.Hour) // no group is divided by time
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

// commitAfter returns an Options.Write that calls f before each write. If f returns an error,
// nothing is written.
func commitAfter(f func() error) func(write func() error) error {
	return func(write func() error) error {
		if err := f(); err != nil {
			return err
		}
		return write()
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

// names lists the slivers that readers see.
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

// together commits the decisions as one group, in order, and returns the answers.
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
		for s.queue.len() != i+1 { // wait until the decision is queued
			time.Sleep(10 * time.Microsecond)
		}
	}
	close(release)
	all.Wait()
	return answers
}

var errNo = errors.New("no")

// holds returns the calendar.
func holds(v *View) (list []am.Hold, err error) {
	err = v.Calendar(func(h *am.Hold) bool { list = append(list, copyOf(h)); return true })
	return list, err
}

// copyOf returns a copy of h that stays valid after the view.
func copyOf(h *am.Hold) am.Hold {
	c := *h
	for _, s := range []*[]byte{&c.Sliver, &c.Component, &c.ComponentName, &c.Provider} {
		*s = bytes.Clone(*s)
	}
	c.Interfaces = slices.Clone(c.Interfaces)
	for i := range c.Interfaces {
		x := &c.Interfaces[i]
		x.Component, x.ComponentName = bytes.Clone(x.Component), bytes.Clone(x.ComponentName)
	}
	return c
}

// sameHolds are the options for the comparison of holds by value.
var sameHolds = cmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{})}

// calendar returns the calendar as readers see it.
func calendar(t testing.TB, s *Store) (list []am.Hold) {
	t.Helper()
	err := s.Read(func(v *View) (err error) { list, err = holds(v); return err })
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func consistent(t testing.TB, s *Store) {
	t.Helper()
	if err := inconsistency(s); err != nil {
		t.Error(err)
	}
}

// inconsistency compares the indexes and the calendar of a store with its records.
func inconsistency(s *Store) error {
	return s.db.read(func(r reader) error {
		want := map[string]bool{}
		var held []am.Hold
		v := &View{r: r}
		err := v.Slivers(func(x am.Sliver) bool {
			id := x.URN.Key()
			want[bySlice+string(sliceIndexKey(x.Slice.Key(), id))] = true
			if mayExpire(&x) {
				want[byExpiry+string(expiryKey(x.Expires, id))] = true
			}
			h := am.HoldOf(&x)
			if h.Until.Year() > 2261 { // the calendar stores no later times
				h.Until = time.Unix(0, math.MaxInt64)
			}
			held = append(held, h)
			return true
		})
		if err != nil {
			return err
		}
		list, err := holds(v)
		if err != nil {
			return err
		}
		slices.SortFunc(held, func(a, b am.Hold) int {
			return ordered.Or(bytes.Compare(a.Component, b.Component), a.From.Compare(b.From), bytes.Compare(a.Sliver, b.Sliver))
		})
		if diff := cmp.Diff(held, list, sameHolds); diff != "" {
			err = fmt.Errorf("the calendar differs from the slivers: -slivers +calendar\n%s", diff)
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
