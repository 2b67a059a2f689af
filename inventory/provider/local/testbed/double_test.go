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
	"patchbay/inventory/node/agent"
	"patchbay/inventory/node/setup"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/gateway"
	"patchbay/inventory/provider/local/hostalloc"
	"patchbay/inventory/provider/local/node"
	"patchbay/inventory/provider/supervisor"
)

// fakeHost is a host with simulated nodes. It outlives the testbeds that tests open on it,
// one after the other.
type fakeHost struct {
	t        *testing.T
	dir      string
	settings local.Settings
	owner    int // of the settings
	log      *slog.Logger
	quiet    time.Duration

	mu       sync.Mutex
	running  map[string]*fakeSystem // by node
	starts   map[string]int
	pids     int
	wrong    []string // violations of rules that must always hold
	opens    map[string]gateway.Endpoint
	peers    map[string]map[netip.Addr]string
	fabric   map[string]*doubleNetwork // by slice
	fails    map[string]error          // errors of operations, by operation
	slow     map[string]chan struct{}
	done     map[string]int                // number of calls, by operation
	full     func(name string, v any) bool // files that cannot be written, if not nil
	last     *process
	steps    map[string]*doubleStep  // by node and number
	begun    []string                // node and number of started steps, in order
	results  map[string]setup.Report // immediate results of steps, by URL or command
	oomKills map[string]int64        // by node
	died     map[string]bool         // nodes that ended without a kill
	booted   bool                    // they ended because the host was rebooted
	overruns uint64                  // of each interface
	noImages bool
}

// fakeSystem is a running node.
type fakeSystem struct {
	pid  int
	spec node.Spec
	cfg  agent.Configuration
	dead chan struct{}
}

// process is one process of "up". After some operations it is killed, and does nothing more.
type process struct {
	w     *fakeHost
	left  int // operations until it is killed; negative: never
	died  bool
	dying func()
}

var errDead = errors.New("killed")

// operation counts an operation, and fails if the process is killed by now.
func (m *process) operation(name string) error {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.operationLocked(name)
}

func (m *process) operationLocked(name string) error {
	if m.died {
		return errDead
	}
	if m.left == 0 {
		m.died = true
		m.dying()
		return errDead
	}
	m.left--
	m.w.done[name]++
	return m.w.fails[name]
}

// doLocked runs an operation with h.mu held, unless the process is killed.
func (m *process) doLocked(name string, f func() error) error {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if err := m.operationLocked(name); err != nil {
		return err
	}
	return f()
}

// waitWhileSlow waits while the operation is delayed, or until gone is closed; nil waits
// without limit.
func (h *fakeHost) waitWhileSlow(operation string, gone <-chan struct{}) error {
	h.mu.Lock()
	slow := h.slow[operation]
	h.mu.Unlock()
	if slow == nil {
		return nil
	}
	select {
	case <-slow:
		return nil
	case <-gone:
		return errors.New("the caller no longer waits")
	}
}

func newFakeHost(t *testing.T) *fakeHost {
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
	return &fakeHost{
		t: t, dir: dir, settings: s, owner: owner, log: slog.New(slog.DiscardHandler), running: map[string]*fakeSystem{}, starts: map[string]int{},
		opens: map[string]gateway.Endpoint{}, peers: map[string]map[netip.Addr]string{}, fabric: map[string]*doubleNetwork{}, fails: map[string]error{}, slow: map[string]chan struct{}{}, done: map[string]int{},
		steps: map[string]*doubleStep{}, results: map[string]setup.Report{}, oomKills: map[string]int64{}, died: map[string]bool{},
	}
}

