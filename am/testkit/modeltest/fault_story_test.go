package modeltest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/store"
	"patchbay/inventory/provider"
)

// A storyStep is one action of a user or an operator in the story. Between two steps the
// test waits until no work is left, except before the step "start before it is made". The
// error of do is a refusal.
type storyStep struct {
	what string
	do   func(*storyRun) error
}

// story is a history of four slices with every method that changes something, with ends of
// leases, with a shutdown and its end by an operator.
var story = []storyStep{
	{"Allocate", func(t *storyRun) error {
		return t.check(t.as("one").allocate(request(node("a", "raw-pc"), node("b", "vm"))))
	}},
	{"Renew of what is reserved", func(t *storyRun) error {
		return t.check(t.as("one").v3("Renew", nil, stamp(t.w.now().Add(time.Hour)), opts()))
	}},
	{"Provision", func(t *storyRun) error {
		return t.check(t.as("one").v3("Provision", nil, opts(opt("geni_users", users(t.as("one"))))))
	}},
	{"start", func(t *storyRun) error { return t.act("one", "geni_start") }},
	{"restart", func(t *storyRun) error { return t.act("one", "geni_restart") }},
	{"other users", func(t *storyRun) error {
		both := append(users(t.as("one")), users(t.s.as(t.w.sharedUsers.bob, "one", ""))...)
		return t.act("one", "geni_update_users", opt("geni_users", both))
	}},
	{"change in place, with a new node", func(t *storyRun) error {
		return t.check(t.as("one").allocate(request(linked("a", "raw-pc"), linked("b", "vm"), linked("z", "vm"), link("a", "b", "z")), opt("patchbay_change", true)))
	}},
	{"Provision of what was added", func(t *storyRun) error { return t.check(t.as("one").v3("Provision", nil, opts())) }},
	{"start of what was added", func(t *storyRun) error { return t.act("one z", "geni_start") }},
	{"change in place again", func(t *storyRun) error {
		return t.check(t.as("one").allocate(request(node("a", "raw-pc"), linked("b", "vm"), linked("z", "vm"), link("b", "z")), opt("patchbay_change", true)))
	}},
	{"CreateSliver", func(t *storyRun) error {
		c := t.as("two")
		return t.check(c.create(request(node("c", "raw-pc"), node("d", "vm")), users(c)))
	}},
	{"RenewSliver", func(t *storyRun) error {
		return t.check(t.as("two").v2("RenewSliver", stamp(t.w.now().Add(8*time.Minute)), xmlrpc.Struct{}))
	}},
	{"Allocate of what is left to end", func(t *storyRun) error {
		return t.check(t.as("three").allocate(request(node("e", "vm"), node("f", "raw-pc"))))
	}},
	{"stop", func(t *storyRun) error { return t.act("one", "geni_stop") }},
	{"Shutdown", func(t *storyRun) error {
		c := t.as("two")
		return t.check(c.call(3, "Shutdown", c.slice, creds(c.credential), opts()))
	}},
	{"thaw", func(t *storyRun) error { return t.s.thaw("two") }},
	{"start of one node", func(t *storyRun) error { return t.act("one b", "geni_start") }},
	{"Delete of one node", func(t *storyRun) error { return t.check(t.as("one").v3("Delete", t.sliver("one", "a"), opts())) }},
	{"leases end", func(*storyRun) error { time.Sleep(11 * time.Minute); return nil }},
	{"Allocate after that", func(t *storyRun) error {
		return t.check(t.as("four").allocate(request(node("g", "raw-pc"), bound("h", "vm", "host1"))))
	}},
	{"Provision after that", func(t *storyRun) error { return t.check(t.as("four").v3("Provision", nil, opts())) }},
	{"start before it is made", func(t *storyRun) error { return t.act("four", "geni_start") }},
	{"Allocate of what begins later by itself", func(t *storyRun) error {
		return t.later("five", opt("patchbay_provision_at_start", true), opt("geni_users", users(t.as("five"))))
	}},
	{"Renew before the start", func(t *storyRun) error {
		return t.check(t.as("five").v3("Renew", nil, stamp(t.w.now().Add(2*time.Hour)), opts()))
	}},
	{"Allocate of what begins later", func(t *storyRun) error { return t.later("six") }},
	{"they begin", func(*storyRun) error { time.Sleep(16 * time.Minute); return nil }},
	{"Provision of what has begun", func(t *storyRun) error { return t.check(t.as("six").v3("Provision", nil, opts())) }},
}

// later reserves two nodes that begin in a quarter of an hour.
func (t *storyRun) later(slice string, options ...xmlrpc.Member) error {
	start := t.w.now().Add(15 * time.Minute)
	return t.check(t.as(slice).allocate(request(node(slice+"-i", "raw-pc"), node(slice+"-j", "vm")), append(options, opt("geni_start_time", stamp(start)), opt("geni_end_time", stamp(start.Add(time.Hour))))...))
}

