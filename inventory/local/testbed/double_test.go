package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/local"
	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/gateway"
	"patchbay/inventory/local/hostalloc"
	"patchbay/inventory/local/node"
	"patchbay/inventory/local/setup"
	"patchbay/inventory/local/supervisor"
	"patchbay/inventory/provider"
)

// world is a host with nodes that are only told of. It outlives the testbeds
// that are opened in it one after the other.
type world struct {
	t        *testing.T
	dir      string
	settings local.Settings
	owner    int // of the settings
	log      *slog.Logger
	quiet    time.Duration

	mu       sync.Mutex
	running  map[string]*system // by node
	starts   map[string]int
	pids     int
	wrong    []string // what must never happen
	opens    map[string]gateway.Endpoint
	peers    map[string]map[netip.Addr]string
	fabric   map[string]*plugs // by slice
	fails    map[string]error  // operation → error, as long as it is there
	slow     map[string]chan struct{}
	done     map[string]int                // how often operations were asked for
	full     func(name string, v any) bool // what cannot be written, if not nil
	last     *mortal
	steps    map[string]*doubleStep  // by node and number
	begun    []string                // nodes and numbers of steps, in the order in which they began
	results  map[string]setup.Report // by URL or command: what comes of it at once
	oomKills map[string]int64        // by node
	died     map[string]bool         // nodes that ended without a kill
	booted   bool                    // and it was the host's boot
	overruns uint64                  // of each end
	noImages bool
}

// system is a node that runs.
type system struct {
	pid  int
	spec node.Spec
	cfg  agent.Configuration
	dead chan struct{}
}

// mortal is one process of "up": after some operations it does nothing more.
type mortal struct {
	w     *world
	left  int // operations until it is killed; below zero: it is not
	died  bool
	dying func()
}

var errDead = errors.New("killed")

// op counts an operation, and tells whether it is still done.
func (m *mortal) op(name string) error {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.opLocked(name)
}

func (m *mortal) opLocked(name string) error {
	if m.died {
		return errDead
	}
	if m.left == 0 {
		m.died = true
		go m.dying()
		return errDead
	}
	m.left--
	m.w.done[name]++
	return m.w.fails[name]
}

// do does an operation with the world's lock held, unless it fails.
func (m *mortal) do(name string, f func() error) error {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if err := m.opLocked(name); err != nil {
		return err
	}
	return f()
}

