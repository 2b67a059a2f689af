package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory/provider"
)

// liar is a double that gives wrong answers.
type liar struct {
	*double
	// look changes the answer about a node; it gets the number of gets for it. If nil,
	// answers are right. It may omit the node.
	look func(n int, name string, r provider.Resource) provider.Resource
	// more is in each answer beside the nodes that were asked for.
	more map[string]provider.Result
	// late is a set that makes its changes after its timeout.
	late bool

	looks map[string]int
	said  map[string]bool // the last get called it absent
}

func (l *liar) Get(ctx context.Context, names []string) (map[string]provider.Result, error) {
	found, err := l.double.Get(ctx, names)
	if slices.Equal(names, []string{pollName}) {
		return found, err // a poll ignores the content of the answer
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for name, res := range found {
		l.looks[name]++
		if l.look != nil {
			res.Resource = l.look(l.looks[name], name, res.Resource)
		}
		if res.Resource == nil { // provider.Provider does so for an omitted node
			res.Resource, res.LeftOut = provider.Resource{"name": name, "ensure": "absent"}, true
		}
		found[name] = res
		l.said[name] = res.Resource.Text("ensure") == "absent"
	}
	for name, res := range l.more {
		found[name] = res
	}
	return found, nil
}

func (l *liar) Set(ctx context.Context, us []provider.Update, noop bool) ([]provider.Change, error) {
	if l.late {
		l.with(func() { l.sets++ })
		<-ctx.Done()
		l.with(func() { l.sets-- })
		time.AfterFunc(time.Second, func() {
			l.with(func() {
				for _, u := range us {
					l.apply(u)
				}
			})
		})
		return nil, ctx.Err()
	}
	return l.double.Set(ctx, us, noop)
}

// custodian is a store that is called before each record is deleted.
type custodian struct {
	Store
	freed func(name string)
}

func (c custodian) Commit(ctx context.Context, d store.Decision) error {
	return c.Store.Commit(ctx, func(v *store.View) (store.ChangeSet, error) {
		cs, err := d(v)
		for _, k := range cs.Delete {
			if u, bad := urn.Parse(k.ID); k.Kind == store.Slivers && bad == nil {
				c.freed(u.Name)
			}
		}
		return cs, err
	})
}

// TestLyingProviders uses a provider that lies, forgets, hangs or dies, and checks
// the final state. In every row no component is freed before a get has reported the node
// absent, and a final Delete removes everything.
func TestLyingProviders(t *testing.T) {
	made := func(e *env, _ *liar) { e.makeReady("a-1", "a-2") }
	bend := func(attribute string, value provider.Value) func(int, string, provider.Resource) provider.Resource {
		return func(_ int, name string, r provider.Resource) provider.Resource {
			if name == "a-1" && !provider.Gone(r) {
				r[attribute] = value
			}
			return r
		}
	}
	start := func(e *env) {
		e.allocate("a-1", "a-2")
		e.provision("a-1", "a-2")
		e.becomes(3*time.Hour, notReady, "a-2")
	}
	for _, tt := range []struct {
		rule string
		play func(e *env, l *liar)
		want string // the end of a-1: state and error
		node string // and of its node: "on", "off" or "none"
	}{
		{"set says done, and get never shows it: given up, naming what is missing", func(e *env, l *liar) {
			l.lies["a-1"] = true
			start(e)
			e.within(time.Hour, "it has failed", func() bool { return e.sliver("a-1").Status == failed })
		}, `geni_failed "its provider accepted a change that has not happened: client_id, component, ensure, hostname, image, power, restart_serial, setup_stage, slice_urn, sliver_type, sliver_urn"`, "none"},
		{"one attribute never follows: the same, and what was made is undone", func(e *env, l *liar) {
			l.look = bend("image", "other")
			start(e)
			e.becomes(time.Hour, failed, "a-1")
		}, `geni_failed "its provider accepted a change that has not happened: image"`, "none"},
		{"switching on never shows: failed, and the node stays", func(e *env, l *liar) {
			start(e)
			l.with(func() { l.look = bend("power", "off") })
			e.on("a-1")
			time.Sleep(time.Hour)
		}, `geni_failed "its provider accepted a change that has not happened: power"`, "on"},
		{"switched off behind our back: switched on again, once", func(e *env, l *liar) {
			made(e, l)
			l.with(func() { l.nodes["a-1"].is["power"] = "off" })
			e.within(time.Minute, "it is on again", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.nodes["a-1"].is["power"] == "on" })
			e.becomes(time.Minute, ready, "a-1")
		}, `geni_ready ""`, "on"},
		{"and again within the hour: left so, and told", func(e *env, l *liar) {
			made(e, l)
			for range 2 {
				l.with(func() { l.nodes["a-1"].is["power"] = "off" })
				time.Sleep(2 * time.Minute)
			}
		}, `geni_ready "it differs from its desired state (power), again within an hour after a repair; it is not repaired now"`, "off"},
		{"and an hour later once more", func(e *env, l *liar) {
			made(e, l)
			for range 2 {
				l.with(func() { l.nodes["a-1"].is["power"] = "off" })
				time.Sleep(62 * time.Minute)
			}
		}, `geni_ready ""`, "on"},
		{"off for one look only: nothing is done", func(e *env, l *liar) {
			made(e, l)
			sets := e.sets("a-1")
			l.with(func() {
				first := l.looks["a-1"] + 1
				l.look = func(n int, name string, r provider.Resource) provider.Resource {
					if name == "a-1" && n == first {
						r["power"] = "off"
					}
					return r
				}
			})
			time.Sleep(5 * time.Minute)
			if n := e.sets("a-1"); n != sets || e.sliver("a-1").Generation != 2 {
				e.t.Errorf("%d sets more", n-sets)
			}
		}, `geni_ready ""`, "on"},
		{"switched on behind our back: switched off", func(e *env, l *liar) {
			start(e)
			l.with(func() { l.nodes["a-1"].is["power"] = "on" })
			time.Sleep(2 * time.Minute)
		}, `geni_notready ""`, "off"},
		{"accounts that nobody asked for: taken away", func(e *env, l *liar) {
			made(e, l)
			l.with(func() { l.nodes["a-1"].is["users"] = []string{`{"login":"mallory","keys":["ssh-ed25519 AAAA"]}`} })
			time.Sleep(2 * time.Minute)
			if len(e.sliver("a-1").Observed.Accounts) != 0 {
				e.t.Errorf("accounts %+v", e.sliver("a-1").Observed.Accounts)
			}
		}, `geni_ready ""`, "on"},
		{"drifted, and it cannot be put right: failed with the provider's words", func(e *env, l *liar) {
			made(e, l)
			l.with(func() {
				l.nodes["a-1"].is["power"] = "off"
				l.refuses["a-1"] = refusing(provider.Failed, "no power at rack 7", true)
			})
			time.Sleep(time.Hour)
		}, `geni_failed "no power at rack 7"`, "off"},
		{"users that were refused stay told, and are not asked for again", func(e *env, l *liar) {
			made(e, l)
			l.with(func() { l.refuses["a-1"] = refusing(provider.Forbidden, "no more accounts", false) })
			e.do(am.ActionUpdateUsers, am.GoalUsers, func(d *am.Desired) { d.Accounts = []am.Account{{Login: "bob"}} }, "a-1")
			time.Sleep(3 * time.Hour)
			if e.sliver("a-1").Generation != 3 {
				e.t.Errorf("generation %d", e.sliver("a-1").Generation)
			}
		}, `geni_ready "no more accounts"`, "on"},
		{"get leaves a node out while it is made: it is asked for again, and made", func(e *env, l *liar) {
			l.look = func(n int, name string, r provider.Resource) provider.Resource {
				if name == "a-1" && n < 5 {
					return nil
				}
				return r
			}
			start(e)
			e.becomes(time.Minute, notReady, "a-1")
		}, `geni_notready ""`, "off"},
		{"get leaves it out for good later: lost, and its node stays for whoever finds it", func(e *env, l *liar) {
			made(e, l)
			l.with(func() {
				l.look = func(_ int, name string, r provider.Resource) provider.Resource {
					if name == "a-1" {
						return nil
					}
					return r
				}
			})
			time.Sleep(time.Hour)
			l.with(func() { l.look = nil })
		}, `geni_failed "its provider no longer has it: it was removed or lost there; delete it and allocate it again"`, "on"},
		{"get tells of others: they are passed over", func(e *env, l *liar) {
			l.with(func() {
				l.more = map[string]provider.Result{"b-7": {Resource: provider.Resource{"name": "b-7", "ensure": "present", "power": "on"}}, "": {}}
			})
			made(e, l)
		}, `geni_ready ""`, "on"},
		{"set refuses some: the others are made", func(e *env, l *liar) {
			l.refuses["a-1"] = refusing(provider.Unsupported, "no such disk here", false)
			start(e)
			l.with(func() { clear(l.refuses) })
			e.becomes(time.Hour, failed, "a-1")
		}, `geni_failed "no such disk here"`, "none"},
		{"set never ends: given up", func(e *env, l *liar) {
			l.hangs["a-1"] = true
			start(e)
			e.within(time.Hour, "it has failed", func() bool { return e.sliver("a-1").Status == failed })
			l.with(func() { clear(l.hangs) })
			e.becomes(time.Hour, failed, "a-1")
		}, `geni_failed "its provider double did not answer"`, "none"},
		{"get never ends: given up", func(e *env, l *liar) {
			l.getHangs["a-1"] = true
			start(e)
			e.within(time.Hour, "it has failed", func() bool { return e.sliver("a-1").Status == failed })
			l.with(func() { clear(l.getHangs) })
			e.becomes(time.Hour, failed, "a-1")
		}, `geni_failed "its provider double did not answer"`, "none"},
		{"set dies before it has done anything: tried again", func(e *env, l *liar) {
			l.dies["a-1"] = true
			e.allocate("a-1", "a-2")
			e.provision("a-1", "a-2")
			time.Sleep(5 * time.Second)
			l.with(func() { clear(l.dies) })
			e.becomes(time.Minute, notReady, "a-1", "a-2")
		}, `geni_notready ""`, "off"},
		{"set does its work after its time: get finds it", func(e *env, l *liar) {
			l.late = true
			e.allocate("a-1")
			e.provision("a-1")
			e.becomes(5*time.Minute, notReady, "a-1")
			time.Sleep(time.Minute)
			l.late = false
		}, `geni_notready ""`, "off"},
		{"absent and ready at once: absent counts, and it is given up", func(e *env, l *liar) {
			l.look = bend("ensure", "absent")
			start(e)
			e.within(time.Hour, "it has failed", func() bool { return e.sliver("a-1").Status == failed })
			l.with(func() { l.look = nil })
		}, `geni_failed "its provider accepted a change that has not happened: ensure"`, "off"},
		{"ready without a login: ready, for its provider says so", func(e *env, l *liar) {
			l.look = func(_ int, _ string, r provider.Resource) provider.Resource {
				delete(r, "login")
				return r
			}
			made(e, l)
			if n := len(e.sliver("a-1").Observed.Logins); n != 0 {
				e.t.Errorf("%d logins", n)
			}
		}, `geni_ready ""`, "on"},
		{"changing for ever: given up, and undone", func(e *env, l *liar) {
			l.look = bend("state", "changing")
			start(e)
			e.within(3*time.Hour, "it has failed", func() bool { return e.sliver("a-1").Status == failed })
			l.with(func() { l.look = nil })
			e.becomes(time.Hour, failed, "a-1")
		}, `geni_failed "it is still changing after 1h0m0s"`, "none"},
		{"ready and changing in turn: as soon as it is ready", func(e *env, l *liar) {
			l.look = func(n int, name string, r provider.Resource) provider.Resource {
				if name == "a-1" && n%2 == 0 && !provider.Gone(r) {
					r["state"] = "changing"
				}
				return r
			}
			start(e)
			e.becomes(time.Minute, notReady, "a-1")
		}, `geni_notready ""`, "off"},
		{"there and gone in turn: it stays, for the second look finds it", func(e *env, l *liar) {
			made(e, l)
			l.with(func() { // missing when a sweep begins, and back 2 s later
				l.look = func(_ int, name string, r provider.Resource) provider.Resource {
					if name == "a-1" && time.Now().Unix()%3 == 0 {
						return nil
					}
					return r
				}
			})
			time.Sleep(time.Hour)
		}, `geni_ready ""`, "on"},
		{"get fails for many: its nodes are asked about apart", func(e *env, l *liar) {
			l.with(func() { l.few = 1 })
			start(e)
			e.becomes(time.Minute, notReady, "a-1")
		}, `geni_notready ""`, "off"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				l := &liar{double: e.d, looks: map[string]int{}, said: map[string]bool{}}
				e.providers = func(string) (Provider, error) { return l, nil }
				e.wrap = func(s Store) Store {
					return custodian{s, func(name string) {
						l.mu.Lock()
						defer l.mu.Unlock()
						if !l.said[name] {
							t.Errorf("%s was freed before its provider called it absent", name)
						}
					}}
				}
				e.start()
				tt.play(e, l)
				l.with(func() { // a provider that reports a node absent gets its services again
					l.broken = slices.DeleteFunc(l.broken, func(b string) bool { return strings.HasPrefix(b, "setup told twice") })
				})
				s := e.sliver("a-1")
				if got := fmt.Sprintf("%s %q", s.Status.Operational, s.Error); got != tt.want {
					t.Errorf("it is %s\nwant %s", got, tt.want)
				}
				if got := e.power("a-1"); got != tt.node {
					t.Errorf("its node is %s, want %s", got, tt.node)
				}
				// The provider removes slowly and then works as before.
				l.with(func() { l.heal(); l.look, l.few, l.slow = nil, 0, 10*time.Second })
				for _, name := range []string{"a-1", "a-2"} {
					if e.exists(name) {
						e.release(name)
					}
				}
				e.within(20*time.Minute, "nothing is left", func() bool { return !e.exists("a-1") && !e.exists("a-2") })
				if e.node("a-1") || e.node("a-2") {
					t.Error("a node was left behind")
				}
			})
		})
	}
}

