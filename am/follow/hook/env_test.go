package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/am/urn"
)

func TestMain(m *testing.M) {
	if f := children[os.Getenv("HOOK_CHILD")]; f != nil {
		f()
		return
	}
	os.Exit(require.NoLeaks(m))
}

// children are the functions that the test binary runs instead of the tests when it is started
// again.
var children = map[string]func(){}

const site = "testbed.example.org"

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// patience is the limit for something that should happen soon.
const patience = time.Minute

func sliceURN(name string) urn.URN {
	return urn.MustParse("urn:publicid:IDN+example.org+slice+" + name)
}

func sliverURN(name string) urn.URN {
	return urn.MustParse("urn:publicid:IDN+testbed.example.org+sliver+" + name)
}

// reserved is a sliver of a slice, an hour before its lease ends.
func reserved(slice, name string) am.Sliver {
	return am.Sliver{
		URN: sliverURN(name), Slice: sliceURN(slice), ClientID: name,
		Component: urn.MustParse("urn:publicid:IDN+testbed.example.org+node+pc1"),
		Creator:   urn.MustParse("urn:publicid:IDN+example.org+user+alice"),
		Status:    am.Status{Allocation: am.Allocated, Operational: am.PendingAllocation},
		Expires:   noon.Add(time.Hour),
	}
}

// running is the sliver, provisioned, in an operational state.
func running(s am.Sliver, state am.OperationalState) am.Sliver {
	s.Status = am.Status{Allocation: am.Provisioned, Operational: state}
	return s
}

// clock is a clock that the test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

// bench is a store and the runner on it.
type bench struct {
	t      testing.TB
	file   string
	clock  *clock
	hooks  []Hook
	limits Limits
	take   func(ctx context.Context, hook string, e Event) error // instead of a program
	log    *slog.Logger                                          // nil for none
	still  bool                                                  // only the test looks at leases

	store  *store.Store
	runner *Runner
	stop   func()
}

// quick are limits that keep tests short.
var quick = Limits{RetryMin: time.Millisecond, RetryMax: 4 * time.Millisecond, Tick: 5 * time.Millisecond, Grace: 10 * time.Second}

func newBench(t testing.TB, hooks ...Hook) *bench {
	t.Helper()
	for i := range hooks {
		if hooks[i].Timeout == 0 {
			hooks[i].Timeout = patience
		}
	}
	b := &bench{t: t, file: filepath.Join(t.TempDir(), "state.db"), clock: &clock{now: noon}, hooks: hooks, limits: quick}
	t.Cleanup(func() { b.halt() })
	return b
}

// senderFunc is a function that takes events.
type senderFunc func(context.Context, Event) error

func (f senderFunc) send(ctx context.Context, e Event) error { return f(ctx, e) }

func (senderFunc) close() {}

// start opens the store, and a runner that delivers.
func (b *bench) start() {
	b.t.Helper()
	b.open()
	var err error
	b.runner, err = New(Config{Store: b.store, Site: site, Hooks: b.hooks, Log: cmp.Or(b.log, slog.New(slog.DiscardHandler)), Limits: b.limits})
	if err != nil {
		b.t.Fatal(err)
	}
	if b.take != nil {
		b.runner.sender = func(h *Hook) sender {
			return senderFunc(func(ctx context.Context, e Event) error { return b.take(ctx, h.Name, e) })
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	run := b.runner.Run
	if b.still {
		run = b.runner.deliver
	}
	go func() { ended <- run(ctx) }()
	b.stop = func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, store.ErrClosed) {
			b.t.Error(err)
		}
		b.stop = nil
	}
}

// open opens the store alone.
func (b *bench) open() {
	b.t.Helper()
	var err error
	if b.store, err = store.Open(b.file, store.Options{Now: b.clock.Now}); err != nil {
		b.t.Fatal(err)
	}
	if err := Follow(b.t.Context(), b.store, b.hooks); err != nil {
		b.t.Fatal(err)
	}
}

// halt stops what start has started.
func (b *bench) halt() {
	if b.stop != nil {
		b.stop()
	}
	if b.store != nil {
		b.store.Close()
		b.store = nil
	}
}

func (b *bench) commit(d store.Decision) {
	b.t.Helper()
	if err := b.store.Commit(context.Background(), d); err != nil {
		b.t.Fatal(err)
	}
}

// put writes slivers, in one change.
func (b *bench) put(slivers ...am.Sliver) {
	b.t.Helper()
	b.commit(func(*store.View) (cs store.ChangeSet, err error) {
		for _, s := range slivers {
			cs.PutSliver(s)
		}
		return cs, nil
	})
}

// waiting are the events that some hook has not taken, by the cursors in the store, oldest first.
func (b *bench) waiting() (list []Event) {
	b.t.Helper()
	err := b.store.Read(func(v *store.View) error {
		var workers []*worker
		for i := range b.hooks {
			w := &worker{hook: &b.hooks[i], taken: map[string]string{}}
			if err := w.begin(v); err != nil {
				return err
			}
			workers = append(workers, w)
		}
		return v.ChangesFrom(0, func(c store.Change) bool {
			for _, p := range eventsOf(site, &c) {
				if slices.ContainsFunc(workers, func(w *worker) bool { return w.needs(&p) }) {
					e, err := p.event()
					if err != nil {
						b.t.Error(err)
					}
					list = append(list, e)
				}
			}
			return true
		})
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// drained waits until all events are delivered.
func (b *bench) drained() {
	b.t.Helper()
	wait.Until(b.t, "all events taken", func() bool { return len(b.waiting()) == 0 })
}

// diary records the delivered events, in order.
type diary struct {
	mu   sync.Mutex
	told []Event
	by   []string
}

func (d *diary) take(_ context.Context, hook string, e Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told, d.by = append(d.told, e), append(d.by, hook)
	return nil
}

// lines returns the delivered events: hook, word, sliver's name.
func (d *diary) lines() (list []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, e := range d.told {
		list = append(list, d.by[i]+" "+line(e))
	}
	return list
}

func line(e Event) string {
	name := e.ClientID
	if name == "" {
		name = urn.MustParse(e.Slice).Name
	}
	return fmt.Sprintf("%s %s", e.Event, name)
}

func lines(list []Event) (out []string) {
	for _, e := range list {
		out = append(out, line(e))
	}
	return out
}

func indented(v any) string {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err)
	}
	return string(b) + "\n"
}