// storyRun is one run of the story.
type storyRun struct {
	w    *environment
	s    *site
	now  string // the name of the current step
	over bool   // the story has ended; guarded by the environment's lock

	storyStep atomic.Int32
	triggered atomic.Bool // the planned fault has happened

	refused    map[int]bool // the steps that were refused or skipped
	unanswered map[int]bool // the steps that may or may not have been carried out
	wrong      []string     // violations of the invariants
}

var errUnknown = errors.New("it is unknown whether the step was carried out")

// check returns the error of a step for an answer: nil for success, and errUnknown if the
// call may or may not have been carried out.
func (t *storyRun) check(a answer) error {
	switch {
	case bool(a.unanswered), errors.Is(a.cause, store.ErrInDoubt):
		return errUnknown
	case a.code != am.Success:
		if a.output == "" {
			t.wrong = append(t.wrong, fmt.Sprintf("%s is refused without a reason", t.now))
		}
		return fmt.Errorf("%d %s", a.code, a.output)
	}
	return nil
}

func (t *storyRun) as(slice string) *caller { return t.s.alice(slice, forever) }

// act performs an operational action on a slice ("one"), or on one of its nodes ("one b").
func (t *storyRun) act(what, action string, options ...xmlrpc.Member) error {
	slice, client, one := strings.Cut(what, " ")
	var named []string
	if one {
		named = t.sliver(slice, client)
	}
	return t.check(t.as(slice).v3("PerformOperationalAction", named, action, opts(options...)))
}

// sliver returns the URN of a node's sliver, or a URN that does not exist.
func (t *storyRun) sliver(slice, client string) []string {
	slivers, _ := t.s.records()
	for _, x := range slivers {
		if x.Slice.Name == slice && x.ClientID == client {
			return []string{x.URN.String()}
		}
	}
	return []string{name("sliver", "none")}
}

// runSteps runs the steps of the story, except those in without. After a crash it continues
// in a new process.
func (t *storyRun) runSteps(without map[int]bool) {
	t.s = t.w.open()
	t.refused, t.unanswered = union(without, nil), map[int]bool{}
	for i, c := range story {
		t.storyStep.Store(int32(i))
		t.now = c.what
		if !without[i] {
			switch err := c.do(t); {
			case errors.Is(err, errUnknown), err != nil && t.s.isDead():
				t.unanswered[i] = true
			case err != nil:
				t.refused[i] = true
			}
		}
		if hurried := i+1 < len(story) && strings.Contains(story[i+1].what, "before it is made"); !hurried || t.s.isDead() {
			t.awaitIdle()
		}
	}
	time.Sleep(2 * time.Minute) // for sweeps, and for the end of dry runs
	t.awaitIdle()
}

// awaitIdle waits until no work is left, and then checks the invariants.
func (t *storyRun) awaitIdle() {
	for range 1200 {
		if t.s.isDead() {
			t.s.kill()
			time.Sleep(3 * time.Second)
			t.s = t.w.open()
		}
		if t.s.settle(0) && !t.s.isDead() {
			t.checkInvariants()
			return
		}
		time.Sleep(time.Second)
	}
	_, tasks := t.s.records()
	t.wrong = append(t.wrong, fmt.Sprintf("after %s the tasks do not end: %v", t.now, tasks))
}

// checkInvariants checks conditions that must always hold, and adds violations to t.wrong.
func (t *storyRun) checkInvariants() {
	slivers, tasks := t.s.records()
	on := map[string]int{}
	for _, x := range slivers {
		if !x.Begins.After(t.w.now()) {
			on[x.Component.Name]++
		}
	}
	room := free(t.as("one").advertised().manifest())
	for _, c := range t.w.inv.Components {
		if left := capacity(c.Name) - on[c.Name]; left < 0 || room[c.Name] != left {
			t.wrong = append(t.wrong, fmt.Sprintf("after %s %s holds %d slivers, and there is room for %d", t.now, c.Name, on[c.Name], room[c.Name]))
		}
	}
	for provider, r := range t.w.providers {
		for _, id := range r.present() {
			if _, task := tasks[id]; slivers[id].URN.IsZero() && !task {
				t.wrong = append(t.wrong, fmt.Sprintf("after %s %s has %s, which has neither a record nor a task", t.now, provider, id))
			}
		}
		r.with(func() { t.wrong, r.broken = append(t.wrong, r.broken...), nil })
	}
}

