package modeltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"patchbay/am"
	"patchbay/am/api"
	"patchbay/am/service"
	"patchbay/am/service/dryrun"
	"patchbay/am/service/policy"
	"patchbay/am/site/clock"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/am/testkit/disk"
	"patchbay/am/urn"
	"patchbay/am/work"
	"patchbay/credentials"
	"patchbay/inventory"
	"patchbay/rspec"
)

// offer is the inventory of most tests: few components, so that calls compete for them.
var offer = offerOf("pc1..pc4", "3", "3")

// offerOf returns an inventory with exclusive components, given as a range of names, and two
// shared components with these numbers of slots.
func offerOf(exclusive, slots1, slots2 string) string {
	return strings.NewReplacer("EXCLUSIVE", exclusive, "SLOTS1", slots1, "SLOTS2", slots2).Replace(`
provider: metal
default_sliver_type: raw-pc
unknown_image: default
exclusive_on_shared: grant
cleaning_time: 30s
hardware_types: [pc]
images:
  - name: debian-12
    os: Linux
    version: "12"
sliver_types:
  - name: raw-pc
    images: [debian-12]
    default_image: debian-12
  - name: vm
    needs: {slots: 1}
    images: [debian-12]
    default_image: debian-12
components:
  - names: EXCLUSIVE
    exclusive: true
    sliver_types: [raw-pc]
    hardware_types: [pc]
  - names: host1..host1
    exclusive: false
    provider: cloud
    sliver_types: [vm]
    hardware_types: [pc]
    capacity: {slots: SLOTS1}
  - names: host2..host2
    exclusive: false
    provider: cloud
    sliver_types: [vm]
    hardware_types: [pc]
    capacity: {slots: SLOTS2}
`)
}

// environment has the parts of a site that outlive its process: the store's file, the
// machines of its providers, and the clock.
type environment struct {
	t           testing.TB
	sharedUsers *testUsers
	dir         string
	file        string
	inv         *inventory.Inventory
	providers   map[string]*fakeProvider // by the provider's name
	limits      work.Limits
	leases      service.Leases // the usual ones if zero
	log         *slog.Logger
	// clock outlives a process, since a process that starts trusts the host's clock.
	clock *clock.Clock
	// groupWrites lets several decisions share a write. It is not possible in a bubble.
	groupWrites bool
	// context is the context of all calls.
	context context.Context
	// probed are the providers that are called for a dry run before a reservation.
	probed map[string]bool

	began time.Time  // when the environment was created
	mu    sync.Mutex // guards the fields below
	// ahead is how far the host's clock is ahead of the time of the bubble. trustedAhead is
	// how far the site's time must be ahead of it.
	ahead, trustedAhead time.Duration
	calls               int
	written             int // the number of writes by all processes
	// before is called before write number n; if it returns an error, the write fails. after
	// is called when the write is done, before any caller gets an answer. Both may end the
	// process with die.
	before func(n int) error
	after  func(n int)
}

// site is one process: all packages, connected over an environment.
type site struct {
	*environment
	store      *store.Store
	writes     disk.Writes
	inventory  atomic.Pointer[inventory.Inventory]
	svc        *service.Service
	api        *api.API
	runner     *work.Runner
	operations *operate.Operations
	dead       atomic.Bool
	died       chan struct{} // closed when it dies
	cancel     context.CancelFunc
	ticking    sync.WaitGroup
	ended      chan error
}

var errDead = errors.New("the process is dead")

// live runs f in a synctest bubble. Nothing of the process may be left when it ends.
func live(t *testing.T, f func(*environment)) {
	t.Helper()
	loadUsers(t) // outside: it is for all tests
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(began))
		f(newEnvironment(t, offer))
	})
}

// newEnvironment returns an environment without a process.
func newEnvironment(t testing.TB, offer string) *environment {
	t.Helper()
	w := &environment{t: t, sharedUsers: loadUsers(t), dir: scratch(t), began: time.Now(), providers: map[string]*fakeProvider{}, log: slog.New(slog.NewTextHandler(io.Discard, nil)), context: t.Context()}
	w.file = filepath.Join(w.dir, "store")
	w.offer(offer)
	return w
}

