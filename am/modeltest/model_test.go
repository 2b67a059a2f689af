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

// forever is a credential that lasts longer than any life here.
const forever = 300 * 24 * time.Hour

// lifetime is how many steps a life has before everything is given back.
const lifetime = 120

// run is one life: a site, and the model of what it has promised.
type run struct {
	*environment
	site  *site
	alice *caller
	model *plain
	room  room // as of the last look
	rand  *rand.Rand

	// maybe is the model if a call has been done of which nobody heard; nil for
	// no such call.
	maybe *plain

	// touched is the slice of the last call.
	touched string
	// spoilt are machines that something has happened to that nobody asked for.
	damaged map[string]bool
	// halves are machines that were to be made, and of which nothing may be left, since
	// that was given up.
	halves map[string]bool
	// took is how long the last step did.
	took time.Duration
	// reappearances counts machines that reappeared; drifted says that one was switched off.
	reappearances int
	drifted       bool
	// held counts the slivers on each component, as of the last look.
	held map[string]int

	opened time.Time    // when the process was
	full   atomic.Int64 // writes that the disk had no room for
	stuck  atomic.Int64 // when the last one was, in seconds
	steps  int
	trace  []string
}

// leases that are short, so that much happens in little time.
var shortLeases = plainLeases{allocated: 5 * time.Minute, allocatedMax: 20 * time.Minute, provisioned: time.Hour, provisionedMax: 4 * time.Hour, margin: 5 * time.Minute}

// TestModel runs many sites: random calls of both versions by several users,
// operators' orders, providers that fail in every way, time, clocks, crashes and
// full disks. After every step the aggregate is held against the model, and at
// the end of each life nothing may be left.
//
// PATCHBAY_STEPS says how many steps, PATCHBAY_SOAK for how long instead.
// PATCHBAY_SEED repeats a run, and PATCHBAY_LIFE one life of it, as far as
// goroutines let themselves be repeated.
func TestModel(t *testing.T) {
	steps, until := setting(t, "PATCHBAY_STEPS", 2400), time.Time{}
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

func setting(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s is no number above 0", name, text)
	}
	return n
}

// live goes through one life.
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
	l.damaged, l.halves = map[string]bool{}, map[string]bool{}
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
		// Half of what would be refused is not asked.
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
		l.tell("restart")
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
	l.tell("the end")
	l.mu.Lock()
	l.before, l.after = nil, nil
	l.mu.Unlock()
	for _, r := range l.providers {
		r.with(func() { r.behaviour = nil })
	}
	l.site.settle(30 * time.Minute)
	time.Sleep(130 * time.Second) // a look that hangs still, which takes a minute, and two sweeps
	synctest.Wait()
	clear(l.damaged) // all has been seen
	l.check()
	for n, s := range l.model.slices {
		if s.shut {
			if err := l.site.thaw(n); err != nil {
				l.fail("thaw %s: %v", n, err)
			}
			s.shut = false
		}
		l.model.pass(l.now())
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
		l.fail("there is no end of work")
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
		time.Sleep(30 * time.Minute) // what came back is seen, and removed
	}
	for n, r := range l.providers {
		r.with(func() {
			for id, m := range r.machines {
				if m.is.Text(provider.AttrEnsure) == provider.Present {
					l.fail("%s has %s left; it came back: %v", n, id, m.reappeared)
				}
			}
		})
	}
	l.site.stop()
}
