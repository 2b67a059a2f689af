package modeltest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"patchbay/am"
	"patchbay/am/service"
	"patchbay/am/store"
	"patchbay/am/testkit/require"
	"patchbay/inventory/provider"
)

// forever is the validity of a credential that does not expire during a test.
const forever = 300 * 24 * time.Hour

// lifetime is the number of random steps of a run, before everything is deleted.
const lifetime = 120

// run is one run of TestModel: a site, and the model of its reservations.
type run struct {
	*environment
	site  *site
	alice *caller
	model *plain
	room  room // as of the last check
	rand  *rand.Rand

	// ifDone is the model if an unanswered call was carried out; nil if there is no such
	// call.
	ifDone *plain

	// touched is the slice of the last call.
	touched string
	// damaged are the machines that the test has changed, for example switched off.
	damaged map[string]bool
	// abandoned are the machines whose creation was given up. They must be removed.
	abandoned map[string]bool
	// took is the duration of the last step.
	took time.Duration
	// reappearances counts machines that reappeared; drifted means that one was switched off.
	reappearances int
	drifted       bool
	// held counts the slivers on each component, as of the last check.
	held map[string]int

	opened time.Time    // when the process was started
	full   atomic.Int64 // number of writes that failed because the disk was full
	stuck  atomic.Int64 // time of the last such write, in seconds
	steps  int
	trace  []string
}

// shortLeases are short, so that many leases end during a run.
var shortLeases = plainLeases{allocated: 5 * time.Minute, allocatedMax: 20 * time.Minute, provisioned: time.Hour, provisionedMax: 4 * time.Hour, margin: 5 * time.Minute}

// TestModel runs many sites with random calls of both versions by several users, actions of
// operators, providers that fail in every way, changes of clocks, crashes and full disks.
// After every step it compares the aggregate with the model. At the end of each run nothing
// may be left.
//
// PATCHBAY_STEPS is the number of steps, or PATCHBAY_SOAK the duration of the test.
// PATCHBAY_SEED repeats a test, and PATCHBAY_LIFE one run of it, as far as the order of
// goroutines can be repeated.
func TestModel(t *testing.T) {
	steps, until := setting(t, "PATCHBAY_STEPS", 1200), time.Time{}
	if testing.Short() {
		steps = min(steps, 4*lifetime)
	}
	if text := os.Getenv("PATCHBAY_SOAK"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("PATCHBAY_SOAK: %v", err)
		}
		steps, until = math.MaxInt, time.Now().Add(d)
	}
	seed := require.Seed(t)
	first := setting(t, "PATCHBAY_LIFE", 1)
	if os.Getenv("PATCHBAY_LIFE") != "" {
		steps, until = 1, time.Time{}
	}
	done, lives, began := 0, 0, time.Now()
	for ; done < steps && !t.Failed() && (until.IsZero() || time.Now().Before(until)); lives++ {
		number := first + lives
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("repeat it with PATCHBAY_SEED=%d PATCHBAY_LIFE=%d", seed, number)
				}
			}()
			done += lifetime
			live(t, func(w *environment) { (&run{environment: w}).live(seed, uint64(number)) })
		})
	}
	t.Logf("seed %d: %d steps in %d lives, %v", seed, done, lives, time.Since(began).Round(time.Millisecond))
}

// setting returns the number in an environment variable, or usual if it is not set.
func setting(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s is not a positive number", name, text)
	}
	return n
}

// live does the random steps of one run, and ends it.
func (l *run) live(seed, number uint64) {
	l.rand = rand.New(rand.NewPCG(seed, number))
	l.leases = service.Leases{Allocated: shortLeases.allocated, AllocatedMax: shortLeases.allocatedMax, Provisioned: shortLeases.provisioned,
		ProvisionedMax: shortLeases.provisionedMax, Margin: shortLeases.margin}
	l.model = &plain{slices: map[string]*plainSlice{}, leases: shortLeases}
	for _, n := range []string{"s1", "s2", "s3"} {
		l.model.slices[n] = &plainSlice{name: n}
	}
	for _, r := range l.providers {
		r.behaviour = nil
		r.pace = time.Duration(l.rand.IntN(20)) * time.Second
	}
	l.damaged, l.abandoned = map[string]bool{}, map[string]bool{}
	l.begin()
	l.check()
	for l.steps < lifetime {
		l.step()
	}
	l.end()
}

// begin opens a process over the environment.
func (l *run) begin() {
	l.mu.Lock()
	l.before, l.after = nil, nil
	l.mu.Unlock()
	l.site = l.open()
	l.opened = l.now()
	l.alice = l.site.alice("s1", forever)
}

// step does one random action and checks the invariants afterwards.
func (l *run) step() {
	l.steps++
	start := time.Now()
	switch n := l.rand.IntN(100); {
	case n < 62:
		c, a := l.draw()
		// Replace most calls that would be refused by another random call.
		for range 2 {
			if codes := l.model.clone().judge(a, l.now(), l.room); len(codes) == 0 || l.rand.IntN(3) == 0 {
				break
			}
			c, a = l.draw()
		}
		l.do(c, a)
	case n < 82:
		l.wait()
	case n < 87:
		l.setProviderFaults()
	case n < 90:
		l.machineFault()
	case n < 92:
		l.setClock()
	case n < 95 || l.shut() != "" && l.rand.IntN(4) == 0:
		l.operatorAction()
	case n < 96:
		l.fullDisk()
	case n < 98:
		l.logf("restart")
		l.site.stop()
		l.begin()
	default:
		l.scheduleCrash()
	}
	synctest.Wait()
	if l.site.isDead() {
		l.reopenAfterCrash()
		synctest.Wait()
	}
	l.took = time.Since(start)
	l.check()
}

// end deletes everything and checks that nothing is left.
func (l *run) end() {
	l.logf("the end")
	l.mu.Lock()
	l.before, l.after = nil, nil
	l.mu.Unlock()
	for _, r := range l.providers {
		r.with(func() { r.behaviour = nil })
	}
	l.site.settle(30 * time.Minute)
	time.Sleep(130 * time.Second) // for a get that hangs, which takes a minute, and for two sweeps
	synctest.Wait()
	clear(l.damaged) // the runner has found all damage
	l.check()
	for n, s := range l.model.slices {
		if s.shut {
			if err := l.site.thaw(n); err != nil {
				l.fail("thaw %s: %v", n, err)
			}
			s.shut = false
		}
		l.model.expire(l.now())
		want := am.Success
		if len(s.nodes) == 0 {
			want = am.SearchFailed
		}
		if a := l.site.alice(n, forever).v3("Delete", nil, opts()); a.code != want {
			l.fail("Delete %s at the end: %d %s, want %d", n, a.code, a.output, want)
		}
		s.nodes = nil
	}
	if !l.site.settle(30 * time.Minute) {
		l.fail("the tasks do not end")
	}
	l.check()
	err := l.site.store.Read(func(v *store.View) error {
		return errors.Join(
			v.Slivers(func(x am.Sliver) bool { l.fail("sliver %s is left", x.URN); return true }),
			v.Slices(func(x am.Slice) bool { l.fail("slice %s is left", x.URN); return true }))
	})
	if err != nil {
		l.fail("the store: %v", err)
	}
	if l.reappearances > 0 {
		time.Sleep(30 * time.Minute) // until machines that reappeared are found and removed
	}
	for n, r := range l.providers {
		r.with(func() {
			for id, m := range r.machines {
				if m.is.Text(provider.AttrEnsure) == provider.Present {
					l.fail("%s has %s left; reappeared: %v", n, id, m.reappeared)
				}
			}
		})
	}
	l.site.stop()
}
