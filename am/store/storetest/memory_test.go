package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// TestTree compares the tree with a plain map, and looks whether old trees stay.
func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringOfN(rapid.RuneFrom([]rune("ab\x00\xff")), 1, 5, -1)
		var tree *node
		plain := map[string]string{}
		read := func(n *node, prefix, from string) (out []string) {
			n.scan(prefix, max(prefix, from), func(k, v []byte) bool { out = append(out, string(k)+"="+string(v)); return true })
			return out
		}
		for i := range rapid.IntRange(0, 60).Draw(t, "steps") {
			was, k := read(tree, "", ""), key.Draw(t, "key")
			old := tree
			if rapid.IntRange(0, 2).Draw(t, "what") == 0 {
				tree = tree.without(k)
				delete(plain, k)
			} else {
				tree = tree.with(k, []byte(fmt.Sprint(i)))
				plain[k] = fmt.Sprint(i)
			}
			if now := read(old, "", ""); !slices.Equal(was, now) {
				t.Fatalf("an old tree became %q; was %q", now, was)
			}
			prefix, from := key.Draw(t, "prefix")[:1], key.Draw(t, "from")
			var want []string
			for _, k := range slices.Sorted(maps.Keys(plain)) {
				if strings.HasPrefix(k, prefix) && k >= from {
					want = append(want, k+"="+plain[k])
				}
			}
			if got := read(tree, prefix, from); !slices.Equal(got, want) {
				t.Fatalf("prefix %q from %q: %q, want %q", prefix, from, got, want)
			}
			if v, ok := plain[k]; ok != (tree.get(k) != nil) || string(tree.get(k)) != v {
				t.Fatalf("%q is %q, want %q", k, tree.get(k), v)
			}
		}
	})
}

// TestMemoryIsTold: what an engine was told to do is what a store over it meets.
func TestMemoryIsTold(t *testing.T) {
	slice := func(name string) urn.URN {
		return urn.URN{Authority: "example.org", Type: urn.Slice, Name: name}
	}
	put := func(s *store.Store, name string) error {
		return s.Commit(t.Context(), func(*store.View) (cs store.ChangeSet, err error) {
			cs.PutSlice(am.Slice{URN: slice(name)})
			return cs, nil
		})
	}
	for _, tt := range []struct {
		name  string
		tell  Outcome
		blind bool
		// next says whether the store goes on, after whether what failed lasts.
		next, after bool
	}{
		{"refused", Refused, false, true, false},
		{"late", Late, false, false, true},
		{"nobody knows", Refused, true, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m Memory
			e, err := m.Open()
			if err != nil {
				t.Fatal(err)
			}
			s, err := store.New(e, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := put(s, "before"); err != nil {
				t.Fatal(err)
			}
			m.OnApply(func([]store.Op) Outcome {
				if tt.blind {
					m.OnView(func() error { return ErrTold })
				}
				return tt.tell
			})
			if err := put(s, "it"); !errors.Is(err, store.ErrNotCommitted) || !errors.Is(err, ErrTold) {
				t.Errorf("it: %v", err)
			}
			m.OnApply(nil)
			m.OnView(nil)
			if err := put(s, "next"); (err == nil) != tt.next {
				t.Errorf("next: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if e, err = m.Open(); err != nil {
				t.Fatal(err)
			}
			if s, err = store.New(e, store.Options{}); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			err = s.Read(func(v *store.View) error {
				if _, _, err := v.Slice(slice("it")); (err == nil) != tt.after {
					t.Errorf("after a restart: %v", err)
				}
				_, _, err := v.Slice(slice("before"))
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMemoryWaits: an Apply takes as long as it is told, and views go on.
func TestMemoryWaits(t *testing.T) {
	var m Memory
	e, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	begun, end := make(chan struct{}), make(chan struct{})
	m.OnApply(func([]store.Op) Outcome { close(begun); <-end; return Done })
	done := make(chan error, 1)
	go func() { done <- e.Apply([]store.Op{set("a", "1")}) }()
	<-begun
	if err := has(e); err != nil {
		t.Error(err)
	}
	close(end)
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for ever")
	}
	if err := has(e, "a=1"); err != nil {
		t.Error(err)
	}
}