// open opens a testbed on the host. It is killed after that many operations; never if
// negative.
func (h *fakeHost) open(operations int) *Testbed {
	h.t.Helper()
	t := newTestbed(Options{
		Settings: h.settings, SettingsOwner: h.owner, State: filepath.Join(h.dir, "state"), Claims: filepath.Join(h.dir, "claims"),
		Socket: filepath.Join(h.dir, "x.sock"), Log: h.log,
	})
	m := &process{w: h, left: operations, dying: t.stop}
	h.mu.Lock()
	h.opens, h.peers, h.last = map[string]gateway.Endpoint{}, map[string]map[netip.Addr]string{}, m
	h.mu.Unlock()
	ids, err := hostalloc.IDs(t.o.Claims)
	if err == nil {
		err = t.lock()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	t.runtime, t.images, t.fabric = &doubleRuntime{m}, doubleImages{m}, doubleFabric{m}
	t.userIDs, t.ports = doubleAllocator{m, ids}, doubleAllocator{m, t.ports}
	t.write = func(dir, name string, v any) error {
		if err := m.operation("write"); err != nil {
			return err
		}
		h.mu.Lock()
		full := h.full
		h.mu.Unlock()
		if full != nil && full(name, v) {
			return errors.New("no space left on device")
		}
		return writeJSON(dir, name, v)
	}
	t.newKey = func() ([]byte, error) { return testKey(h.t), nil }
	t.linkDelay = time.Millisecond
	t.memoryTime, t.heartbeat = time.Millisecond, supervisor.Heartbeat{Every: time.Hour, Limit: 1}
	t.peerUpdateDelay, t.pause, t.portTime = max(h.quiet, time.Millisecond), time.Millisecond, 20*time.Millisecond
	return t
}

// run opens a testbed and serves it until stop is called.
func (h *fakeHost) run(operations int) (t *Testbed, stop func()) {
	h.t.Helper()
	t = h.open(operations)
	stop = h.startServing(t)
	if stop == nil {
		return nil, func() {}
	}
	return t, stop
}

// runFakeHost returns a new host with a testbed that serves until the test ends.
func runFakeHost(t *testing.T) (*fakeHost, *Testbed) {
	t.Helper()
	h := newFakeHost(t)
	tb, stop := h.run(-1)
	t.Cleanup(stop)
	return h, tb
}

// startServing serves the testbed. It returns nil if it was killed before.
func (h *fakeHost) startServing(t *Testbed) (stop func()) {
	h.t.Helper()
	dead := func(err error) bool { return h.last.isKilled() }
	if err := t.loadExistingState(); err != nil {
		t.close()
		if dead(err) {
			return nil
		}
		h.t.Fatal(err)
	}
	err := t.openGateway(func(o gateway.Options) (sshGateway, error) {
		return &doubleGateway{m: h.last, closers: map[string][]net.Listener{"gateway": {o.Gateway}}}, nil
	})
	if err != nil {
		t.close()
		if dead(err) {
			return nil
		}
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	go func() {
		err := t.serve(ctx)
		t.close()
		done <- err
	}()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !h.last.isKilled() {
			h.t.Error(err)
		}
	})
}

// loadExistingState is loadState for an existing state folder.
func (t *Testbed) loadExistingState() error {
	if err := folder(t.nodesDir); err != nil {
		return err
	}
	return t.loadState()
}

