package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// plain is a reader over a map; keys are bucket/key.
type plain map[string][]byte

func (p plain) Get(bucket string, key []byte) []byte { return p[bucket+"/"+string(key)] }

func (p plain) Scan(bucket string, prefix, from []byte, f func(k, v []byte) bool) {
	for _, k := range slices.Sorted(maps.Keys(p)) {
		if key, ok := strings.CutPrefix(k, bucket+"/"); ok && strings.HasPrefix(key, string(prefix)) && key >= string(from) && !f([]byte(key), p[k]) {
			return
		}
	}
}

func (p plain) apply(ops []Op) {
	for _, o := range ops {
		if o.Value == nil {
			delete(p, o.Bucket+"/"+string(o.Key))
		} else {
			p[o.Bucket+"/"+string(o.Key)] = o.Value
		}
	}
}

// TestOverlay compares an overlay with a map to which everything was applied.
func TestOverlay(t *testing.T) {
	ops := func(t *rapid.T, label string) []Op {
		key := rapid.SampledFrom([]string{"a", "aa", "a\x00", "ab", "b", "ba", "c", "\xff", "\xff\xff"})
		value := rapid.SampledFrom([][]byte{nil, {}, []byte("1"), []byte("2")})
		list := make([]Op, rapid.IntRange(0, 8).Draw(t, label))
		for i := range list {
			list[i] = Op{rapid.SampledFrom([]string{"x", "y"}).Draw(t, "bucket"), []byte(key.Draw(t, "key")), value.Draw(t, "value")}
		}
		return list
	}
	rapid.Check(t, func(t *rapid.T) {
		base := plain{}
		base.apply(ops(t, "base"))
		want := maps.Clone(base)
		o := newOverlay(base)
		for range 3 {
			staged := ops(t, "staged")
			o.stage(staged)
			want.apply(staged)
		}
		for _, bucket := range []string{"x", "y", "none"} {
			for _, prefix := range []string{"", "a", "aa", "\xff", "d"} {
				for n, limit := range []int{0, 1, 2, 99} {
					from := []string{"", "b", "aa", prefix}[n]
					list := func(r Reader) (all []string) {
						r.Scan(bucket, []byte(prefix), []byte(from), func(k, v []byte) bool {
							all = append(all, fmt.Sprintf("%q=%q", k, v))
							return len(all) <= limit
						})
						return all
					}
					if got, model := list(o), list(want); !slices.Equal(got, model) {
						t.Fatalf("%s %q: %v, by the model %v", bucket, prefix, got, model)
					}
				}
			}
			for _, k := range []string{"a", "aa", "b", "c", "\xff"} {
				got, model := o.Get(bucket, []byte(k)), want.Get(bucket, []byte(k))
				if string(got) != string(model) || (got == nil) != (model == nil) {
					t.Fatalf("%s/%q is %v, by the model %v", bucket, k, got, model)
				}
			}
		}
	})
}