// offer sets the inventory, and makes the providers that it names.
func (w *environment) offer(text string) {
	w.t.Helper()
	var err error
	if w.inv, err = inventory.Parse([]byte(text), "inventory.yaml", authority); err != nil {
		w.t.Fatal(err)
	}
	for _, c := range w.inv.Components {
		r := w.providers[c.Provider]
		if r == nil {
			r = newFakeProvider()
			w.providers[c.Provider] = r
		}
		if c.Exclusive {
			r.with(func() { r.single[c.Name] = true })
		}
	}
}

// scratch returns a folder in memory if there is one, since thousands of steps write
// and the disk is not under test.
func scratch(t testing.TB) string {
	t.Helper()
	const memory = "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "patchbay-life-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// now returns the expected time of the site.
func (w *environment) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.trustedAhead)
}

// host reads the host's clocks; the wall clock can be set.
func (w *environment) host() (wall time.Time, steady time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead), time.Hour + time.Since(w.began)
}

func (w *environment) nextID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	return fmt.Sprintf("call-%d", w.calls)
}

// open starts a process, which runs until stop or kill.
func (w *environment) open() *site {
	w.t.Helper()
	s := &site{environment: w, died: make(chan struct{}), ended: make(chan error, 1)}
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	var err error
	if w.clock == nil {
		w.clock = clock.New(clock.Options{Read: w.host, Synced: func() bool { return false }})
	}
	// Each write has one decision. With more, the committer would wait for further commits,
	// which do not arrive while time stands still in a bubble.
	s.writes = disk.Writes{Path: w.file, Fail: s.beforeWrite}
	options := store.Options{Now: s.clock.Now, MaxGroup: 1, Site: authority, Write: s.publish}
	if w.groupWrites {
		options.MaxGroup = 0
	}
	s.store, err = store.Open(w.file, options)
	must(err)
	s.inventory.Store(w.inv)
	rules := policy.New(nil)
	s.runner = work.New(work.Config{
		Store: s.store, Components: s.component, Log: w.log, Limits: w.limits,
		ProviderNames: func() []string { return []string{"metal", "cloud"} }, RemoveOrphans: true,
		Providers: func(name string) (work.Provider, error) { return w.providers[name], nil },
		Begin:     func(v *store.View, limit int) (store.ChangeSet, []am.Sliver, error) { return s.svc.Begin(v, limit) },
		Deadline:  func(v *store.View, x *am.Sliver) time.Time { return s.svc.Deadline(v, x) },
	})
	reading := rspec.ReadOptions{Managers: []urn.URN{w.inv.Manager}, LinkTypes: w.inv.LinkTypes}
	again := reading
	again.Stored = true
	var prober service.Prober
	if len(w.probed) > 0 {
		prober = dryrun.New(dryrun.Config{Components: s.component, Log: w.log,
			Providers: func(name string) (dryrun.Provider, bool) { return w.providers[name], w.probed[name] }})
	}
	s.svc = service.New(service.Config{
		Store: s.store, Inventory: &s.inventory, Policy: rules, Leases: w.leases, GeneratedBy: "patchbay", Reading: again, Runner: s.runner,
		Prober: prober,
	})
	s.operations = operate.New(operate.Config{
		Store: s.store, Inventory: s.inventory.Load, Wake: s.runner.Wake, Manifest: s.svc.Inspect,
		AllocatedMax: w.leases.AllocatedMax, ProvisionedMax: w.leases.ProvisionedMax,
	})
	s.api = api.New(s.svc, credentials.New(w.sharedUsers.anchors, credentials.Config{}), api.Config{
		Manager: w.inv.Manager, PublicURL: "https://am.example.org", SoftwareVersion: "test", Reading: reading, Now: s.clock.Now,
	})
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() { s.ended <- s.runner.Run(ctx) }()
	s.ticking.Go(func() { s.clock.Run(ctx, w.log) })
	w.t.Cleanup(func() { s.kill() })
	return s
}

