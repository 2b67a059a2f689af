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
	"patchbay/am/store"
	"patchbay/am/xmlrpc"
	"patchbay/inventory/provider"
)

// A chapter is one thing that somebody does in the story; all is quiet between
// two of them, but before one that is called so. Its error is a refusal.
type chapter struct {
	what string
	do   func(*tale) error
}

// story is a life of four slices with every method that changes something, ends
// of leases, a shutdown and what operators do about it.
var story = []chapter{
	{"Allocate", func(t *tale) error {
		return t.heard(t.as("one").allocate(request(node("a", "raw-pc"), node("b", "vm"))))
	}},
	{"Renew of what is reserved", func(t *tale) error {
		return t.heard(t.as("one").v3("Renew", nil, stamp(t.w.now().Add(time.Hour)), opts()))
	}},
	{"Provision", func(t *tale) error {
		return t.heard(t.as("one").v3("Provision", nil, opts(opt("geni_users", users(t.as("one"))))))
	}},
	{"start", func(t *tale) error { return t.act("one", "geni_start") }},
	{"restart", func(t *tale) error { return t.act("one", "geni_restart") }},
	{"other users", func(t *tale) error {
		both := append(users(t.as("one")), users(t.s.as(t.w.sharedUsers.bob, "one", ""))...)
		return t.act("one", "geni_update_users", opt("geni_users", both))
	}},
	{"CreateSliver", func(t *tale) error {
		c := t.as("two")
		return t.heard(c.create(request(node("c", "raw-pc"), node("d", "vm")), users(c)))
	}},
	{"RenewSliver", func(t *tale) error {
		return t.heard(t.as("two").v2("RenewSliver", stamp(t.w.now().Add(8*time.Minute)), xmlrpc.Struct{}))
	}},
	{"Allocate of what is left to end", func(t *tale) error {
		return t.heard(t.as("three").allocate(request(node("e", "vm"), node("f", "raw-pc"))))
	}},
	{"stop", func(t *tale) error { return t.act("one", "geni_stop") }},
	{"Shutdown", func(t *tale) error {
		c := t.as("two")
		return t.heard(c.call(3, "Shutdown", c.slice, creds(c.credential), opts()))
	}},
	{"thaw", func(t *tale) error { return t.s.thaw("two") }},
	{"start of one node", func(t *tale) error { return t.act("one b", "geni_start") }},
	{"Delete of one node", func(t *tale) error { return t.heard(t.as("one").v3("Delete", t.sliver("one", "a"), opts())) }},
	{"leases end", func(*tale) error { time.Sleep(11 * time.Minute); return nil }},
	{"Allocate after that", func(t *tale) error {
		return t.heard(t.as("four").allocate(request(node("g", "raw-pc"), bound("h", "vm", "host1"))))
	}},
	{"Provision after that", func(t *tale) error { return t.heard(t.as("four").v3("Provision", nil, opts())) }},
	{"start before it is made", func(t *tale) error { return t.act("four", "geni_start") }},
}

// tale is one telling of the story.
type tale struct {
	w    *environment
	s    *site
	now  string // what the chapter is called
	over bool   // the story has ended; guarded by the environment's lock

	chapter atomic.Int32
	felt    atomic.Bool // what was to go wrong went wrong

	refused    map[int]bool // chapters that were refused, and those left out
	unanswered map[int]bool // chapters of which nobody knows whether they happened
	wrong      []string     // what must never be
}

var errUnknown = errors.New("nobody knows")

// heard is what a caller makes of an answer.
func (t *tale) heard(a answer) error {
	switch {
	case bool(a.unanswered), errors.Is(a.cause, store.ErrInDoubt):
		return errUnknown
	case a.code != am.Success:
		if a.output == "" {
			t.wrong = append(t.wrong, fmt.Sprintf("%s is refused without a word", t.now))
		}
		return fmt.Errorf("%d %s", a.code, a.output)
	}
	return nil
}

func (t *tale) as(slice string) *caller { return t.s.alice(slice, forever) }

// act is an action on a slice, or on one of its nodes.
func (t *tale) act(what, action string, options ...xmlrpc.Member) error {
	slice, client, one := strings.Cut(what, " ")
	var named []string
	if one {
		named = t.sliver(slice, client)
	}
	return t.heard(t.as(slice).v3("PerformOperationalAction", named, action, opts(options...)))
}

// sliver is the URN of a node's sliver, or of none.
func (t *tale) sliver(slice, client string) []string {
	slivers, _ := t.s.records()
	for _, x := range slivers {
		if x.Slice.Name == slice && x.ClientID == client {
			return []string{x.URN.String()}
		}
	}
	return []string{name("sliver", "none")}
}

// tell tells the story but for the chapters in without, and goes on in a new
// process where one has died.
func (t *tale) tell(without map[int]bool) {
	t.s = t.w.open()
	t.refused, t.unanswered = union(without, nil), map[int]bool{}
	for i, c := range story {
		t.chapter.Store(int32(i))
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
			t.quiet()
		}
	}
	time.Sleep(2 * time.Minute) // sweeps, and the end of what only was asked about
	t.quiet()
}