// power is the real state of a node.
func (e *env) power(name string) string {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	if n := e.d.nodes[name]; n != nil {
		return n.is.Text("power")
	}
	return "none"
}

// TestComponentIsFreeOnlyWhenAbsent checks when a component is free again after Delete.
func TestComponentIsFreeOnlyWhenAbsent(t *testing.T) {
	for _, tt := range []struct {
		rule string
		look func(r provider.Resource) provider.Resource
		fail error
		free bool
	}{
		{"absent", func(r provider.Resource) provider.Resource {
			return provider.Resource{"name": "a-1", "ensure": "absent"}
		}, nil, true},
		{"absent and ready", func(r provider.Resource) provider.Resource {
			return provider.Resource{"name": "a-1", "ensure": "absent", "state": "ready"}
		}, nil, true},
		{"absent, but changing", func(r provider.Resource) provider.Resource {
			return provider.Resource{"name": "a-1", "ensure": "absent", "state": "changing"}
		}, nil, false},
		{"present", func(r provider.Resource) provider.Resource {
			return provider.Resource{"name": "a-1", "ensure": "present", "power": "off"}
		}, nil, false},
		{"present and failed", func(r provider.Resource) provider.Resource {
			return provider.Resource{"name": "a-1", "ensure": "present", "state": "failed"}
		}, nil, false},
		{"present and changing", func(r provider.Resource) provider.Resource {
			return provider.Resource{"name": "a-1", "ensure": "present", "state": "changing"}
		}, nil, false},
		{"without ensure", func(r provider.Resource) provider.Resource { return provider.Resource{"name": "a-1"} }, nil, false},
		{"no answer", nil, errors.New("exit status 1"), false},
		{"an error about all", nil, &provider.Error{Kind: provider.Unknown, Msg: "who?"}, false},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				l := &liar{double: e.d, looks: map[string]int{}, said: map[string]bool{}}
				e.providers = func(string) (Provider, error) { return l, nil }
				e.start()
				e.makeReady("a-1")
				l.with(func() {
					l.breaks = tt.fail
					if tt.look != nil {
						l.look = func(_ int, _ string, r provider.Resource) provider.Resource { return tt.look(r) }
					}
				})
				e.release("a-1")
				time.Sleep(3 * time.Hour)
				if free := !e.exists("a-1"); free != tt.free {
					t.Errorf("free: %v, want %v", free, tt.free)
				}
				if x, ok := e.task("a-1"); ok && x.Attempt == 0 {
					t.Error("it waits without an error")
				}
				l.with(func() { l.breaks, l.look = nil, nil })
				e.within(10*time.Minute, "it is gone", func() bool { return !e.exists("a-1") })
			})
		})
	}
}

