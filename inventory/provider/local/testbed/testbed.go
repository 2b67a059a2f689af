package testbed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/node/steprunner"
	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/egress"
	"patchbay/inventory/provider/local/gateway"
	"patchbay/inventory/provider/local/hostalloc"
	"patchbay/inventory/provider/local/image"
	"patchbay/inventory/provider/local/node"
)

// Root is the folder of all testbeds of this host. It holds the numbers that they have
// allocated, and their states by default.
const Root = "/var/lib/patchbay-local"

// DefaultState returns the default folder of an instance's state.
func DefaultState(instance string) string { return filepath.Join(Root, instance) }

const (
	// maxAgentCalls bounds the nodes that are called at once.
	maxAgentCalls = 8
	// maxRemovals bounds the nodes that are removed at once. A removal mostly waits until
	// the kernel has ended the processes and released the disk.
	maxRemovals = 16
)

// Open locks the instance and loads its state. It starts nothing. It fails when another
// program runs the instance.
func Open(o Options) (*Testbed, error) {
	t := newTestbed(o)
	if err := t.open(); err != nil {
		if t.host != nil {
			err = errors.Join(err, t.host.Close())
		}
		t.close()
		return nil, err
	}
	return t, nil
}

// open locks the instance, opens what holds nodes, images and user ids, and loads the saved state.
func (t *Testbed) open() error {
	err := t.lock()
	if err != nil {
		return err
	}
	t.raiseLimits() // before the cgroups are created: their limits are shares of the kernel's limits
	if t.host, err = node.Open(t.o.State, t.settings.Instance, t.log); err != nil {
		return err
	}
	t.runtime = t.host
	store, err := image.Open(filepath.Join(t.o.State, "images"))
	if err != nil {
		return err
	}
	store.Building = t.buildingImage
	t.images = store
	if t.userIDs, err = hostalloc.IDs(t.o.Claims); err != nil {
		return err
	}
	return t.loadState()
}

func newTestbed(o Options) *Testbed {
	o.State = cmp.Or(o.State, DefaultState(o.Settings.Instance))
	o.Claims = cmp.Or(o.Claims, Root)
	o.Socket = cmp.Or(o.Socket, local.Socket(o.Settings.Instance))
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	t := &Testbed{
		o: o, settings: o.Settings, log: o.Log,
		nodesDir: filepath.Join(o.State, "nodes"), keysDir: filepath.Join(o.State, "slices"), foreignDir: filepath.Join(o.State, "endpoints"),
		write: writeJSON, newKey: newExperimentKey, times: times{peerUpdateDelay, linkDelay, pause, portTime, steprunner.InstallsTime, steprunner.EventTime, agentTime, slowAgentTime, memoryTime, agentHeartbeat},
		heavyWork: make(semaphore, runtime.NumCPU()), removals: make(semaphore, maxRemovals), agentCalls: make(semaphore, maxAgentCalls), slowAgentCalls: make(semaphore, maxAgentCalls), manifestSlots: make(semaphore, maxManifestFetches), longManifests: make(semaphore, maxManifestFetches),
		nodes: map[string]*nodeController{}, slices: map[string]*slice{}, networks: map[string]*network{}, egressNodes: map[int]*nodeController{}, foreignEndpoints: map[string]*foreignEndpoint{},
	}
	t.uplinks = hostalloc.Networks(o.Claims, egress.MaxUplinks-1)
	t.ports = hostalloc.Ports(o.Claims, o.Settings.FirstPort, o.Settings.LastPort, o.Settings.PortRest)
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t
}

