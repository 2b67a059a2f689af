package store

import (
	"bytes"
	"slices"
	"strings"
)

// overlay is a reader that shows a base with staged operations on top. A nil
// value in staged is a deletion.
type overlay struct {
	base   Reader
	staged map[string]map[string][]byte
	ops    []Op
}

func newOverlay(base Reader) *overlay {
	return &overlay{base: base, staged: map[string]map[string][]byte{}}
}

// stage lays operations over the base.
func (o *overlay) stage(ops []Op) {
	for _, p := range ops {
		m := o.staged[p.Bucket]
		if m == nil {
			m = map[string][]byte{}
			o.staged[p.Bucket] = m
		}
		m[string(p.Key)] = p.Value
	}
	o.ops = append(o.ops, ops...)
}

func (o *overlay) Get(bucket string, key []byte) []byte {
	if v, ok := o.staged[bucket][string(key)]; ok {
		return v
	}
	return o.base.Get(bucket, key)
}

// Scan merges the base with the staged keys, in order.
func (o *overlay) Scan(bucket string, prefix, from []byte, f func(k, v []byte) bool) {
	m := o.staged[bucket]
	var keys []string
	for k := range m {
		if strings.HasPrefix(k, string(prefix)) && k >= string(from) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	more := true
	// emit passes staged keys before limit on; a nil limit passes all.
	emit := func(limit []byte) {
		for more && len(keys) > 0 && (limit == nil || keys[0] < string(limit)) {
			k := keys[0]
			keys = keys[1:]
			if v := m[k]; v != nil {
				more = f([]byte(k), v)
			}
		}
	}
	o.base.Scan(bucket, prefix, from, func(k, v []byte) bool {
		emit(k)
		if more && len(keys) > 0 && keys[0] == string(k) {
			emit(append(bytes.Clone(k), 0))
			return more
		}
		if more {
			more = f(k, v)
		}
		return more
	})
	emit(nil)
}