// TestAttemptsAreKeptAcrossRestarts checks that a restart changes neither the number of attempts
// of a task nor the wait between them.
func TestAttemptsAreKeptAcrossRestarts(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.d.refuses["a-1"] = refusing(provider.Failed, "no power", true)
		makes := 0
		e.d.watch = func(u provider.Update) {
			if u.Should.Text("ensure") == "present" {
				makes++
			} else {
				clear(e.d.refuses)
			}
		}
		e.start()
		e.allocate("a-1")
		e.provision("a-1")
		last := 0
		for start := time.Now(); e.sliver("a-1").Status != failed && time.Since(start) < time.Hour; time.Sleep(700 * time.Millisecond) {
			synctest.Wait() // the set is stored; otherwise it would be repeated
			if err := e.stop(); err != nil {
				t.Fatal(err)
			}
			x, _ := e.task("a-1")
			if x.Attempt < last {
				t.Errorf("attempt %d after %d", x.Attempt, last)
			}
			last = x.Attempt
			e.start()
		}
		e.becomes(time.Minute, failed, "a-1")
		if makes != 8 {
			t.Errorf("%d sets, want 8", makes)
		}
	})
}

// TestClockThatJumpsDoesNotStretchARetry checks that a retry never waits longer than after a
// failure just now, also if the clock jumps.
func TestClockThatJumpsDoesNotStretchARetry(t *testing.T) {
	for _, jump := range []time.Duration{-1000 * time.Hour, -time.Hour, time.Hour} {
		t.Run(fmt.Sprint(jump), func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				var off time.Duration
				e.clock = func() time.Time { return time.Now().Add(off) }
				e.d.refuses["a-1"] = refusing(provider.Failed, "no power", true)
				e.start()
				e.allocate("a-1")
				e.provision("a-1")
				e.within(time.Minute, "it has been tried", func() bool { x, _ := e.task("a-1"); return x.Attempt >= 2 })
				if err := e.stop(); err != nil {
					t.Fatal(err)
				}
				off = jump
				e.d.with(func() { clear(e.d.refuses) })
				e.start()
				e.becomes(76*time.Second, notReady, "a-1")
			})
		})
	}
}

// TestDriftIsInTheJournal checks that the journal has each repaired difference.
func TestDriftIsInTheJournal(t *testing.T) {
	bubble(t, 2, func(e *env) {
		e.start()
		e.makeReady("a-1")
		e.d.with(func() { e.d.nodes["a-1"].is["power"] = "off" })
		time.Sleep(2 * time.Minute)
		var found []string
		err := e.st.Read(func(v *store.View) error {
			return v.Journal(func(x am.JournalEntry) bool {
				if x.Event == driftEvent {
					found = append(found, x.Text)
				}
				return true
			})
		})
		if err != nil || len(found) != 1 || !strings.Contains(found[0], "(power)") {
			t.Errorf("journal %q, %v", found, err)
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