func (s *site) component(u urn.URN) (string, string, bool) {
	c, ok := s.inventory.Load().Component(u)
	if !ok {
		return "", "", false
	}
	return c.Name, c.Provider, true
}

// beforeWrite counts the writes of the store and makes some fail.
func (s *site) beforeWrite() error {
	if s.isDead() {
		return errDead
	}
	s.mu.Lock()
	s.written++
	n, before := s.written, s.before
	s.mu.Unlock()
	var err error
	if before != nil {
		err = before(n)
	}
	if s.isDead() {
		return errDead
	}
	return err
}

// publish is the store's Options.Write. It makes some writes fail, and calls after when a write is
// done, before any caller gets an answer. The writes of store.Open do not count.
func (s *site) publish(write func() error) error {
	if s.store == nil {
		return write()
	}
	if err := s.writes.Wrap(write); err != nil {
		return err
	}
	s.mu.Lock()
	n, after := s.written, s.after
	s.mu.Unlock()
	if after != nil {
		after(n)
	}
	return nil
}

// die ends the process here: nothing more is written or answered. Call kill to clean
// up.
func (s *site) die() {
	if !s.dead.Swap(true) {
		close(s.died)
	}
}

func (s *site) isDead() bool { return s.dead.Load() }

// kill ends the process at once, wherever it is.
func (s *site) kill() {
	s.die()
	if s.cancel == nil {
		return
	}
	s.stop()
}

// stop ends the process in order.
func (s *site) stop() {
	if s.cancel == nil {
		return
	}
	s.cancel()
	s.cancel = nil
	if err := <-s.ended; err != nil && !s.isDead() {
		s.t.Errorf("the runner ended: %v", err)
	}
	s.ticking.Wait()
	if err := s.store.Close(); err != nil {
		s.t.Errorf("the store does not close: %v", err)
	}
	s.dead.Store(true) // further calls get no answer
}

// as returns a caller: a user with a credential over a slice.
func (s *site) as(who *user, slice, credential string) *caller {
	return &caller{s, who, name("slice", slice), credential}
}

// alice returns a caller with alice's own credential over a slice.
func (s *site) alice(slice string, lasts time.Duration) *caller {
	s.t.Helper()
	return s.as(s.sharedUsers.alice, slice, s.sharedUsers.over(s.t, slice, lasts))
}

// thaw lifts the shutdown of a slice, as an operator does.
func (s *site) thaw(slice string) error {
	_, err := s.operations.Thaw(s.context, operate.Thaw{Slice: name("slice", slice), ReleaseExpired: true, Operator: "olga"})
	return err
}

// records returns all slivers and tasks by the sliver's name.
func (s *site) records() (slivers map[string]am.Sliver, tasks map[string]am.Task) {
	s.t.Helper()
	slivers, tasks = map[string]am.Sliver{}, map[string]am.Task{}
	err := s.store.Read(func(v *store.View) error {
		return errors.Join(
			v.Slivers(func(x am.Sliver) bool { slivers[x.URN.Name] = x; return true }),
			v.Tasks(func(x am.Task) bool { tasks[x.Sliver.Name] = x; return true }))
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return slivers, tasks
}

// shut returns the names of the slices that are shut down.
func (s *site) shut() map[string]bool {
	s.t.Helper()
	shut := map[string]bool{}
	err := s.store.Read(func(v *store.View) error {
		return v.Slices(func(x am.Slice) bool { shut[x.URN.Name] = !x.Shutdown.IsZero(); return true })
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return shut
}

// settle lets time pass until no work is left, and reports whether that happens within
// limit.
func (s *site) settle(limit time.Duration) bool {
	s.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(time.Second) {
		synctest.Wait()
		_, tasks := s.records()
		var due []am.Sliver
		if err := s.store.Read(func(v *store.View) (err error) { due, _, err = v.Due(1); return err }); err != nil {
			s.t.Fatal(err)
		}
		if len(tasks)+len(due) == 0 {
			return true
		}
		if s.isDead() || time.Now().After(end) {
			return false
		}
	}
}
