package storetest

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"patchbay/am/store"
)

// twisted is an engine of a memory with parts replaced.
type twisted struct {
	store.Engine
	get   func(r store.Reader, bucket string, key []byte) []byte
	scan  func(r store.Reader, bucket string, prefix, from []byte, f func(k, v []byte) bool)
	apply func(ops []store.Op) error
	view  func(f func(store.Reader) error) error
	close func() error
}

func (e twisted) View(f func(store.Reader) error) error {
	if e.view != nil {
		return e.view(f)
	}
	return e.Engine.View(func(r store.Reader) error { return f(twistedReader{r, e}) })
}

func (e twisted) Apply(ops []store.Op) error {
	if e.apply != nil {
		return e.apply(ops)
	}
	return e.Engine.Apply(ops)
}

func (e twisted) Close() error {
	if e.close != nil {
		return e.close()
	}
	return e.Engine.Close()
}

type twistedReader struct {
	store.Reader
	e twisted
}

func (r twistedReader) Get(bucket string, key []byte) []byte {
	if r.e.get != nil {
		return r.e.get(r.Reader, bucket, key)
	}
	return r.Reader.Get(bucket, key)
}

func (r twistedReader) Scan(bucket string, prefix, from []byte, f func(k, v []byte) bool) {
	if r.e.scan != nil {
		r.e.scan(r.Reader, bucket, prefix, from, f)
		return
	}
	r.Reader.Scan(bucket, prefix, from, f)
}

// twistedPlace breaks what Memory opens, and leaves places after crashes alone
// unless crash says otherwise.
type twistedPlace struct {
	*Memory
	twist func(m *Memory, e store.Engine) store.Engine
	crash func(p *twistedPlace) Place
	again bool // may be opened twice
}

func (p *twistedPlace) Open() (store.Engine, error) {
	if p.again {
		p.mu.Lock()
		p.open = nil
		p.mu.Unlock()
	}
	e, err := p.Memory.Open()
	if err != nil {
		return nil, err
	}
	return p.twist(p.Memory, e), nil
}

func (p *twistedPlace) Crash() (Place, error) {
	if p.crash != nil {
		return p.crash(p), nil
	}
	return p.Memory.Crash()
}

// each is an engine whose operations are others.
func each(f func(store.Op) (store.Op, bool)) func(*Memory, store.Engine) store.Engine {
	return func(_ *Memory, e store.Engine) store.Engine {
		return twisted{Engine: e, apply: func(ops []store.Op) error {
			var out []store.Op
			for _, o := range ops {
				if o, ok := f(o); ok {
					out = append(out, o)
				}
			}
			return e.Apply(out)
		}}
	}
}

// pairs reads all of a scan.
func pairs(r store.Reader, bucket string, prefix, from []byte) (out [][2][]byte) {
	r.Scan(bucket, prefix, from, func(k, v []byte) bool { out = append(out, [2][]byte{k, v}); return true })
	return out
}

// brokenEngine breaks one rule.
type brokenEngine struct {
	name, rule string
	twist      func(m *Memory, e store.Engine) store.Engine
	place      twistedPlace
}

