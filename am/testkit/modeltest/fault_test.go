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

// TestStory runs the story without faults: every step succeeds, and the final state is as
// expected.
func TestStory(t *testing.T) {
	x := runOnce(t, nil, nil)
	if len(x.refused)+len(x.unanswered)+len(x.wrong) > 0 {
		t.Errorf("refused %v, unanswered %v, wrong %v", x.refused, x.unanswered, x.wrong)
	}
	made := "{geni_provisioned geni_ready}, frozen false, on true, restarted 0, 0 accounts, 0 interfaces; machine on true: on, restarted 0, 0 accounts, 0 interfaces"
	user := strings.ReplaceAll(made, "0 accounts", "1 accounts")
	off := strings.NewReplacer("geni_ready", "geni_notready", "on true, restarted", "on false, restarted", "true: on", "true: off").Replace(made)
	want := map[string]string{
		"one":    "shut down false",
		"one b":  "{geni_provisioned geni_ready}, frozen false, on true, restarted 1, 2 accounts, 1 interfaces; machine on true: on, restarted 1, 2 accounts, 1 interfaces",
		"one z":  "{geni_provisioned geni_notready}, frozen false, on false, restarted 0, 0 accounts, 1 interfaces; machine on true: off, restarted 0, 0 accounts, 1 interfaces",
		"four":   "shut down false",
		"four g": made, "four h": made,
		"five":        "shut down false",
		"five five-i": user, "five five-j": user,
		"six":       "shut down false",
		"six six-i": off, "six six-j": off,
	}
	if diff := cmp.Diff(want, x.end); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

var errSpoilt = errors.New("input/output error")

// row is one row of a table of faults.
type row struct {
	kind    string          // the kind of fault
	at      string          // where it happens
	disturb func(*storyRun) // plans the fault, which must set triggered when it happens
}

// runRows runs the story for each row and compares the final state with runs without faults.
// Short tests run at most limit rows, with an equal share of each kind.
func runRows(t *testing.T, rows []row, limit int) {
	t.Helper()
	kinds := map[string][]row{}
	for _, r := range rows {
		kinds[r.kind] = append(kinds[r.kind], r)
	}
	ends := references{}
	total, triggered := 0, 0
	for i, kind := range slices.Sorted(maps.Keys(kinds)) {
		all := kinds[kind]
		every := 1
		if share := max(1, limit/len(kinds)); !require.Long() && len(all) > share {
			every = len(all) / share
		}
		done, refused, unanswered, failed := 0, 0, 0, 0
		for n := i % every; n < len(all); n += every {
			t.Run(all[n].kind+" at "+all[n].at, func(t *testing.T) {
				x := runOnce(t, nil, all[n].disturb)
				if x.triggered {
					triggered++
				}
				for _, w := range x.wrong {
					t.Error(w)
				}
				lost, differs := ends.agrees(t, x)
				if differs != "" {
					t.Errorf("refused %v, unanswered %v:\n%s", x.refused, x.unanswered, differs)
				}
				refused += min(1, len(x.refused))
				unanswered += min(1, len(x.unanswered))
				failed += min(1, lost)
				done++
			})
		}
		total += done
		t.Logf("%4d of %4d rows: %s; %d had a refusal, %d no answer, %d failed slivers", done, len(all), kind, refused, unanswered, failed)
	}
	t.Logf("%d rows, compared with %d runs without faults; in %d the fault happened", total, len(ends), triggered)
	if triggered < total*9/10 { // the number of polls of providers varies a little
		t.Error("in too few rows the fault happened")
	}
}

// TestEveryWriteFails makes each write of the story fail, and ends the process before or
// after it.
func TestEveryWriteFails(t *testing.T) {
	t.Parallel()
	first, last := 0, 0
	runOnce(t, nil, func(sr *storyRun) {
		sr.w.before = func(n int) error {
			if sr.s != nil && first == 0 {
				first = n // the writes before belong to the opening of the store
			}
			last = n
			return nil
		}
	})
	var rows []row
	for n := first; n <= last; n++ {
		at := fmt.Sprint("write ", n)
		fails := func(times int) func(*storyRun) {
			return func(sr *storyRun) {
				sr.w.before = func(m int) error {
					if m >= n && m < n+times {
						sr.triggered.Store(true)
						return errSpoilt
					}
					return nil
				}
			}
		}
		rows = append(rows,
			row{"it fails", at, fails(1)},
			row{"it fails, and the next five", at, fails(6)},
			row{"the process ends before it", at, func(sr *storyRun) {
				sr.w.before = func(m int) error {
					if m == n {
						sr.triggered.Store(true)
						sr.s.die()
					}
					return nil
				}
			}},
			row{"the process ends after it", at, func(sr *storyRun) {
				sr.w.after = func(m int) {
					if m == n {
						sr.triggered.Store(true)
						sr.s.die()
					}
				}
			}})
	}
	runRows(t, rows, 40)
}

// faultTexts describe the faults of a provider's calls, by action and behaviour. If an answer
// is garbage, package inventory/provider reports a failed call, or an error for a resource.
var faultTexts = map[string]map[behaviour]string{
	"get": {
		fails: "fails, or its answer is garbage", busy: "has garbage for each resource", hangs: "times out", forgets: "answers in part",
	},
	"set": {
		fails: "fails", hangs: "times out and does nothing", late: "is done and answered late", dies: "is done and dies, or its answer is garbage",
		halfway: "is done by half and dies", lies: "is not done and said to be", forgets: "is done and answered in part", busy: "is refused for now",
		refuses: "is refused", breaks: "is done, but the resources have failed", crowded: "finds no place", slow: "is slow",
	},
	"ask": {
		fails: "fails, or its answer is garbage", hangs: "times out", dies: "dies", busy: "is refused for now", refuses: "is refused",
	},
}

// TestEveryProviderCallFails makes each call of a provider in the story fail in each way.
func TestEveryProviderCallFails(t *testing.T) {
	t.Parallel()
	type call struct {
		provider, action string
		n, storyStep     int
	}
	var mu sync.Mutex
	var calls []call
	watch := func(sr *storyRun, f func(c call) behaviour) {
		for name, r := range sr.w.providers {
			r.behaviour = func(n int, action string, _ []string) behaviour {
				return f(call{name, action, n, int(sr.storyStep.Load())})
			}
		}
	}
	runOnce(t, nil, func(sr *storyRun) {
		watch(sr, func(c call) behaviour {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, c)
			return succeeds
		})
	})
	var rows []row
	sweeps := 0
	for _, c := range calls {
		if strings.HasPrefix(story[c.storyStep].what, "leases") && c.action == "get" {
			if sweeps++; sweeps > 8 { // all sweeps are alike
				continue
			}
		}
		at := fmt.Sprintf("call %d of %s, in %s", c.n, c.provider, story[c.storyStep].what)
		for _, what := range slices.Sorted(maps.Keys(faultTexts[c.action])) {
			rows = append(rows, row{fmt.Sprintf("a %s %s", c.action, faultTexts[c.action][what]), at, func(sr *storyRun) {
				watch(sr, func(now call) behaviour {
					if now.provider == c.provider && now.n == c.n {
						sr.triggered.Store(true)
						return what
					}
					return succeeds
				})
			}})
		}
		rows = append(rows, row{"the provider is away for a minute from a " + c.action + " on", at, func(sr *storyRun) {
			var since time.Time
			watch(sr, func(now call) behaviour {
				mu.Lock()
				defer mu.Unlock()
				if now.provider == c.provider && now.n == c.n {
					since = time.Now()
					sr.triggered.Store(true)
				}
				if now.provider == c.provider && now.n >= c.n && time.Since(since) < time.Minute {
					return fails
				}
				return succeeds
			})
		}})
	}
	runRows(t, rows, 60)
}
