package store

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testEngine is what every engine behind the door must do. open opens the same
// engine each time it is called; the last one is closed.
func testEngine(t *testing.T, open func(t *testing.T) engine) {
	scan := func(t *testing.T, e engine, prefix string, limit int) (keys []string) {
		t.Helper()
		err := e.View(func(r reader) error {
			r.Scan(bySlice, []byte(prefix), func(k, v []byte) bool {
				keys = append(keys, string(k)+"="+string(v))
				return len(keys) < limit
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	e := open(t)
	apply := func(t *testing.T, ops ...op) {
		t.Helper()
		if err := e.Apply(ops); err != nil {
			t.Fatal(err)
		}
	}
	set := func(k, v string) op { return op{bySlice, []byte(k), []byte(v)} }
	unset := func(k string) op { return op{bySlice, []byte(k), nil} }

	t.Run("scans in the order of keys", func(t *testing.T) {
		apply(t, set("b", "2"), set("a\x00z", "1"), set("a", "0"), set("b\xff", "3"), set("c", ""))
		if diff := cmp.Diff([]string{"a=0", "a\x00z=1", "b=2", "b\xff=3", "c="}, scan(t, e, "", 99)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("scans a prefix and stops when told", func(t *testing.T) {
		if diff := cmp.Diff([]string{"b=2", "b\xff=3"}, scan(t, e, "b", 99)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"b=2"}, scan(t, e, "b", 1)); diff != "" {
			t.Error(diff)
		}
		if got := scan(t, e, "x", 99); got != nil {
			t.Errorf("a prefix of nothing has %q", got)
		}
	})
	t.Run("gets what is there, nil for what is not", func(t *testing.T) {
		err := e.View(func(r reader) error {
			if v := r.Get(bySlice, []byte("b")); string(v) != "2" {
				return fmt.Errorf("b is %q", v)
			}
			if v := r.Get(bySlice, []byte("c")); v == nil || len(v) != 0 {
				return fmt.Errorf("an empty value is %v", v)
			}
			if v := r.Get(bySlice, []byte("nothing")); v != nil {
				return fmt.Errorf("an absent value is %v", v)
			}
			if v := r.Get(byExpiry, []byte("b")); v != nil {
				return fmt.Errorf("another bucket has %v", v)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("applies in order", func(t *testing.T) {
		apply(t, set("o", "1"), unset("o"), set("o", "2"), set("p", "1"), unset("p"), unset("absent"))
		if diff := cmp.Diff([]string{"o=2"}, append(scan(t, e, "o", 9), scan(t, e, "p", 9)...)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("applies all or nothing", func(t *testing.T) {
		before := scan(t, e, "", 99)
		if err := e.Apply([]op{set("half", "1"), unset("a"), set("", "no key"), set("more", "1")}); err == nil {
			t.Fatal("an empty key was taken")
		}
		if diff := cmp.Diff(before, scan(t, e, "", 99)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a view stays as it was", func(t *testing.T) {
		err := e.View(func(r reader) error {
			done := make(chan error)
			go func() { done <- e.Apply([]op{set("a", "new")}) }()
			if err := <-done; err != nil {
				return err
			}
			if v := r.Get(bySlice, []byte("a")); string(v) != "0" {
				return fmt.Errorf("a became %q within the view", v)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("hands an error of the view on", func(t *testing.T) {
		if err := e.View(func(reader) error { return errNo }); !errors.Is(err, errNo) {
			t.Error(err)
		}
	})
	t.Run("keeps large values, and all over a restart", func(t *testing.T) {
		large := bytes.Repeat([]byte("x"), 3<<20)
		apply(t, op{string(Documents), []byte("d"), large})
		before := scan(t, e, "", 99)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e = open(t)
		defer e.Close()
		if diff := cmp.Diff(before, scan(t, e, "", 99)); diff != "" {
			t.Error(diff)
		}
		err := e.View(func(r reader) error {
			if !bytes.Equal(r.Get(string(Documents), []byte("d")), large) {
				return errors.New("the large value is another")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestEngines(t *testing.T) {
	bolt := func(t *testing.T) func(*testing.T) engine {
		path := filepath.Join(t.TempDir(), "store.db")
		return func(t *testing.T) engine {
			e, err := openBolt(path)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
	}
	t.Run("bolt", func(t *testing.T) { testEngine(t, bolt(t)) })
	t.Run("faulty, without a fault", func(t *testing.T) {
		open := bolt(t)
		testEngine(t, func(t *testing.T) engine { return faulty{open(t), func() error { return nil }} })
	})
}