func brokenEngines() []brokenEngine {
	type makes = func(m *Memory, e store.Engine) store.Engine
	reads := func(w twisted) makes {
		return func(_ *Memory, e store.Engine) store.Engine { w.Engine = e; return w }
	}
	return []brokenEngine{
		{name: "scans backwards", rule: "keys are in the order of their bytes", twist: reads(twisted{
			scan: func(r store.Reader, b string, prefix, from []byte, f func(k, v []byte) bool) {
				for _, p := range slices.Backward(pairs(r, b, prefix, from)) {
					if !f(p[0], p[1]) {
						return
					}
				}
			}})},
		{name: "does not tell cases apart", rule: "keys are in the order of their bytes", twist: each(func(o store.Op) (store.Op, bool) {
			o.Key = bytes.ToLower(o.Key)
			return o, true
		})},
		{name: "ends keys at a zero", rule: "keys are in the order of their bytes", twist: each(func(o store.Op) (store.Op, bool) {
			o.Key, _, _ = bytes.Cut(o.Key, []byte{0})
			return o, true
		})},
		{name: "takes keys for text", rule: "a key may have every byte", twist: each(func(o store.Op) (store.Op, bool) {
			o.Key = bytes.ToValidUTF8(o.Key, []byte("?"))
			return o, true
		})},
		{name: "has no prefixes", rule: "a scan has a prefix, a beginning and an end", twist: reads(twisted{
			scan: func(r store.Reader, b string, prefix, from []byte, f func(k, v []byte) bool) {
				r.Scan(b, nil, slices.MaxFunc([][]byte{prefix, from}, bytes.Compare), f)
			}})},
		{name: "begins at the first", rule: "a scan has a prefix, a beginning and an end", twist: reads(twisted{
			scan: func(r store.Reader, b string, prefix, from []byte, f func(k, v []byte) bool) {
				r.Scan(b, prefix, nil, f)
			}})},
		{name: "begins after from", rule: "a scan has a prefix, a beginning and an end", twist: reads(twisted{
			scan: func(r store.Reader, b string, prefix, from []byte, f func(k, v []byte) bool) {
				r.Scan(b, prefix, from, func(k, v []byte) bool { return bytes.Equal(k, from) || f(k, v) })
			}})},
		{name: "does not stop", rule: "a scan has a prefix, a beginning and an end", twist: reads(twisted{
			scan: func(r store.Reader, b string, prefix, from []byte, f func(k, v []byte) bool) {
				for _, p := range pairs(r, b, prefix, from) {
					f(p[0], p[1])
				}
			}})},
		{name: "has one bucket", rule: "buckets are apart", twist: each(func(o store.Op) (store.Op, bool) { o.Bucket = bucket; return o, true })},
		{name: "panics without a bucket", rule: "buckets are apart", twist: reads(twisted{
			get: func(r store.Reader, b string, key []byte) []byte {
				if len(pairs(r, b, nil, nil)) == 0 {
					return []byte("what was in memory")
				}
				return r.Get(b, key)
			}})},
		{name: "has nil for empty", rule: "an absent key is nil, an empty value is not", twist: reads(twisted{
			get: func(r store.Reader, b string, key []byte) []byte {
				if v := r.Get(b, key); len(v) > 0 {
					return v
				}
				return nil
			}})},
		{name: "has empty for absent", rule: "an absent key is nil, an empty value is not", twist: reads(twisted{
			get: func(r store.Reader, b string, key []byte) []byte { return append([]byte{}, r.Get(b, key)...) }})},
		{name: "puts before it deletes", rule: "operations happen in order", twist: func(_ *Memory, e store.Engine) store.Engine {
			return twisted{Engine: e, apply: func(ops []store.Op) error {
				ops = slices.Clone(ops)
				slices.SortStableFunc(ops, func(a, b store.Op) int { return len(b.Value) - len(a.Value) })
				return e.Apply(ops)
			}}
		}},
		{name: "misses what it is to delete", rule: "operations happen in order", twist: func(_ *Memory, e store.Engine) store.Engine {
			return twisted{Engine: e, apply: func(ops []store.Op) error {
				for _, o := range ops {
					if string(o.Key) == "absent" {
						return errors.New("no such key")
					}
				}
				return e.Apply(ops)
			}}
		}},
		{name: "wants something to do", rule: "operations happen in order", twist: func(_ *Memory, e store.Engine) store.Engine {
			return twisted{Engine: e, apply: func(ops []store.Op) error {
				if len(ops) == 0 {
					return errors.New("nothing to do")
				}
				return e.Apply(ops)
			}}
		}},
		{name: "never deletes", rule: "operations happen in order", twist: each(func(o store.Op) (store.Op, bool) { return o, o.Value != nil })},
		{name: "stops where it fails", rule: "an Apply happens wholly or not at all", twist: func(_ *Memory, e store.Engine) store.Engine {
			return twisted{Engine: e, apply: func(ops []store.Op) error {
				for _, o := range ops {
					if err := e.Apply([]store.Op{o}); err != nil {
						return err
					}
				}
				return nil
			}}
		}},
		{name: "skips what it cannot do", rule: "an Apply happens wholly or not at all", twist: each(func(o store.Op) (store.Op, bool) { return o, len(o.Key) > 0 })},
		{name: "ends after an error", rule: "an Apply happens wholly or not at all", twist: func(_ *Memory, e store.Engine) store.Engine {
			var failed error
			return twisted{Engine: e, apply: func(ops []store.Op) error {
				if failed == nil {
					failed = e.Apply(ops)
				}
				return failed
			}}
		}},
		{name: "cuts keys", rule: "keys are long", twist: each(func(o store.Op) (store.Op, bool) {
			o.Key = o.Key[:min(len(o.Key), 1024)]
			return o, true
		})},
		{name: "cuts values", rule: "values are large", twist: each(func(o store.Op) (store.Op, bool) {
			if o.Value != nil {
				o.Value = o.Value[:min(len(o.Value), 1<<20)]
			}
			return o, true
		})},
		{name: "takes a thousand operations", rule: "keys are many", twist: func(_ *Memory, e store.Engine) store.Engine {
			return twisted{Engine: e, apply: func(ops []store.Op) error { return e.Apply(ops[:min(len(ops), 1000)]) }}
		}},
		{name: "keeps what it was given", rule: "nothing of the caller is kept", twist: func(_ *Memory, e store.Engine) store.Engine {
			var last []store.Op
			return twisted{Engine: e, apply: func(ops []store.Op) error { last = ops; return e.Apply(ops) },
				view: func(f func(store.Reader) error) error { _ = e.Apply(last); return e.View(f) }}
		}},
		{name: "shows what is now", rule: "a view stays as it was", twist: func(_ *Memory, e store.Engine) store.Engine {
			live := func(f func(store.Reader)) { _ = e.View(func(r store.Reader) error { f(r); return nil }) }
			return twisted{Engine: e,
				get: func(_ store.Reader, b string, key []byte) (v []byte) {
					live(func(r store.Reader) { v = r.Get(b, key) })
					return v
				},
				scan: func(_ store.Reader, b string, prefix, from []byte, f func(k, v []byte) bool) {
					live(func(r store.Reader) { r.Scan(b, prefix, from, f) })
				}}
		}},
		{name: "shows halves", rule: "a view sees all of an Apply or nothing", twist: func(_ *Memory, e store.Engine) store.Engine {
			var half atomic.Bool
			seen, shown := make(chan struct{}), false
			var once sync.Once
			return twisted{Engine: e,
				view: func(f func(store.Reader) error) error {
					if half.Load() {
						defer once.Do(func() { close(seen) })
					}
					return e.View(f)
				},
				apply: func(ops []store.Op) error {
					if len(ops) < 3 || shown {
						return e.Apply(ops)
					}
					if err := e.Apply(ops[:1]); err != nil {
						return err
					}
					shown = true
					half.Store(true)
					<-seen
					half.Store(false)
					return e.Apply(ops[1:])
				}}
		}},
		{name: "shows it later", rule: "a view sees all of an Apply or nothing", twist: func(m *Memory, e store.Engine) store.Engine {
			var mu sync.Mutex
			var waiting [][]store.Op
			return twisted{Engine: e, apply: func(ops []store.Op) error {
				mu.Lock()
				defer mu.Unlock()
				waiting = append(waiting, ops)
				if len(waiting) > 1 {
					defer func() { waiting = waiting[1:] }()
					return e.Apply(waiting[0])
				}
				return nil
			}}
		}},
		{name: "keeps errors to itself", rule: "a view hands on what ends it", twist: func(_ *Memory, e store.Engine) store.Engine {
			return twisted{Engine: e, view: func(f func(store.Reader) error) error {
				return e.View(func(r store.Reader) error { _ = f(r); return nil })
			}}
		}},
		{name: "survives panics", rule: "a view hands on what ends it", twist: func(_ *Memory, e store.Engine) store.Engine {
			return twisted{Engine: e, view: func(f func(store.Reader) error) (err error) {
				defer func() { _ = recover() }()
				return e.View(f)
			}}
		}},
		{name: "forgets", rule: "what was applied is there after a restart", twist: func(m *Memory, e store.Engine) store.Engine {
			return twisted{Engine: e, close: func() error {
				err := e.Close()
				m.mu.Lock()
				m.buckets = nil
				m.mu.Unlock()
				return err
			}}
		}},
		{name: "forgets what it deleted", rule: "what was applied is there after a restart", twist: func(m *Memory, e store.Engine) store.Engine {
			return twisted{Engine: e, close: func() error { return errors.Join(e.Apply([]store.Op{set("passing", "")}), e.Close()) }}
		}},
		{name: "writes when it is closed", rule: "what was applied is there after a crash", twist: func(_ *Memory, e store.Engine) store.Engine { return e },
			place: twistedPlace{crash: func(*twistedPlace) Place { return new(Memory) }}},
		{name: "works when it is closed", rule: "a closed engine does nothing", twist: func(m *Memory, e store.Engine) store.Engine {
			return twisted{Engine: e, close: func() error { return nil }}
		}, place: twistedPlace{again: true}},
		{name: "is closed once", rule: "a closed engine does nothing", twist: func(m *Memory, e store.Engine) store.Engine {
			done := false
			return twisted{Engine: e, close: func() error {
				if done {
					return errors.New("closed already")
				}
				done = true
				return e.Close()
			}}
		}},
		{name: "lets two write", rule: "one writes at a time", twist: func(m *Memory, _ store.Engine) store.Engine {
			e := &memoryEngine{place: m}
			return twisted{Engine: e,
				apply: func(ops []store.Op) error { m.mu.Lock(); m.open = e; m.mu.Unlock(); return e.Apply(ops) },
				view:  func(f func(store.Reader) error) error { m.mu.Lock(); m.open = e; m.mu.Unlock(); return e.View(f) }}
		}, place: twistedPlace{again: true}},
	}
}

// TestBrokenEngines: each of them is found out, and by the rule that it breaks.
func TestBrokenEngines(t *testing.T) {
	rules := map[string]Rule{}
	for _, r := range Rules() {
		rules[r.Name] = r
	}
	bites := map[string]bool{}
	for _, tt := range brokenEngines() {
		t.Run(tt.name, func(t *testing.T) {
			rule, ok := rules[tt.rule]
			if !ok {
				t.Fatalf("there is no rule %q", tt.rule)
			}
			bites[tt.rule] = true
			p := tt.place
			p.Memory, p.twist = new(Memory), tt.twist
			if err := rule.Check(&p); err == nil {
				t.Errorf("it is not found out: %s", tt.rule)
			} else {
				t.Log(err)
			}
		})
	}
	for name := range rules {
		if !bites[name] {
			t.Errorf("no engine breaks the rule %q", name)
		}
	}
}
