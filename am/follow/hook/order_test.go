package hook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"patchbay/am/store"
)

// ledger compares the events that hooks got with those that the store has posted.
type ledger struct {
	mu     sync.Mutex
	posted map[string][]string // by slice
	told   map[string][]string // by hook and slice
	ids    map[string]string   // of delivered events, by name
}

func newLedger() *ledger {
	return &ledger{posted: map[string][]string{}, told: map[string][]string{}, ids: map[string]string{}}
}

func (l *ledger) tell(hook, slice, name, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := hook + " " + slice
	l.told[k] = append(l.told[k], name)
	if was, ok := l.ids[name]; ok && was != id {
		panic(fmt.Sprintf("%s has the ids %s and %s", name, was, id))
	}
	l.ids[name] = id
}

// wrong returns a violation of the rule: each event at least once, in order, and only the
// last one may be repeated.
func (l *ledger) wrong(hooks ...string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range hooks {
		for slice, want := range l.posted {
			var got []string
			for _, name := range l.told[h+" "+slice] {
				if len(got) == 0 || got[len(got)-1] != name {
					got = append(got, name)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Sprintf("hook %s got for %s\n%q, posted were\n%q", h, slice, l.told[h+" "+slice], want)
			}
		}
	}
	return ""
}

// scratch is a folder, in memory if possible, because a model opens its file often.
func scratch(t *testing.T) string {
	t.Helper()
	memory := "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		memory = t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "patchbay-hook-")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestEventsOfASliceAreDeliveredInOrder has several hooks fail at random, once or for a while, for one
// slice or all, and crashes the server between delivery and removal.
func TestEventsOfASliceAreDeliveredInOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		hooks := []Hook{{Name: "one", Timeout: patience}, {Name: "two", Timeout: patience}}
		dir := scratch(t)
		defer os.RemoveAll(dir)
		b := &bench{t: t, file: filepath.Join(dir, "state.db"), clock: &clock{now: noon}, hooks: hooks, limits: quick}
		defer b.halt()
		l := newLedger()
		var mu sync.Mutex
		away := map[string]bool{} // hook, or hook and slice
		after := map[string]int{} // a delivery that arrives and then fails
		crashes := false          // after the next delivery
		b.take = func(_ context.Context, hook string, e Event) error {
			mu.Lock()
			defer mu.Unlock()
			if away[hook] || away[hook+e.Slice] {
				return errNo
			}
			l.tell(hook, e.Slice, e.ClientID, e.ID)
			if crashes {
				crashes = false
				b.store.Close() // the delivery cannot be recorded
			}
			if after[hook] > 0 {
				after[hook]--
				return errNo
			}
			return nil
		}
		b.start()
		n := 0
		post := func(r *rapid.T) {
			slice := fmt.Sprint("s", rapid.IntRange(0, 4).Draw(r, "slice"))
			var names []string
			for range rapid.IntRange(1, 3).Draw(r, "slivers") {
				n++
				names = append(names, fmt.Sprint("n", n))
			}
			b.commit(func(*store.View) (cs store.ChangeSet, err error) {
				for _, name := range names {
					cs.PutSliver(reserved(slice, name))
				}
				return cs, nil
			})
			key := sliceURN(slice).String()
			l.posted[key] = append(l.posted[key], names...)
		}
		hook := rapid.SampledFrom([]string{"one", "two"})
		turn := func(key string, is bool) {
			mu.Lock()
			defer mu.Unlock()
			away[key] = is
		}
		r.Repeat(map[string]func(*rapid.T){
			"post": post,
			"more": post,
			"away": func(r *rapid.T) { turn(hook.Draw(r, "hook"), rapid.Bool().Draw(r, "is")) },
			"slice": func(r *rapid.T) {
				slice := sliceURN(fmt.Sprint("s", rapid.IntRange(0, 4).Draw(r, "slice"))).String()
				turn(hook.Draw(r, "hook")+slice, rapid.Bool().Draw(r, "is"))
			},
			"stumble": func(r *rapid.T) {
				mu.Lock()
				defer mu.Unlock()
				after[hook.Draw(r, "hook")] += rapid.IntRange(1, 3).Draw(r, "times")
			},
			"restart": func(*rapid.T) { b.halt(); b.start() },
			"crash": func(*rapid.T) {
				mu.Lock()
				post(r)
				crashes = true
				mu.Unlock()
				b.halt()
				crashes = false // it was away
				b.start()
			},
		})
		mu.Lock()
		clear(away)
		clear(after)
		mu.Unlock()
		b.drained()
		if wrong := l.wrong("one", "two"); wrong != "" {
			r.Fatal(wrong)
		}
	})
}