// wait waits as long as the operation is slow, or until who asks waits no longer; nil
// waits for ever.
func (w *world) wait(operation string, gone <-chan struct{}) error {
	w.mu.Lock()
	slow := w.slow[operation]
	w.mu.Unlock()
	if slow == nil {
		return nil
	}
	select {
	case <-slow:
		return nil
	case <-gone:
		return errors.New("nobody waits for it")
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	s, err := local.ReadSettings(filepath.Join(dir, "none.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.Instance, s.Component, s.PortRest = "testbed-t", "host1", 0
	s.FirstPort, s.LastPort, s.PublicHost = 30000, 30999, "lab.example.org"
	s.SliverTypes = append(s.SliverTypes, local.SliverType{Name: "big", CPUs: 4, Memory: 1 << 30, PIDs: 5000, Disk: 8 << 30})
	s.Listen = netip.MustParseAddr("127.0.0.1")
	owner := os.Getuid()
	if owner == 0 {
		owner = 1000
	}
	return &world{
		t: t, dir: dir, settings: s, owner: owner, log: slog.New(slog.DiscardHandler), running: map[string]*system{}, starts: map[string]int{},
		opens: map[string]gateway.Endpoint{}, peers: map[string]map[netip.Addr]string{}, fabric: map[string]*plugs{}, fails: map[string]error{}, slow: map[string]chan struct{}{}, done: map[string]int{},
		steps: map[string]*doubleStep{}, results: map[string]setup.Report{}, oomKills: map[string]int64{}, died: map[string]bool{},
	}
}

// up opens a testbed in the world. It is killed after some operations, or never
// if that is negative.
func (w *world) up(operations int) *Testbed {
	w.t.Helper()
	t := newTestbed(Options{
		Settings: w.settings, SettingsOwner: w.owner, State: filepath.Join(w.dir, "state"), Claims: filepath.Join(w.dir, "claims"),
		Socket: filepath.Join(w.dir, "x.sock"), Log: w.log,
	})
	m := &mortal{w: w, left: operations, dying: t.stop}
	w.mu.Lock()
	w.opens, w.peers, w.last = map[string]gateway.Endpoint{}, map[string]map[netip.Addr]string{}, m
	w.mu.Unlock()
	ids, err := hostalloc.IDs(t.o.Claims)
	if err == nil {
		err = t.lock()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	t.runtime, t.images, t.fabric = &doubleMachines{m}, doubleImages{m}, doubleFabric{m}
	t.userIDs, t.ports = doubleNumbers{m, ids}, doubleNumbers{m, t.ports}
	t.write = func(dir, name string, v any) error {
		if err := m.op("write"); err != nil {
			return err
		}
		w.mu.Lock()
		full := w.full
		w.mu.Unlock()
		if full != nil && full(name, v) {
			return errors.New("no space left on device")
		}
		return writeJSON(dir, name, v)
	}
	t.newKey = func() ([]byte, error) { return testKey(w.t), nil }
	t.linkDelay = time.Millisecond
	t.memoryTime, t.heartbeat = time.Millisecond, supervisor.Heartbeat{Every: time.Hour, Limit: 1}
	t.peerUpdateDelay, t.pause, t.portTime = max(w.quiet, time.Millisecond), time.Millisecond, 20*time.Millisecond
	return t
}

// run is up and lets it serve, until the function that it gives is called.
func (w *world) run(operations int) (t *Testbed, stop func()) {
	w.t.Helper()
	t = w.up(operations)
	stop = w.serve(t)
	if stop == nil {
		return nil, func() {}
	}
	return t, stop
}

// runningWorld is a world with a testbed that serves until the test ends.
func runningWorld(t *testing.T) (*world, *Testbed) {
	t.Helper()
	w := newWorld(t)
	tb, stop := w.run(-1)
	t.Cleanup(stop)
	return w, tb
}

// serve lets the testbed serve; nil when it was killed before that.
func (w *world) serve(t *Testbed) (stop func()) {
	w.t.Helper()
	dead := func(err error) bool { return w.last.killed() }
	if err := t.findMade(); err != nil {
		t.close()
		if dead(err) {
			return nil
		}
		w.t.Fatal(err)
	}
	err := t.openGateway(func(o gateway.Options) (sshGateway, error) {
		return &doubleGateway{m: w.last, closers: map[string][]net.Listener{"gateway": {o.Gateway}}}, nil
	})
	if err != nil {
		t.close()
		if dead(err) {
			return nil
		}
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() {
		err := t.serve(ctx)
		t.close()
		done <- err
	}()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !w.last.killed() {
			w.t.Error(err)
		}
	})
}

// findMade is find, in a state folder that was made.
func (t *Testbed) findMade() error {
	if err := folder(t.nodesDir); err != nil {
		return err
	}
	return t.loadState()
}

func (m *mortal) killed() bool {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.died
}

var testKeyOnce = sync.OnceValues(newExperimentKey)

func testKey(t testing.TB) []byte {
	key, err := testKeyOnce()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

type doubleMachines struct{ *mortal }

func (m *doubleMachines) path(id string) string { return filepath.Join(m.w.dir, "state", "nodes", id) }

func (m *doubleMachines) Prepare(_ context.Context, s node.Spec) error {
	if err := m.op("prepare"); err != nil {
		return err
	}
	if err := os.MkdirAll(m.path(s.ID), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(m.path(s.ID), "disk.img"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func (m *doubleMachines) Start(ctx context.Context, s node.Spec) (node.Running, error) {
	if err := m.w.wait("start", ctx.Done()); err != nil {
		return node.Running{}, err
	}
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if err := m.opLocked("start"); err != nil {
		return node.Running{}, err
	}
	if m.w.running[s.ID] != nil {
		m.w.wrong = append(m.w.wrong, s.ID+" was started while it ran")
	}
	for id, other := range m.w.running {
		if other.spec.Base == s.Base {
			m.w.wrong = append(m.w.wrong, fmt.Sprintf("%s and %s have the same ids", id, s.ID))
		}
	}
	if _, err := os.Stat(filepath.Join(m.path(s.ID), "disk.img")); err != nil {
		m.w.wrong = append(m.w.wrong, s.ID+" was started without a disk")
	}
	m.w.starts[s.ID]++
	m.w.pids++
	m.w.running[s.ID] = &system{pid: 1000 + m.w.pids, spec: s, dead: make(chan struct{})}
	return node.Running{PID: 1000 + m.w.pids}, nil
}

func (m *doubleMachines) Find(_ context.Context, id string) (node.Running, bool) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	s := m.w.running[id]
	if m.opLocked("find") != nil || s == nil {
		return node.Running{}, false
	}
	return node.Running{PID: s.pid}, true
}

// end ends the system of a node, as its own end or a kill.
func (w *world) end(id string) {
	if s := w.running[id]; s != nil {
		close(s.dead)
		delete(w.running, id)
		delete(w.oomKills, id) // its groups go with it
	}
}

// dies lets the system of a node end by itself.
func (w *world) dies(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.died[id] = true
	w.end(id)
}

func (m *doubleMachines) Died(id string) (died, boot bool) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.w.died[id], m.w.died[id] && m.w.booted
}

func (m *doubleMachines) Reap(node.Running) bool { return false }

func (m *doubleMachines) Kill(_ context.Context, id string) error {
	return m.do("kill", func() error {
		m.w.end(id)
		delete(m.w.died, id)
		return nil
	})
}

func (m *doubleMachines) Remove(_ context.Context, id string) error {
	_ = m.w.wait("remove", nil)
	return m.do("remove", func() error {
		m.w.end(id)
		return os.RemoveAll(m.path(id))
	})
}

func (m *doubleMachines) IDs() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(m.w.dir, "state", "nodes"))
	ids := map[string]bool{}
	for _, e := range entries {
		ids[e.Name()] = true
	}
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	for id := range m.w.running {
		ids[id] = true
	}
	return slices.Sorted(maps.Keys(ids)), err
}

func (m *doubleMachines) Usage(string) (node.Usage, error) {
	return node.Usage{Memory: 1, PIDs: 2}, nil
}

// OOMKills is what the test says of the node.
func (m *doubleMachines) OOMKills(id string) (int64, error) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.w.oomKills[id], nil
}

type doubleGateway struct {
	m       *mortal
	closers map[string][]net.Listener // guarded by the world's lock
}

func (d *doubleGateway) SetEndpoint(door gateway.Endpoint, public, inside net.Listener) error {
	return d.m.do("put", func() error {
		for _, l := range d.closers[door.Node] {
			if l != nil && l != public && l != inside {
				l.Close()
			}
		}
		d.closers[door.Node] = []net.Listener{public, inside}
		d.m.w.opens[door.Node] = door
		return nil
	})
}

func (d *doubleGateway) SetPeers(slice string, at map[netip.Addr]string) error {
	return d.m.do("peers", func() error {
		d.m.w.peers[slice] = at
		if at == nil {
			delete(d.m.w.peers, slice)
		}
		return nil
	})
}

func (d *doubleGateway) RemoveEndpoint(id string) error {
	_ = d.m.w.wait("remove door", nil)
	return d.m.do("remove door", func() error {
		d.close(id)
		delete(d.m.w.opens, id)
		return nil
	})
}

func (d *doubleGateway) close(id string) {
	for _, l := range d.closers[id] {
		if l != nil {
			l.Close()
		}
	}
	delete(d.closers, id)
}

func (d *doubleGateway) VerifyLogin(ctx context.Context, id string) error {
	return d.m.do("prove", func() error {
		s := d.m.w.running[id]
		for _, a := range d.m.w.opens[id].Accounts {
			if a.Login != gateway.Root && (s == nil || !slices.ContainsFunc(s.cfg.Accounts, func(is agent.Account) bool { return is.Login == a.Login })) {
				return fmt.Errorf("there is no account %s", a.Login)
			}
		}
		return nil
	})
}

func (d *doubleGateway) Close() error {
	d.m.w.mu.Lock()
	defer d.m.w.mu.Unlock()
	for id := range d.closers {
		d.close(id)
	}
	return nil
}

type doubleImages struct{ m *mortal }

func (i doubleImages) Names() ([]string, error)      { return []string{"debian-12", "host"}, nil }
func (i doubleImages) Sweep(func(string) bool) error { return i.m.op("sweep images") }

func (i doubleImages) Find(_ context.Context, name string) (string, node.Image, error) {
	_ = i.m.w.wait("find image", nil)
	if err := i.m.op("find image"); err != nil {
		return "", node.Image{}, err
	}
	image, err := i.Key(name + "@1")
	return name + "@1", image, err
}

func (i doubleImages) Key(key string) (node.Image, error) {
	i.m.w.mu.Lock()
	defer i.m.w.mu.Unlock()
	if i.m.w.noImages {
		return node.Image{}, fmt.Errorf("gone: %w", fs.ErrNotExist)
	}
	return node.Image{Root: "/" + key}, nil
}

type doubleNumbers struct {
	m *mortal
	allocator
}

func (n doubleNumbers) Allocate(holder string, fits func(uint32) bool) (uint32, error) {
	if err := n.m.op("take"); err != nil {
		return 0, err
	}
	return n.allocator.Allocate(holder, fits)
}

func (n doubleNumbers) Claim(i uint32, holder string) error {
	if err := n.m.op("hold"); err != nil {
		return err
	}
	return n.allocator.Claim(i, holder)
}

func (n doubleNumbers) Release(i uint32, holder string) error {
	if err := n.m.op("release"); err != nil {
		return err
	}
	return n.allocator.Release(i, holder)
}

func (n doubleNumbers) Sweep(instance string, keep func(string, uint32) bool) ([]error, error) {
	if err := n.m.op("sweep"); err != nil {
		return nil, err
	}
	return n.allocator.Sweep(instance, keep)
}

// ask is a set of one node; the answer's error is the error.
func ask(t *Testbed, name string, should provider.Resource) (map[string]any, error) {
	b, err := json.Marshal(object{"updates": []object{{"name": name, "should": should}}})
	if err != nil {
		return nil, err
	}
	out, err := t.set(b)
	if err != nil {
		return nil, err
	}
	b, err = json.Marshal(out)
	if err != nil {
		return nil, err
	}
	var answer struct{ Changes []map[string]any }
	if err := json.Unmarshal(b, &answer); err != nil {
		return nil, err
	}
	if len(answer.Changes) == 0 {
		return nil, nil
	}
	c := answer.Changes[0]
	if e, ok := c["error"].(map[string]any); ok {
		return c, fmt.Errorf("%v: %v", e["kind"], e["message"])
	}
	return c, nil
}

// set is ask of what is not refused.
func set(t *testing.T, tb *Testbed, name string, should provider.Resource) {
	t.Helper()
	if _, err := ask(tb, name, should); err != nil {
		t.Fatal(err)
	}
}

// bring is set until the node is ready.
func bring(t *testing.T, tb *Testbed, name string, should provider.Resource) provider.Resource {
	t.Helper()
	set(t, tb, name, should)
	return await(t, tb, name, ready)
}

// remove removes a node.
func remove(t *testing.T, tb *Testbed, name string) {
	t.Helper()
	set(t, tb, name, absent)
	await(t, tb, name, provider.Gone)
}

var absent = provider.Resource{"ensure": "absent"}

// look is a get of one node.
func look(t *Testbed, name string) provider.Resource {
	out, err := t.get(json.RawMessage(`{"names":["` + name + `"]}`))
	if err != nil {
		return provider.Resource{"error": err.Error()}
	}
	return out["resources"].([]provider.Resource)[0]
}

// await waits until what it sees of a node is good.
func await(t *testing.T, tb *Testbed, name string, good func(provider.Resource) bool) (r provider.Resource) {
	t.Helper()
	wait.Holds(t, func() bool { r = look(tb, name); return good(r) }, func() string { return fmt.Sprintf("node %s stays %v", name, r) })
	return r
}

func settled(r provider.Resource) bool {
	return provider.Gone(r) || r.Text(provider.AttrState) == provider.StateReady || r.Text(provider.AttrState) == provider.StateFailed
}

func ready(r provider.Resource) bool { return r.Text(provider.AttrState) == provider.StateReady }

// present is what a manager asks of a new node.
func present(hostname, slice string, logins ...string) provider.Resource {
	return provider.Resource{
		"ensure": "present", "component": "host1", "power": "on", "restart_serial": "0", "sliver_type": "container", "image": "host",
		"hostname": hostname, "users": userItems(logins...), "client_id": hostname, "slice_urn": slice,
		"sliver_urn": "urn:publicid:IDN+example.org+sliver+" + hostname,
	}
}

func userItems(logins ...string) []string {
	items := []string{}
	for _, l := range logins {
		items = append(items, fmt.Sprintf(`{"login":%q,"urn":"urn:publicid:IDN+example.org+user+%s","keys":["ssh-ed25519 AAAA %s"]}`, l, l, l))
	}
	return items
}

const sliceURN = "urn:publicid:IDN+example.org+slice+one"

// names of nodes in tests.
func nodeName(i int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", i) }

func holders(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	all := []string{}
	for _, e := range entries {
		text, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

func has(list []string, part string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, part) })
}
