package work

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"patchbay/am"
	"patchbay/inventory/provider"
)

// event is one thing that happens in a random run.
type event struct {
	what  string
	name  string
	after time.Duration
}

// Whatever methods ask for and however the provider behaves, once it behaves
// again every promise is kept, nothing else exists, and the provider got what
// it is promised at every moment.
func TestModelRandomLives(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		places := rapid.IntRange(1, 3).Draw(rt, "places")
		slow := time.Duration(rapid.IntRange(0, 3000).Draw(rt, "slow")) * time.Millisecond
		answer := time.Duration(rapid.IntRange(0, 700).Draw(rt, "answer")) * time.Millisecond
		one := rapid.Custom(func(rt *rapid.T) event {
			return event{
				what: rapid.SampledFrom([]string{"next", "next", "next", "release", "lease", "hang", "die", "lie", "refuse", "forbid", "getHang",
					"break", "heal", "vanish", "restart"}).Draw(rt, "what"),
				name:  rapid.SampledFrom([]string{"a-1", "a-2", "a-3", "b-1", "b-2", "c-1"}).Draw(rt, "name"),
				after: time.Duration(rapid.IntRange(0, 4000).Draw(rt, "after")) * time.Millisecond,
			}
		})
		events := rapid.SliceOfN(one, 1, 25).Draw(rt, "events")
		bad := ""
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t, places)
			e.racing = true
			e.d.slow, e.d.answer = slow, answer
			e.start()
			for _, x := range events {
				e.happen(x)
				time.Sleep(x.after)
			}
			e.d.with(e.d.heal)
			for range 90 { // removing may wait for five minutes
				if time.Sleep(10 * time.Second); !busy(e) {
					break
				}
			}
			time.Sleep(70 * time.Second) // two sweeps
			bad = e.wrong()
		})
		if bad != "" {
			rt.Fatal(bad)
		}
	})
}

func (d *double) heal() {
	clear(d.hangs)
	clear(d.getHangs)
	clear(d.dies)
	clear(d.lies)
	clear(d.refuses)
	d.breaks = nil
}

func (e *env) happen(x event) {
	switch x.what {
	case "next":
		switch s := e.sliver(x.name); {
		case s.URN.IsZero():
			e.allocate(x.name)
		case s.Status == allocated:
			e.provision(x.name)
		case s.Status == notReady:
			e.on(x.name)
		case s.Status == ready && s.Desired.RestartSerial == 0:
			e.do(am.ActionRestart, am.GoalRestart, func(d *am.Desired) { d.RestartSerial++ }, x.name)
		case s.Status == ready:
			e.do(am.ActionStop, am.GoalStop, func(d *am.Desired) { d.On = false }, x.name)
		}
	case "release":
		if s := e.sliver(x.name); !s.URN.IsZero() && s.Status.Allocation != am.Unallocated {
			e.release(x.name)
		}
	case "lease":
		if s := e.sliver(x.name); !s.URN.IsZero() && s.Status.Allocation != am.Unallocated {
			e.lease(x.name, time.Now().Add(x.after))
		}
	case "restart":
		if err := e.stop(); err != nil {
			e.t.Fatal(err)
		}
		e.start()
	default:
		e.d.with(func() {
			switch x.what {
			case "hang":
				e.d.hangs[x.name] = true
			case "getHang":
				e.d.getHangs[x.name] = true
			case "die":
				e.d.dies[x.name] = true
			case "lie":
				e.d.lies[x.name] = true
			case "refuse":
				e.d.refuses[x.name] = refusing(provider.Failed, "busy", true)
			case "forbid":
				e.d.refuses[x.name] = refusing(provider.Forbidden, "no", false)
			case "break":
				e.d.breaks = &provider.Error{Kind: provider.Failed, Msg: "broken", Temporary: true}
			case "heal":
				e.d.heal()
			case "vanish":
				if n := e.d.nodes[x.name]; n != nil && !e.d.inSet[x.name] {
					delete(e.d.nodes, x.name)
				}
			}
		})
	}
}

// wrong says what is not as it should be once all is quiet.
func (e *env) wrong() string {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	if len(e.d.broken) > 0 {
		return fmt.Sprintf("the provider saw %v", e.d.broken)
	}
	if busy(e) {
		return "there is no end of work: " + e.records()
	}
	for _, name := range []string{"a-1", "a-2", "a-3", "b-1", "b-2", "c-1"} {
		s, n := e.sliver(name), e.d.nodes[name]
		there := n != nil && n.is.Text("ensure") == "present"
		power := there && n.is.Text("power") == "on"
		switch {
		case s.URN.IsZero() || s.Status == allocated:
			if n != nil {
				return fmt.Sprintf("%s exists without a promise: %v", name, n.is)
			}
		case s.Status == ready:
			if !power || n.is.Text("restart_serial") != fmt.Sprint(s.Desired.RestartSerial) {
				return fmt.Sprintf("%s is ready, but there is %v", name, n)
			}
		case s.Status == notReady:
			if !there || power {
				return fmt.Sprintf("%s is made and off, but there is %v", name, n)
			}
		case s.Status == failed:
			if s.Error == "" {
				return name + " failed without a reason"
			}
			if n != nil && !s.Desired.Present {
				return fmt.Sprintf("%s was given up, and not undone: %v", name, n.is)
			}
		default:
			return fmt.Sprintf("%s stays in %v", name, s.Status)
		}
	}
	return ""
}