// quiet waits until there is nothing to do, and looks at what must always be.
func (t *tale) quiet() {
	for range 1200 {
		if t.s.isDead() {
			t.s.kill()
			time.Sleep(3 * time.Second)
			t.s = t.w.open()
		}
		if t.s.settle(0) && !t.s.isDead() {
			t.look()
			return
		}
		time.Sleep(time.Second)
	}
	_, tasks := t.s.records()
	t.wrong = append(t.wrong, fmt.Sprintf("after %s there is no end of work: %v", t.now, tasks))
}

// look looks at what must always be.
func (t *tale) look() {
	slivers, tasks := t.s.records()
	on := map[string]int{}
	for _, x := range slivers {
		on[x.Component.Name]++
	}
	room := free(t.as("one").advertised().manifest())
	for _, c := range t.w.inv.Components {
		if left := capacity(c.Name) - on[c.Name]; left < 0 || room[c.Name] != left {
			t.wrong = append(t.wrong, fmt.Sprintf("after %s %s holds %d slivers, and there is room for %d", t.now, c.Name, on[c.Name], room[c.Name]))
		}
	}
	for fakeProvider, r := range t.w.providers {
		for _, id := range r.present() {
			if _, task := tasks[id]; slivers[id].URN.IsZero() && !task {
				t.wrong = append(t.wrong, fmt.Sprintf("after %s %s has %s, and nobody knows of it", t.now, fakeProvider, id))
			}
		}
		r.with(func() { t.wrong, r.broken = append(t.wrong, r.broken...), nil })
	}
}

// end is how it ends: what is of each node, and of each slice.
func (t *tale) end() map[string]string {
	all := map[string]string{}
	slivers, _ := t.s.records()
	for id, x := range slivers {
		line := fmt.Sprintf("%v, frozen %v, on %v, restarted %d, %d accounts", x.Status, x.Frozen, x.Desired.On, x.Desired.RestartSerial, len(x.Desired.Accounts))
		for _, r := range t.w.providers {
			r.with(func() {
				if m := r.machines[id]; m != nil {
					line += fmt.Sprintf("; machine on %v: %s, restarted %s, %d accounts", m.is.Text(provider.AttrComponent) == x.Component.Name,
						m.is.Text(provider.AttrPower), m.is.Text(provider.AttrRestartSerial), len(m.is.List(provider.AttrUsers)))
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

// reasons are why a sliver may fail: the words of its provider, and what is told of
// one that has none.
var reasons = []string{"this is not permitted", "it does not come up", "the provider is broken"}

// back gives everything back, undisturbed: nothing may be left then.
func (t *tale) back() {
	t.w.mu.Lock()
	t.over, t.w.before, t.w.after = true, nil, nil
	t.w.mu.Unlock()
	for _, r := range t.w.providers {
		r.with(func() { r.behaviour = nil })
	}
	for _, slice := range []string{"one", "two", "three", "four"} {
		if err := t.s.thaw(slice); err == nil {
			t.quiet()
		}
		_ = t.as(slice).v3("Delete", nil, opts())
	}
	t.quiet()
	for what := range t.end() {
		t.wrong = append(t.wrong, what+" is left when all was given back")
	}
	for fakeProvider, r := range t.w.providers {
		if left := r.present(); len(left) > 0 {
			t.wrong = append(t.wrong, fmt.Sprintf("%s has %v left when all was given back", fakeProvider, left))
		}
	}
	t.s.stop()
}

// telling is what came of one.
type telling struct {
	end                 map[string]string
	refused, unanswered []int
	wrong               []string
	felt                bool // what was to go wrong went wrong
}

// listen runs the story once, in its own bubble. disturb prepares the environment.
func listen(t *testing.T, without map[int]bool, disturb func(*tale)) (x telling) {
	t.Helper()
	live(t, func(w *environment) {
		w.asks = map[string]bool{"cloud": true}
		sliverReport := &tale{w: w}
		if disturb != nil {
			disturb(sliverReport)
		}
		sliverReport.tell(without)
		synctest.Wait()
		x.end = sliverReport.end()
		sliverReport.back()
		x.felt, x.refused, x.unanswered, x.wrong = sliverReport.felt.Load(), slices.Sorted(maps.Keys(sliverReport.refused)), slices.Sorted(maps.Keys(sliverReport.unanswered)), sliverReport.wrong
	})
	return x
}

// references are ends of the story without some of its chapters, told undisturbed.
type references map[string]map[string]string

func (r references) without(t *testing.T, chapters []int) map[string]string {
	t.Helper()
	k := fmt.Sprint(chapters)
	if r[k] == nil {
		skip := map[int]bool{}
		for _, c := range chapters {
			skip[c] = true
		}
		x := listen(t, skip, nil)
		for _, w := range x.wrong {
			t.Errorf("undisturbed, without %v: %s", chapters, w)
		}
		r[k] = x.end
	}
	return r[k]
}

// agrees reports whether a telling ended as it may: as the undisturbed story without
// what was refused, each chapter of which nobody knows being there or not, but for
// slivers that have failed with a reason. differs is how not.
func (r references) agrees(t *testing.T, x telling) (failed int, differs string) {
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