func (m *process) isKilled() bool {
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

type doubleRuntime struct{ *process }

func (m *doubleRuntime) path(id string) string { return filepath.Join(m.w.dir, "state", "nodes", id) }

func (m *doubleRuntime) Prepare(_ context.Context, s node.Spec) error {
	if err := m.operation("prepare"); err != nil {
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

func (m *doubleRuntime) Start(ctx context.Context, s node.Spec) (node.Running, error) {
	if err := m.w.waitWhileSlow("start", ctx.Done()); err != nil {
		return node.Running{}, err
	}
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if err := m.operationLocked("start"); err != nil {
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
	m.w.running[s.ID] = &fakeSystem{pid: 1000 + m.w.pids, spec: s, dead: make(chan struct{})}
	return node.Running{PID: 1000 + m.w.pids}, nil
}

func (m *doubleRuntime) Find(_ context.Context, id string) (node.Running, bool) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	s := m.w.running[id]
	if m.operationLocked("find") != nil || s == nil {
		return node.Running{}, false
	}
	return node.Running{PID: s.pid}, true
}

// endSystem ends the system of a node, unexpectedly or by a kill.
func (h *fakeHost) endSystem(id string) {
	if s := h.running[id]; s != nil {
		close(s.dead)
		delete(h.running, id)
		delete(h.oomKills, id) // its cgroups are removed too
	}
}

// killSystem ends the system of a node unexpectedly.
func (h *fakeHost) killSystem(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.died[id] = true
	h.endSystem(id)
}

func (m *doubleRuntime) Died(id string) (died, boot bool) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.w.died[id], m.w.died[id] && m.w.booted
}

func (m *doubleRuntime) Reap(node.Running) bool { return false }

func (m *doubleRuntime) Kill(_ context.Context, id string) error {
	return m.doLocked("kill", func() error {
		m.w.endSystem(id)
		delete(m.w.died, id)
		return nil
	})
}

func (m *doubleRuntime) Remove(_ context.Context, id string) error {
	_ = m.w.waitWhileSlow("remove", nil)
	return m.doLocked("remove", func() error {
		m.w.endSystem(id)
		return os.RemoveAll(m.path(id))
	})
}

func (m *doubleRuntime) IDs() ([]string, error) {
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

func (m *doubleRuntime) Usage(string) (node.Usage, error) {
	return node.Usage{Memory: 1, PIDs: 2}, nil
}

// OOMKills returns the number that the test has set.
func (m *doubleRuntime) OOMKills(id string) (int64, error) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.w.oomKills[id], nil
}

type doubleGateway struct {
	m       *process
	closers map[string][]net.Listener // guarded by the host's mu
}

func (d *doubleGateway) SetEndpoint(door gateway.Endpoint, public, inside net.Listener) error {
	return d.m.doLocked("set endpoint", func() error {
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
	return d.m.doLocked("peers", func() error {
		d.m.w.peers[slice] = at
		if at == nil {
			delete(d.m.w.peers, slice)
		}
		return nil
	})
}

func (d *doubleGateway) RemoveEndpoint(id string) error {
	_ = d.m.w.waitWhileSlow("remove endpoint", nil)
	return d.m.doLocked("remove endpoint", func() error {
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
	return d.m.doLocked("prove", func() error {
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

type doubleImages struct{ m *process }

func (i doubleImages) Names() ([]string, error)      { return []string{"debian-12", "host"}, nil }
func (i doubleImages) Sweep(func(string) bool) error { return i.m.operation("sweep images") }

func (i doubleImages) Find(_ context.Context, name string) (string, node.Image, error) {
	_ = i.m.w.waitWhileSlow("find image", nil)
	if err := i.m.operation("find image"); err != nil {
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
	return node.Image{Root: filepath.Join(i.m.w.dir, key)}, nil
}

type doubleAllocator struct {
	m *process
	allocator
}

func (n doubleAllocator) Allocate(holder string, fits func(uint32) bool) (uint32, error) {
	if err := n.m.operation("take"); err != nil {
		return 0, err
	}
	return n.allocator.Allocate(holder, fits)
}

func (n doubleAllocator) Claim(i uint32, holder string) error {
	if err := n.m.operation("hold"); err != nil {
		return err
	}
	return n.allocator.Claim(i, holder)
}

func (n doubleAllocator) Release(i uint32, holder string) error {
	if err := n.m.operation("release"); err != nil {
		return err
	}
	return n.allocator.Release(i, holder)
}

func (n doubleAllocator) Sweep(instance string, keep func(string, uint32) bool) ([]error, error) {
	if err := n.m.operation("sweep"); err != nil {
		return nil, err
	}
	return n.allocator.Sweep(instance, keep)
}

// trySet is a set of one node. It returns the error of the answer.
func trySet(t *Testbed, name string, should provider.Resource) (map[string]any, error) {
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

// set is trySet, which must succeed.
func set(t *testing.T, tb *Testbed, name string, should provider.Resource) {
	t.Helper()
	if _, err := trySet(tb, name, should); err != nil {
		t.Fatal(err)
	}
}

// setUntilReady is set, and waits until the node is ready.
func setUntilReady(t *testing.T, tb *Testbed, name string, should provider.Resource) provider.Resource {
	t.Helper()
	set(t, tb, name, should)
	return awaitNode(t, tb, name, isReady)
}

// remove removes a node and waits until it is gone.
func remove(t *testing.T, tb *Testbed, name string) {
	t.Helper()
	set(t, tb, name, absent)
	awaitNode(t, tb, name, provider.Gone)
}

var absent = provider.Resource{"ensure": "absent"}

// getNode is a get of one node.
func getNode(t *Testbed, name string) provider.Resource {
	out, err := t.get(json.RawMessage(`{"names":["` + name + `"]}`))
	if err != nil {
		return provider.Resource{"error": err.Error()}
	}
	return out["resources"].([]provider.Resource)[0]
}

// awaitNode waits until good accepts the node.
func awaitNode(t *testing.T, tb *Testbed, name string, good func(provider.Resource) bool) (r provider.Resource) {
	t.Helper()
	wait.Holds(t, func() bool { r = getNode(tb, name); return good(r) }, func() string { return fmt.Sprintf("node %s stays %v", name, r) })
	return r
}

func isSettled(r provider.Resource) bool {
	return provider.Gone(r) || r.Text(provider.AttrState) == provider.StateReady || r.Text(provider.AttrState) == provider.StateFailed
}

func isReady(r provider.Resource) bool { return r.Text(provider.AttrState) == provider.StateReady }

// newNode returns the attributes of a new node.
func newNode(hostname, slice string, logins ...string) provider.Resource {
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

// nodeName returns the id of node i.
func nodeName(i int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", i) }

func allocationHolders(t testing.TB, dir string) []string {
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

func hasPart(list []string, part string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, part) })
}
