package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"patchbay/am"
	"patchbay/am/service/lease"
	"patchbay/am/store"
	"patchbay/am/urn"
	setup "patchbay/rspec/step"
)

var (
	pending   = am.Status{Allocation: am.Provisioned, Operational: am.PendingAllocation}
	allocated = am.Status{Allocation: am.Allocated, Operational: am.PendingAllocation}
	notReady  = am.Status{Allocation: am.Provisioned, Operational: am.NotReady}
	ready     = am.Status{Allocation: am.Provisioned, Operational: am.Ready}
	failed    = am.Status{Allocation: am.Provisioned, Operational: am.Failed}
)

// A sliver is called SLICE-N, and so is its resource.
func sliverURN(name string) urn.URN {
	return urn.URN{Authority: "example.org", Type: urn.Sliver, Name: name}
}

func sliceURN(name string) urn.URN {
	s, _, _ := strings.Cut(name, "-")
	return urn.URN{Authority: "example.org", Type: urn.Slice, Name: s}
}

// env has a store, a provider and a runner.
type env struct {
	t    testing.TB
	path string
	st   *store.Store
	d    *double
	// providers, when set, replaces the one provider.
	providers  func(string) (Provider, error)
	components func(urn.URN) (string, string, bool)
	interfaces func(urn.URN) string
	limits     Limits
	clock      func() time.Time
	// wrap, when set, stands between the runner and the store.
	wrap func(Store) Store

	strict        bool // services must succeed
	remove        bool // orphans, as the policy says
	log           *slog.Logger
	orphansListed func(context.Context)
	await         func(context.Context)
	found         func()
	begin         func(*store.View, int) (store.ChangeSet, []am.Sliver, error)

	r    *Runner
	stop func() error
}

func newEnv(t testing.TB, places int) *env {
	e := &env{t: t, path: filepath.Join(t.TempDir(), "store.db"), d: newDouble(places), clock: time.Now}
	e.open()
	t.Cleanup(func() { e.st.Close() })
	return e
}

func (e *env) open() {
	e.t.Helper()
	// One decision a write: with more, the committer waits for others by the clock,
	// which stands still in a bubble.
	st, err := store.Open(e.path, store.Options{Now: func() time.Time { return e.clock() }, MaxGroup: 1})
	if err != nil {
		e.t.Fatal(err)
	}
	e.st = st
}

// start runs a new runner; stop, or the end of the test, ends it.
func (e *env) start() {
	var s Store = e.st
	if e.wrap != nil {
		s = e.wrap(s)
	}
	providers := e.providers
	if providers == nil {
		providers = func(string) (Provider, error) { return e.d, nil }
	}
	components := e.components
	if components == nil {
		components = func(u urn.URN) (string, string, bool) { return u.Name, "double", u.Name != "unknown" }
	}
	e.r = New(Config{
		Store:      s,
		Components: components,
		Interfaces: e.interfaces,
		Providers:  providers,
		Log:        cmp.Or(e.log, slog.New(slog.NewTextHandler(io.Discard, nil))),
		Limits:     e.limits,
		Await:      e.await,

		ServicesMustSucceed: e.strict,
		ProviderNames:       func() []string { return []string{"double"} },
		RemoveOrphans:       e.remove,
		OrphansListed:       e.orphansListed,
		Found:               e.found,
		Begin:               e.begin,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.r.Run(ctx) }()
	stopped := false
	e.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	stop := e.stop
	e.t.Cleanup(func() { stop() })
}

func (e *env) commit(d store.Decision) {
	e.t.Helper()
	if err := e.st.Commit(context.Background(), d); err != nil {
		e.t.Fatal(err)
	}
	if e.r != nil {
		e.r.Wake()
	}
}

// allocate makes slivers with leases of a day.
func (e *env) allocate(names ...string) {
	e.t.Helper()
	e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		for _, n := range names {
			cs.PutSlice(am.Slice{URN: sliceURN(n)})
			cs.PutDocument(am.Document{ID: "doc-" + sliceURN(n).Name, Slice: sliceURN(n), Text: []byte("<rspec/>")})
			cs.PutSliver(am.Sliver{
				URN: sliverURN(n), Slice: sliceURN(n), ClientID: n, Hostname: n, Document: "doc-" + sliceURN(n).Name,
				Component: componentURN("pc1"), SliverType: "raw-pc", Image: "img",
				Setup:  []setup.Step{{Kind: setup.Execute, Shell: "sh", Command: "true"}},
				Status: allocated, Created: v.Now(), Expires: v.Now().Add(24 * time.Hour),
			})
		}
		return cs, nil
	})
}

// desire changes a sliver as the service does for an action: the next status, the desired state, a
// new generation and its task.
func desire(v *store.View, cs *store.ChangeSet, name string, ev am.Event, goal am.Goal, change func(*am.Desired)) error {
	s, _, err := v.Sliver(sliverURN(name))
	if err != nil {
		return err
	}
	if s.Status, err = am.Next(s.Status, ev); err != nil {
		return err
	}
	change(&s.Desired)
	s.Generation++
	cs.PutSliver(s)
	cs.PutTask(am.Task{Sliver: s.URN, Generation: s.Generation, Goal: goal, Since: v.Now(), Request: "req-" + name})
	return nil
}

