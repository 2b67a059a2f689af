package modeltest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am/testkit/require"
)

// TestStory: undisturbed, every chapter works, and it ends as told here.
func TestStory(t *testing.T) {
	x := listen(t, nil, nil)
	if len(x.refused)+len(x.unanswered)+len(x.wrong) > 0 {
		t.Errorf("refused %v, unheard %v, wrong %v", x.refused, x.unanswered, x.wrong)
	}
	made := "{geni_provisioned geni_ready}, frozen false, on true, restarted 0, 0 accounts; machine on true: on, restarted 0, 0 accounts"
	want := map[string]string{
		"one":    "shut down false",
		"one b":  "{geni_provisioned geni_ready}, frozen false, on true, restarted 1, 2 accounts; machine on true: on, restarted 1, 2 accounts",
		"four":   "shut down false",
		"four g": made, "four h": made,
	}
	if diff := cmp.Diff(want, x.end); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

var errSpoilt = errors.New("input/output error")

// row is one row of a table of faults.
type row struct {
	kind    string // of what goes wrong, for the count
	at      string
	disturb func(*tale) // must say when it is felt
}

// through tells the story for each row, or for as many as there is time for, of
// each kind alike, and holds each end against the undisturbed ones.
func through(t *testing.T, rows []row, limit int) {
	t.Helper()
	kinds := map[string][]row{}
	for _, r := range rows {
		kinds[r.kind] = append(kinds[r.kind], r)
	}
	ends := references{}
	total, felt := 0, 0
	for i, kind := range slices.Sorted(maps.Keys(kinds)) {
		all := kinds[kind]
		every := 1
		if share := max(1, limit/len(kinds)); !require.Long() && len(all) > share {
			every = len(all) / share
		}
		done, refused, unanswered, failed := 0, 0, 0, 0
		for n := i % every; n < len(all); n += every {
			t.Run(all[n].kind+" at "+all[n].at, func(t *testing.T) {
				x := listen(t, nil, all[n].disturb)
				if x.felt {
					felt++
				}
				for _, w := range x.wrong {
					t.Error(w)
				}
				lost, differs := ends.agrees(t, x)
				if differs != "" {
					t.Errorf("refused %v, unheard %v:\n%s", x.refused, x.unanswered, differs)
				}
				refused += min(1, len(x.refused))
				unanswered += min(1, len(x.unanswered))
				failed += min(1, lost)
				done++
			})
		}
		total += done
		t.Logf("%4d of %4d rows: %s; told with a refusal in %d, with no answer in %d, with failed slivers in %d", done, len(all), kind, refused, unanswered, failed)
	}
	t.Logf("%d rows, compared with %d undisturbed ends; %d came to what was to go wrong", total, len(ends), felt)
	if felt < total*9/10 { // how often providers are looked at varies a little
		t.Error("too few went wrong")
	}
}

// TestEveryWriteFails lets each write of the story fail, and the process end before it
// or after it.
func TestEveryWriteFails(t *testing.T) {
	t.Parallel()
	first, last := 0, 0
	listen(t, nil, func(sliverReport *tale) {
		sliverReport.w.before = func(n int) error {
			if sliverReport.s != nil && first == 0 {
				first = n // not what opening writes
			}
			last = n
			return nil
		}
	})
	var rows []row
	for n := first; n <= last; n++ {
		at := fmt.Sprint("write ", n)
		fails := func(times int) func(*tale) {
			return func(sliverReport *tale) {
				sliverReport.w.before = func(m int) error {
					if m >= n && m < n+times {
						sliverReport.felt.Store(true)
						return errSpoilt
					}
					return nil
				}
			}
		}
		rows = append(rows,
			row{"it fails", at, fails(1)},
			row{"it fails, and the next five", at, fails(6)},
			row{"the process ends before it", at, func(sliverReport *tale) {
				sliverReport.w.before = func(m int) error {
					if m == n {
						sliverReport.felt.Store(true)
						sliverReport.s.die()
					}
					return nil
				}
			}},
			row{"the process ends after it", at, func(sliverReport *tale) {
				sliverReport.w.after = func(m int) {
					if m == n {
						sliverReport.felt.Store(true)
						sliverReport.s.die()
					}
				}
			}})
	}
	through(t, rows, 40)
}

// wrongs are what can go wrong with a call of a provider, by its action, in words
// for the table. Garbage is, to those above inventory/provider, a call that
// failed, or a resource of which nothing is known now.
var wrongs = map[string]map[behaviour]string{
	"get": {
		fails: "fails, or its answer is garbage", busy: "has garbage for each resource", hangs: "times out", forgets: "answers in part",
	},
	"set": {
		fails: "fails", hangs: "times out and does nothing", late: "is done and answered late", dies: "is done and dies, or its answer is garbage",
		halfway: "is done by half and dies", lies: "is not done and said to be", forgets: "is done and answered in part", busy: "is refused for now",
		refuses: "is refused", breaks: "is done, and what comes is broken", crowded: "finds no place", slow: "takes its time",
	},
	"ask": {
		fails: "fails, or its answer is garbage", hangs: "times out", dies: "dies", busy: "is refused for now", refuses: "is refused",
	},
}

// TestEveryProviderCallFails lets each call of a provider in the story go wrong.
func TestEveryProviderCallFails(t *testing.T) {
	t.Parallel()
	type call struct {
		fakeProvider, action string
		n, chapter           int
	}
	var mu sync.Mutex
	var calls []call
	watch := func(sliverReport *tale, f func(c call) behaviour) {
		for name, r := range sliverReport.w.providers {
			r.behaviour = func(n int, action string, _ []string) behaviour {
				return f(call{name, action, n, int(sliverReport.chapter.Load())})
			}
		}
	}
	listen(t, nil, func(sliverReport *tale) {
		watch(sliverReport, func(c call) behaviour {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, c)
			return succeeds
		})
	})
	var rows []row
	sweeps := 0
	for _, c := range calls {
		if strings.HasPrefix(story[c.chapter].what, "leases") && c.action == "get" {
			if sweeps++; sweeps > 8 { // they are all alike
				continue
			}
		}
		at := fmt.Sprintf("call %d of %s, in %s", c.n, c.fakeProvider, story[c.chapter].what)
		for _, what := range slices.Sorted(maps.Keys(wrongs[c.action])) {
			rows = append(rows, row{fmt.Sprintf("a %s %s", c.action, wrongs[c.action][what]), at, func(sliverReport *tale) {
				watch(sliverReport, func(now call) behaviour {
					if now.fakeProvider == c.fakeProvider && now.n == c.n {
						sliverReport.felt.Store(true)
						return what
					}
					return succeeds
				})
			}})
		}
		rows = append(rows, row{"the provider is away for a minute from a " + c.action + " on", at, func(sliverReport *tale) {
			var since time.Time
			watch(sliverReport, func(now call) behaviour {
				mu.Lock()
				defer mu.Unlock()
				if now.fakeProvider == c.fakeProvider && now.n == c.n {
					since = time.Now()
					sliverReport.felt.Store(true)
				}
				if now.fakeProvider == c.fakeProvider && now.n >= c.n && time.Since(since) < time.Minute {
					return fails
				}
				return succeeds
			})
		}})
	}
	through(t, rows, 60)
}
