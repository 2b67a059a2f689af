package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"patchbay/am/store"
)

// bucket is one that stores have, other is, too.
const (
	bucket = string(store.Slices)
	other  = string(store.Tasks)
)

func set(k, v string) store.Op { return store.Op{Bucket: bucket, Key: []byte(k), Value: []byte(v)} }

func unset(k string) store.Op { return store.Op{Bucket: bucket, Key: []byte(k)} }

// list reads up to limit pairs, each key=value.
func list(r store.Reader, prefix, from string, limit int) (pairs []string) {
	r.Scan(bucket, []byte(prefix), []byte(from), func(k, v []byte) bool {
		pairs = append(pairs, string(k)+"="+string(v))
		return len(pairs) < limit
	})
	return pairs
}

// all is what an engine has in the bucket.
func all(e store.Engine) (pairs []string, err error) {
	err = e.View(func(r store.Reader) error { pairs = list(r, "", "", 1<<30); return nil })
	return pairs, err
}

// has compares all that an engine has with what it should.
func has(e store.Engine, want ...string) error {
	got, err := all(e)
	if err != nil {
		return err
	}
	return same(got, want)
}

func same(got, want []string) error {
	if !slices.Equal(got, want) {
		return fmt.Errorf("there is %.200q, want %.200q", got, want)
	}
	return nil
}

func order(e store.Engine) error {
	if err := e.Apply([]store.Op{set("b", "2"), set("a\x00z", "1"), set("a", "0"), set("b\xff", "3"), set("c", ""), set("B", "9")}); err != nil {
		return err
	}
	if err := e.Apply([]store.Op{set("aa", "4")}); err != nil {
		return err
	}
	return has(e, "B=9", "a=0", "a\x00z=1", "aa=4", "b=2", "b\xff=3", "c=")
}

func scans(e store.Engine) error {
	if err := e.Apply([]store.Op{set("a", ""), set("b1", ""), set("b2", ""), set("b3", ""), set("c", "")}); err != nil {
		return err
	}
	return e.View(func(r store.Reader) error {
		for _, t := range []struct {
			prefix, from string
			limit        int
			want         []string
		}{
			{"", "", 9, []string{"a=", "b1=", "b2=", "b3=", "c="}},
			{"b", "", 9, []string{"b1=", "b2=", "b3="}},
			{"b", "", 2, []string{"b1=", "b2="}},
			{"b", "b2", 9, []string{"b2=", "b3="}},
			{"b", "b2\x00", 9, []string{"b3="}},
			{"b", "a", 9, []string{"b1=", "b2=", "b3="}},
			{"b", "c", 9, nil},
			{"", "b3", 9, []string{"b3=", "c="}},
			{"", "d", 9, nil},
			{"b1", "", 9, []string{"b1="}},
			{"x", "", 9, nil},
		} {
			if err := same(list(r, t.prefix, t.from, t.limit), t.want); err != nil {
				return fmt.Errorf("prefix %q, from %q, limit %d: %w", t.prefix, t.from, t.limit, err)
			}
		}
		return nil
	})
}

func bucketsApart(e store.Engine) error {
	if err := e.Apply([]store.Op{set("k", "1"), {Bucket: other, Key: []byte("k"), Value: []byte("2")}, {Bucket: other, Key: []byte("l"), Value: []byte("3")}}); err != nil {
		return err
	}
	if err := e.Apply([]store.Op{{Bucket: "nothing was put here", Key: []byte("k")}, {Bucket: "a new one", Key: []byte("k"), Value: []byte("4")}}); err != nil {
		return err
	}
	err := e.View(func(r store.Reader) error {
		for in, want := range map[string]string{bucket: "1", other: "2", "a new one": "4"} {
			if v := r.Get(in, []byte("k")); string(v) != want {
				return fmt.Errorf("k of bucket %s is %q", in, v)
			}
		}
		const none = "nothing is ever put here"
		if v := r.Get(none, []byte("k")); v != nil {
			return fmt.Errorf("a bucket without keys has %q", v)
		}
		var err error
		r.Scan(none, nil, nil, func(k, _ []byte) bool { err = fmt.Errorf("a bucket without keys shows %q", k); return false })
		return err
	})
	return errors.Join(err, has(e, "k=1"))
}

func absent(e store.Engine) error {
	if err := e.Apply([]store.Op{set("a", "1"), set("empty", ""), set("c", "2")}); err != nil {
		return err
	}
	return e.View(func(r store.Reader) error {
		if v := r.Get(bucket, []byte("a")); string(v) != "1" {
			return fmt.Errorf("a is %q", v)
		}
		if v := r.Get(bucket, []byte("empty")); v == nil || len(v) != 0 {
			return fmt.Errorf("an empty value is %#v", v)
		}
		for _, k := range []string{"b", "", "a\x00", "em", "emptyy"} {
			if v := r.Get(bucket, []byte(k)); v != nil {
				return fmt.Errorf("the absent key %q has %#v", k, v)
			}
		}
		return nil
	})
}

func everyByte(e store.Engine) error {
	var ops []store.Op
	var want []string
	for b := range 256 {
		ops = append(ops, set(string([]byte{byte(255 - b)}), "x"), set(string([]byte{'k', byte(255 - b), 'k'}), string([]byte{0, byte(b)})))
	}
	for b := range 256 {
		want = append(want, string([]byte{byte(b)})+"=x")
		if b == 'k' {
			for c := range 256 {
				want = append(want, string([]byte{'k', byte(c), 'k', '=', 0, byte(255 - c)}))
			}
		}
	}
	if err := e.Apply(ops); err != nil {
		return err
	}
	return has(e, want...)
}

func longKeys(e store.Engine) error {
	long := bytes.Repeat([]byte("k"), store.MaxKey-1)
	a, b := string(long)+"a", string(long)+"b"
	if err := e.Apply([]store.Op{set(b, "2"), set(a, "1")}); err != nil {
		return err
	}
	if err := has(e, a+"=1", b+"=2"); err != nil {
		return err
	}
	if err := e.Apply([]store.Op{set(b+"c", "3")}); err == nil {
		return errors.New("a key of more than store.MaxKey bytes was taken")
	}
	return has(e, a+"=1", b+"=2")
}

func largeValues(e store.Engine) error {
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // 16 MiB
	if err := e.Apply([]store.Op{set("a", "1"), {Bucket: bucket, Key: []byte("b"), Value: large}, set("c", "2")}); err != nil {
		return err
	}
	err := e.View(func(r store.Reader) error {
		if got := r.Get(bucket, []byte("b")); !bytes.Equal(got, large) {
			return fmt.Errorf("a value of %d bytes is another one, of %d", len(large), len(got))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := e.Apply([]store.Op{set("b", "small")}); err != nil {
		return err
	}
	return has(e, "a=1", "b=small", "c=2")
}

func manyKeys(e store.Engine) error {
	const n = 20000
	var ops []store.Op
	for i := range n {
		k := (i * 7919) % n // each once, in no order
		ops = append(ops, set(fmt.Sprintf("%06d", k), fmt.Sprint(k)))
	}
	if err := e.Apply(ops); err != nil {
		return err
	}
	ops = ops[:0]
	var want []string
	for i := range n {
		if i%3 == 0 {
			ops = append(ops, unset(fmt.Sprintf("%06d", i)))
		} else {
			want = append(want, fmt.Sprintf("%06d=%d", i, i))
		}
	}
	if err := e.Apply(ops); err != nil {
		return err
	}
	return has(e, want...)
}