func (e *env) do(ev am.Event, goal am.Goal, change func(*am.Desired), names ...string) {
	e.t.Helper()
	e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		for _, n := range names {
			if err := desire(v, &cs, n, ev, goal, change); err != nil {
				return cs, err
			}
		}
		return cs, nil
	})
}

func (e *env) provision(names ...string) {
	e.t.Helper()
	e.do(am.EventProvision, am.GoalMake, func(d *am.Desired) { d.Present = true }, names...)
}

func (e *env) on(names ...string) {
	e.t.Helper()
	e.do(am.ActionStart, am.GoalStart, func(d *am.Desired) { d.On = true }, names...)
}

func (e *env) release(names ...string) {
	e.t.Helper()
	e.commit(func(v *store.View) (cs store.ChangeSet, err error) {
		var all []am.Sliver
		for _, n := range names {
			s, _, err := v.Sliver(sliverURN(n))
			if err != nil {
				return cs, err
			}
			all = append(all, s)
		}
		return cs, lease.Release(v, &cs, all, am.EventDelete, "req-delete")
	})
}

// sliver is the record, or a zero one.
func (e *env) sliver(name string) (s am.Sliver) {
	e.t.Helper()
	err := e.st.Read(func(v *store.View) (err error) { s, _, err = v.Sliver(sliverURN(name)); return err })
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		e.t.Fatal(err)
	}
	return s
}

func (e *env) task(name string) (x am.Task, ok bool) {
	e.t.Helper()
	err := e.st.Read(func(v *store.View) (err error) { x, _, err = v.Task(sliverURN(name)); return err })
	return x, err == nil
}

func (e *env) exists(name string) bool { return !e.sliver(name).URN.IsZero() }

// within waits until f holds, which must be before d is over.
func (e *env) within(d time.Duration, what string, f func() bool) {
	e.t.Helper()
	start := time.Now()
	for !f() {
		if time.Since(start) > d {
			e.t.Fatalf("not within %v: %s", d, what)
		}
		time.Sleep(max(10*time.Millisecond, d/200))
	}
}

func (e *env) becomes(d time.Duration, want am.Status, names ...string) {
	e.t.Helper()
	for start := time.Now(); ; time.Sleep(max(10*time.Millisecond, d/200)) {
		var late string
		err := e.st.Read(func(v *store.View) error {
			for _, n := range names {
				s, _, err := v.Sliver(sliverURN(n))
				if err != nil {
					return err
				}
				if s.Status != want || v.Rev(store.TaskKey(s.URN)) != 0 {
					late = fmt.Sprintf("%s is %v, error %q", n, s.Status, s.Error)
					return nil
				}
			}
			return nil
		})
		switch {
		case err != nil:
			e.t.Fatal(err)
		case late == "":
			return
		case time.Since(start) > d:
			e.t.Fatalf("not within %v %v: %s", d, want, late)
		}
	}
}

// makeReady takes slivers from nothing to ready.
func (e *env) makeReady(names ...string) {
	e.t.Helper()
	e.allocate(names...)
	e.provision(names...)
	e.becomes(time.Minute, notReady, names...)
	e.on(names...)
	e.becomes(time.Minute, ready, names...)
}

// kept checks that no call violated the rules for providers.
func (e *env) kept() {
	e.t.Helper()
	e.d.with(func() {
		for _, b := range e.d.broken {
			e.t.Error("the provider saw ", b)
		}
	})
}

// bubble runs a test with a runner in a bubble of its own time.
func bubble(t *testing.T, places int, f func(*env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, places)
		f(e)
		e.kept()
	})
}

// records returns the contents of the store, without times, as a line.
func (e *env) records() string {
	e.t.Helper()
	var b strings.Builder
	err := e.st.Read(func(v *store.View) error {
		return errors.Join(
			v.Slices(func(s am.Slice) bool { fmt.Fprintf(&b, "slice %s; ", s.URN.Name); return true }),
			v.Slivers(func(s am.Sliver) bool {
				fmt.Fprintf(&b, "sliver %s %v gen %d on %v %q; ", s.URN.Name, s.Status, s.Generation, s.Desired.On, s.Error)
				return true
			}),
			v.Tasks(func(x am.Task) bool { fmt.Fprintf(&b, "task %s %s; ", x.Sliver.Name, x.Goal); return true }),
		)
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return b.String()
}

// onComponent moves an allocated sliver.
func onComponent(name, component string) store.Decision {
	return func(v *store.View) (cs store.ChangeSet, err error) {
		s, _, err := v.Sliver(sliverURN(name))
		s.Component = componentURN(component)
		cs.PutSliver(s)
		return cs, err
	}
}
