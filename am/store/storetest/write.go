package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"patchbay/am/store"
)

func inOrder(e store.Engine) error {
	if err := e.Apply(nil); err != nil {
		return fmt.Errorf("nothing to do: %w", err)
	}
	for _, ops := range [][]store.Op{
		{set("o", "1"), unset("o"), set("o", "2"), set("p", "1"), unset("p"), set("q", "1"), set("q", "2"), unset("absent")},
		{unset("o"), unset("o")},
		{set("o", "3"), unset("q"), set("q", "3")},
	} {
		if err := e.Apply(ops); err != nil {
			return err
		}
	}
	return has(e, "o=3", "q=3")
}

func wholly(e store.Engine) error {
	if err := e.Apply([]store.Op{set("a", "1"), set("b", "2")}); err != nil {
		return err
	}
	for _, bad := range []store.Op{set("", "no key"), unset(""), set(string(make([]byte, store.MaxKey+1)), "a long key")} {
		if err := e.Apply([]store.Op{set("half", "1"), unset("a"), bad, set("more", "1")}); err == nil {
			return fmt.Errorf("a key of %d bytes was taken", len(bad.Key))
		}
		if err := has(e, "a=1", "b=2"); err != nil {
			return fmt.Errorf("after an Apply that failed: %w", err)
		}
	}
	if err := e.Apply([]store.Op{set("c", "3")}); err != nil {
		return fmt.Errorf("after one that failed: %w", err)
	}
	return has(e, "a=1", "b=2", "c=3")
}

func ownBytes(e store.Engine) error {
	key, value := []byte("key"), []byte("value")
	if err := e.Apply([]store.Op{{Bucket: bucket, Key: key, Value: value}}); err != nil {
		return err
	}
	copy(key, "xxx")
	copy(value, "yyyyy")
	return has(e, "key=value")
}

// moment is how long an Apply gets to do harm to a view; it may have to wait for
// the view's end.
const moment = 100 * time.Millisecond

func isolated(e store.Engine) error {
	before := []string{"a=0", "b=0", "c=0"}
	if err := e.Apply([]store.Op{set("a", "0"), set("b", "0"), set("c", "0")}); err != nil {
		return err
	}
	applied := make(chan error, 1)
	err := e.View(func(r store.Reader) error {
		value := r.Get(bucket, []byte("a"))
		first := true
		var seen []string
		r.Scan(bucket, nil, nil, func(k, v []byte) bool {
			if first {
				first = false
				go func() {
					applied <- e.Apply([]store.Op{set("a", "1"), unset("b"), set("bb", "1"), set("c", "1"), set("d", "1")})
				}()
				select {
				case err := <-applied:
					applied <- err
				case <-time.After(moment):
				}
			}
			seen = append(seen, string(k)+"="+string(v))
			return true
		})
		if err := same(seen, before); err != nil {
			return fmt.Errorf("in the midst of a scan: %w", err)
		}
		if err := same(list(r, "", "", 99), before); err != nil {
			return fmt.Errorf("in a later scan: %w", err)
		}
		if v := r.Get(bucket, []byte("a")); string(v) != "0" || string(value) != "0" {
			return fmt.Errorf("within the view a became %q, and what was read of it %q", v, value)
		}
		return nil
	})
	if err := errors.Join(err, <-applied); err != nil {
		return err
	}
	return has(e, "a=1", "bb=1", "c=1", "d=1")
}

func consistent(e store.Engine) error {
	const rounds, readers = 100, 4
	if err := e.Apply([]store.Op{set("first", "0"), set("last", "0")}); err != nil {
		return err
	}
	stop := make(chan struct{})
	wrong := make(chan error, readers)
	var reading sync.WaitGroup
	for range readers {
		reading.Go(func() {
			last := ""
			for {
				err := e.View(func(r store.Reader) error {
					a, b := r.Get(bucket, []byte("first")), r.Get(bucket, []byte("last"))
					if !bytes.Equal(a, b) {
						return fmt.Errorf("half of an Apply shows: %q and %q", a, b)
					}
					if len(a) < len(last) || len(a) == len(last) && string(a) < last {
						return fmt.Errorf("after %s a view shows %s", last, a)
					}
					last = string(a)
					return nil
				})
				if err != nil {
					wrong <- err
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	var err error
	for i := 1; i <= rounds && err == nil; i++ {
		n := fmt.Sprint(i)
		ops := []store.Op{set("first", n)}
		for k := range 50 {
			ops = append(ops, set(fmt.Sprint("m", k), n))
		}
		if err = e.Apply(append(ops, set("last", n))); err == nil {
			err = e.View(func(r store.Reader) error {
				if v := r.Get(bucket, []byte("last")); string(v) != n {
					return fmt.Errorf("after %s was applied, a view shows %q", n, v)
				}
				return nil
			})
		}
	}
	close(stop)
	reading.Wait()
	close(wrong)
	return errors.Join(err, <-wrong)
}

func handsOn(e store.Engine) error {
	if err := e.Apply([]store.Op{set("a", "0")}); err != nil {
		return err
	}
	no := errors.New("no")
	if err := e.View(func(store.Reader) error { return no }); !errors.Is(err, no) {
		return fmt.Errorf("an error becomes %v", err)
	}
	var caught any
	func() {
		defer func() { caught = recover() }()
		_ = e.View(func(store.Reader) error { panic(no) })
	}()
	if caught != no {
		return fmt.Errorf("a panic becomes %v", caught)
	}
	// Neither holds up anything.
	if err := e.Apply([]store.Op{set("a", "1")}); err != nil {
		return err
	}
	return has(e, "a=1")
}