// finalState returns a description of each node and each slice.
func (t *storyRun) finalState() map[string]string {
	all := map[string]string{}
	slivers, _ := t.s.records()
	for id, x := range slivers {
		line := fmt.Sprintf("%v, frozen %v, on %v, restarted %d, %d accounts, %d interfaces", x.Status, x.Frozen, x.Desired.On, x.Desired.RestartSerial, len(x.Desired.Accounts), len(x.Interfaces))
		for _, r := range t.w.providers {
			r.with(func() {
				if m := r.machines[id]; m != nil {
					line += fmt.Sprintf("; machine on %v: %s, restarted %s, %d accounts, %d interfaces", m.is.Text(provider.AttrComponent) == x.Component.Name,
						m.is.Text(provider.AttrPower), m.is.Text(provider.AttrRestartSerial), len(m.is.List(provider.AttrUsers)), len(m.is.List(provider.AttrInterfaces)))
				}
			})
		}
		if x.Status.Operational == am.Failed {
			line = broken + x.Error
		}
		all[x.Slice.Name+" "+x.ClientID] = line
	}
	err := t.s.store.Read(func(v *store.View) error {
		return v.Slices(func(x am.Slice) bool {
			all[x.URN.Name] = fmt.Sprintf("shut down %v", !x.Shutdown.IsZero())
			return true
		})
	})
	if err != nil {
		t.wrong = append(t.wrong, err.Error())
	}
	return all
}

const broken = "failed: "

// reasons are the errors with which a sliver may fail: texts of providers, and the text for a
// provider that does not answer.
var reasons = []string{"this is not permitted", "it does not come up", "the provider is broken"}

// releaseAll ends the faults and deletes all slices. It then checks that nothing is left.
func (t *storyRun) releaseAll() {
	t.w.mu.Lock()
	t.over, t.w.before, t.w.after = true, nil, nil
	t.w.mu.Unlock()
	for _, r := range t.w.providers {
		r.with(func() { r.behaviour = nil })
	}
	for _, slice := range []string{"one", "two", "three", "four", "five", "six"} {
		if err := t.s.thaw(slice); err == nil {
			t.awaitIdle()
		}
		_ = t.as(slice).v3("Delete", nil, opts())
	}
	t.awaitIdle()
	for what := range t.finalState() {
		t.wrong = append(t.wrong, what+" is left after everything was released")
	}
	for provider, r := range t.w.providers {
		if left := r.present(); len(left) > 0 {
			t.wrong = append(t.wrong, fmt.Sprintf("%s has %v left after everything was released", provider, left))
		}
	}
	t.s.stop()
}

// storyResult is the result of a storyRun.
type storyResult struct {
	end                 map[string]string
	refused, unanswered []int
	wrong               []string
	triggered           bool // the planned fault has happened
}

// runOnce runs the story once, in its own bubble. disturb plans a fault.
func runOnce(t *testing.T, without map[int]bool, disturb func(*storyRun)) (x storyResult) {
	t.Helper()
	live(t, func(w *environment) {
		w.probed = map[string]bool{"cloud": true}
		sr := &storyRun{w: w}
		if disturb != nil {
			disturb(sr)
		}
		sr.runSteps(without)
		synctest.Wait()
		x.end = sr.finalState()
		sr.releaseAll()
		x.triggered, x.refused, x.unanswered, x.wrong = sr.triggered.Load(), slices.Sorted(maps.Keys(sr.refused)), slices.Sorted(maps.Keys(sr.unanswered)), sr.wrong
	})
	return x
}

// references are the final states of runs without faults, by the skipped steps.
type references map[string]map[string]string

func (r references) without(t *testing.T, chapters []int) map[string]string {
	t.Helper()
	k := fmt.Sprint(chapters)
	if r[k] == nil {
		skip := map[int]bool{}
		for _, c := range chapters {
			skip[c] = true
		}
		x := runOnce(t, skip, nil)
		for _, w := range x.wrong {
			t.Errorf("undisturbed, without %v: %s", chapters, w)
		}
		r[k] = x.end
	}
	return r[k]
}

// agrees compares the final state of a run with runs without faults that skip the refused
// steps. It accepts any choice of the unanswered steps, and slivers that have failed with one
// of the reasons; failed is their number. differs describes the differences; "" if there are
// none.
func (r references) agrees(t *testing.T, x storyResult) (failed int, differs string) {
	t.Helper()
	for choice := range 1 << len(x.unanswered) {
		without := slices.Clone(x.refused)
		for i, c := range x.unanswered {
			if choice&(1<<i) != 0 {
				without = append(without, c)
			}
		}
		slices.Sort(without)
		want := r.without(t, without)
		failed, differs = 0, ""
		for _, k := range slices.Sorted(maps.Keys(union(want, x.end))) {
			switch got := x.end[k]; {
			case got == want[k]:
			case want[k] != "" && slices.ContainsFunc(reasons, func(r string) bool { return strings.HasPrefix(got, broken) && strings.Contains(got, r) }):
				failed++
			default:
				differs += fmt.Sprintf("%s\n got  %q\n want %q\n", k, got, want[k])
			}
		}
		if differs == "" {
			return failed, ""
		}
	}
	return 0, differs
}

func union[K comparable, V any](a, b map[K]V) map[K]V {
	all := map[K]V{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