// lock ensures that no other program runs the instance or uses its state.
func (t *Testbed) lock() error {
	if err := os.MkdirAll(filepath.Dir(t.o.Socket), 0o755); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(t.o.State), 0o755); err != nil {
		return err
	}
	if err := folder(t.o.State); err != nil {
		return err
	}
	for _, path := range []string{filepath.Join(t.o.State, "lock"), t.o.Socket + ".lock"} {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return err
		}
		t.locks = append(t.locks, f)
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			text := make([]byte, 20)
			n, _ := f.Read(text)
			return fmt.Errorf("process %s runs the testbed %s already; stop it first, or the patchbay serve that started it; for a second testbed, set another instance in its settings", string(text[:n]), t.settings.Instance)
		}
		if err != nil {
			return fmt.Errorf("cannot lock %s: %w", path, err)
		}
		if err := errors.Join(f.Truncate(0), writeText(f, strconv.Itoa(os.Getpid()))); err != nil {
			return err
		}
	}
	return nil
}

func writeText(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

func (t *Testbed) close() {
	t.stop()
	for _, f := range t.locks {
		f.Close()
	}
}

// Run serves the instance until ctx ends. Nodes and sessions in them continue
// afterwards.
func (t *Testbed) Run(ctx context.Context) error {
	defer t.close()
	// Children of a process that ends become children of this process, not of init. So this
	// process can wait for a node's end after the processes that started the node have ended.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot adopt processes whose parents end: %w", err)
	}
	t.prepare()
	if err := t.openEgress(); err != nil {
		t.stop()
		t.work.Wait()
		return err
	}
	if err := t.openGateway(t.startGateway); err != nil {
		t.stop()
		t.work.Wait()
		return errors.Join(err, t.closeEgress())
	}
	t.openFabric()
	t.work.Go(func() { t.host.KillThrashing(t.ctx, t.saveThrashingKill) })
	return errors.Join(t.serve(ctx), t.host.Close())
}

func (t *Testbed) startGateway(o gateway.Options) (sshGateway, error) { return gateway.Start(t.ctx, o) }

// serve starts all controllers and background tasks, and answers the socket's clients until ctx ends. Then
// it ends them.
func (t *Testbed) serve(ctx context.Context) error {
	defer t.stopServing()
	l, err := t.openSocket()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	t.work.Go(t.sweepPeriodically)
	t.work.Go(t.writeFacts)
	t.work.Go(t.watchMemory)
	t.work.Go(t.watchLinks)
	t.work.Go(t.openForeignEndpoints)
	t.sweepFabric()
	for _, nc := range t.sortedNodes() {
		nc.start()
	}
	t.log.Info("the testbed runs", "instance", t.settings.Instance, "nodes", len(t.sortedNodes()), "socket", t.o.Socket)
	t.serveClients(ctx, l)
	return nil
}

// stopServing ends the node controllers; the nodes keep running.
func (t *Testbed) stopServing() {
	t.mu.Lock()
	t.closing = true
	t.mu.Unlock()
	t.stop()
	t.work.Wait()
	if err := t.gateway.Close(); err != nil {
		t.log.Warn("the gateway did not end cleanly", "error", err)
	}
	if t.fabricError == nil {
		if err := t.fabric.Close(); err != nil {
			t.log.Warn("the vswitch processes of links did not end cleanly", "error", err)
		}
	}
	if err := t.closeEgress(); err != nil {
		t.log.Warn("the outside network was not closed cleanly", "error", err)
	}
	_ = os.Remove(t.o.Socket)
}

func (t *Testbed) sweepPeriodically() {
	for {
		t.sweepImages()
		sleep(t.ctx, time.Minute)
		if t.ctx.Err() != nil {
			return
		}
		if _, err := t.ports.Sweep(t.settings.Instance, func(string, uint32) bool { return true }); err != nil {
			t.log.Warn("cannot release unused ports", "error", err)
		}
	}
}

// sweepImages does nothing while a node is looking up its image.
func (t *Testbed) sweepImages() {
	if !t.findingImages.TryLock() {
		return
	}
	defer t.findingImages.Unlock()
	used := map[string]bool{}
	for _, nc := range t.sortedNodes() {
		used[nc.snapshot().ImageKey] = true
	}
	if err := t.images.Sweep(func(key string) bool { return used[key] }); err != nil {
		t.log.Warn("cannot remove unused images", "error", err)
	}
}
