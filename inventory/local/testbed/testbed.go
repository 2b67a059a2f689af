package testbed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local"
	"patchbay/inventory/local/claim"
	"patchbay/inventory/local/gateway"
	"patchbay/inventory/local/image"
	"patchbay/inventory/local/node"
	"patchbay/inventory/provider"
)

// Root is the folder of all testbeds of this host: their claims, and their
// states where no other folder is named.
const Root = "/var/lib/patchbay-local"

// DefaultState is the folder of an instance's state.
func DefaultState(instance string) string { return filepath.Join(Root, instance) }

// Options say what to run.
type Options struct {
	Settings local.Settings
	// SettingsOwner is the user who may ask at the socket beside root: whose
	// NAME.yaml is.
	SettingsOwner int
	// State is absolute; empty is DefaultState.
	State string
	// Claims is the folder of the host's numbers; empty is Root.
	Claims string
	// Socket is where it answers; empty is local.Socket of the instance.
	Socket string
	// Program is the path of this program, which runs again as the gateway.
	Program string
	Log     *slog.Logger
}

// Testbed is one instance.
type Testbed struct {
	o        Options
	settings local.Settings
	log      *slog.Logger
	locks    []*os.File
	// Folders of the state.
	nodes, keys, foreign string

	machines machines
	doors    doorkeeper
	images   images
	ids      numbers
	ports    numbers
	gateway  gatewayRecord
	// write is writeJSON, newKey newExperimentKey; the times are as the constants
	// of their names say.
	write                  func(dir, name string, v any) error
	newKey                 func() ([]byte, error)
	quiet, pause, portTime time.Duration

	heavy  *turns // making, starting, removing
	talk   *turns // with agents and the gateway
	spares chan []byte
	ctx    context.Context // ends the lives
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex // guards what follows; taken after a life's
	lives   map[string]*life
	slices  map[string]*slice
	closing bool

	doorsMu sync.Mutex // guards what follows
	leads   map[string]*lead
}

// talks is how many nodes are spoken with at once.
const talks = 8

// portTime is how long the gateway of a program that was killed may take to let
// go of its ports.
const portTime = 2 * time.Second

// Open takes the instance, and finds out what there is. Nothing is started yet.
// It fails when another program runs the instance.
func Open(o Options) (*Testbed, error) {
	t := newTestbed(o)
	if err := t.open(); err != nil {
		if t.machines != nil {
			err = errors.Join(err, t.machines.Close())
		}
		t.release()
		return nil, err
	}
	return t, nil
}

func (t *Testbed) open() error {
	if err := t.lock(); err != nil {
		return err
	}
	h, err := node.Open(t.o.State, t.settings.Instance, t.log)
	if err != nil {
		return err
	}
	t.machines = host{h}
	if t.images, err = image.Open(filepath.Join(t.o.State, "images")); err != nil {
		return err
	}
	if t.ids, err = claim.IDs(t.o.Claims); err != nil {
		return err
	}
	return t.find()
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
		nodes: filepath.Join(o.State, "nodes"), keys: filepath.Join(o.State, "slices"), foreign: filepath.Join(o.State, "doors"),
		write: writeJSON, newKey: newExperimentKey, quiet: quiet, pause: pause, portTime: portTime,
		heavy: newTurns(runtime.NumCPU()), talk: newTurns(talks), spares: make(chan []byte),
		lives: map[string]*life{}, slices: map[string]*slice{}, leads: map[string]*lead{},
	}
	t.ports = claim.Ports(o.Claims, o.Settings.FirstPort, o.Settings.LastPort, o.Settings.PortRest)
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t
}

// lock makes sure that nobody else runs the instance or uses its state.
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
			return fmt.Errorf("process %s runs the testbed %s already; stop it first, or give this one another instance in its settings", string(text[:n]), t.settings.Instance)
		}
		if err != nil {
			return fmt.Errorf("cannot lock %s: %w", path, err)
		}
		if err := errors.Join(f.Truncate(0), writeAt(f, strconv.Itoa(os.Getpid()))); err != nil {
			return err
		}
	}
	return nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// release lets go of what Open has taken.
func (t *Testbed) release() {
	t.stop()
	for _, f := range t.locks {
		f.Close()
	}
}

// find reads the records, and removes what has none.
func (t *Testbed) find() error {
	for _, dir := range []string{t.nodes, t.keys, t.foreign} {
		if err := folder(dir); err != nil {
			return err
		}
	}
	ids, err := t.machines.IDs()
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		var rec record
		err := readJSON(filepath.Join(t.nodes, id), recordFile, &rec)
		if errors.Is(err, fs.ErrNotExist) {
			t.log.Info("a node was never written down whole; it is removed", "node", id)
			if err := t.machines.Remove(context.Background(), id); err != nil {
				return fmt.Errorf("cannot remove what is left of node %s: %w", id, err)
			}
			continue
		}
		if err != nil {
			t.log.Error("the record of a node is spoilt; the node is ended, and can only be removed", "node", id, "error", err)
			if err := t.machines.Kill(context.Background(), id); err != nil {
				return fmt.Errorf("cannot end node %s: %w", id, err)
			}
			rec = t.spoilt()
		}
		l := t.newLife(id)
		if err := t.join(l, &rec); err != nil {
			return err
		}
		l.rec = rec
		l.say(provider.StateChanging, "being looked for after a restart of the testbed")
		t.lives[id] = l
	}
	if err := t.findDoors(); err != nil {
		return err
	}
	if err := t.sweepKeys(); err != nil {
		return err
	}
	return t.sweepClaims()
}

// spoilt is the record of a node of which nothing is known.
func (t *Testbed) spoilt() record {
	return record{
		Asked: asked{Component: t.settings.Component, Power: provider.Off}, Change: 1, FailedAt: 1,
		Failed: "what was noted of it is spoilt; remove it and make it anew",
	}
}

// sweepClaims makes the claims of this instance those that the records tell,
// with t.mu held.
func (t *Testbed) sweepClaims() error {
	if err := readJSON(t.o.State, gatewayFile, &t.gateway); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ids := map[string]uint32{t.gatewayHolder(): t.gateway.UID}
	ports := map[string]uint32{t.gatewayHolder(): uint32(t.gateway.Port)}
	for id, l := range t.lives {
		ids[t.settings.Instance+"/"+id], ports[t.settings.Instance+"/"+id] = l.rec.Base, uint32(l.rec.Port)
	}
	for _, d := range t.leads {
		ports[t.settings.Instance+"/"+d.id] = uint32(d.Port)
	}
	for _, all := range []struct {
		numbers numbers
		held    map[string]uint32
	}{{t.ids, ids}, {t.ports, ports}} {
		problems, err := all.numbers.Sweep(t.settings.Instance, func(holder string, n uint32) bool { return all.held[holder] == n })
		for _, p := range problems {
			t.log.Warn("a claim cannot be read", "error", p)
		}
		if err != nil {
			return err
		}
	}
	for id, l := range t.lives {
		if l.rec.Base == 0 {
			continue
		}
		if err := t.ids.Hold(l.rec.Base, t.settings.Instance+"/"+id); err != nil {
			t.log.Error("the user ids of a node are not its own any more", "node", id, "error", err)
			l.rec.Failed, l.rec.FailedAt = "its user ids were given to somebody else; remove it and make it anew", l.rec.Change
		}
	}
	return nil
}

// life is the node of that name, nil when there is none.
func (t *Testbed) life(id string) *life {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lives[id]
}

// all are the nodes, by name.
func (t *Testbed) all() []*life {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*life, 0, len(t.lives))
	for _, l := range t.lives {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *life) int { return cmp.Compare(a.id, b.id) })
	return all
}

func (t *Testbed) full() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lives) >= maxNodes
}

// Run serves the instance until ctx ends. Nodes, and sessions in them, go on
// afterwards.
func (t *Testbed) Run(ctx context.Context) error {
	defer t.release()
	// What a stage of making a node leaves behind becomes our child, not init's.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot adopt orphans: %w", err)
	}
	if err := t.openGateway(t.startKeeper); err != nil {
		return err
	}
	return t.serve(ctx)
}

func (t *Testbed) startKeeper(o gateway.Options) (doorkeeper, error) { return gateway.Start(t.ctx, o) }

// serve lets all nodes live and answers at the socket until ctx ends.
func (t *Testbed) serve(ctx context.Context) error {
	defer t.end()
	if err := t.openLeads(); err != nil {
		return err
	}
	l, err := t.openSocket()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	t.work.Go(t.makeSpares)
	t.work.Go(t.tidy)
	for _, l := range t.all() {
		l.live()
	}
	t.log.Info("the testbed runs", "instance", t.settings.Instance, "nodes", len(t.all()), "socket", t.o.Socket)
	t.answer(ctx, l)
	return nil
}

// end stops the lives, and leaves the nodes alone.
func (t *Testbed) end() {
	t.mu.Lock()
	t.closing = true
	t.mu.Unlock()
	t.stop()
	t.work.Wait()
	if err := t.doors.Close(); err != nil {
		t.log.Warn("the gateway did not end in order", "error", err)
	}
	if err := t.machines.Close(); err != nil {
		t.log.Warn("cannot tidy up", "error", err)
	}
	_ = os.Remove(t.o.Socket)
}

// makeSpares has the key for the next slice ready.
func (t *Testbed) makeSpares() {
	for t.ctx.Err() == nil {
		key, err := t.newKey()
		if err != nil {
			t.log.Error("cannot make a key", "error", err)
			sleep(t.ctx, time.Second)
			continue
		}
		select {
		case t.spares <- key:
		case <-t.ctx.Done():
		}
	}
}

// tidy gives ports out again that have rested, and images that nobody uses up.
func (t *Testbed) tidy() {
	for {
		used := map[string]bool{}
		for _, l := range t.all() {
			used[l.snapshot().ImageKey] = true
		}
		if err := t.images.Sweep(func(key string) bool { return used[key] }); err != nil {
			t.log.Warn("cannot remove images that nobody uses", "error", err)
		}
		sleep(t.ctx, time.Minute)
		if t.ctx.Err() != nil {
			return
		}
		if _, err := t.ports.Sweep(t.settings.Instance, func(string, uint32) bool { return true }); err != nil {
			t.log.Warn("cannot look after the ports", "error", err)
		}
	}
}

// listen opens a port for a holder: the one it has, or another.
func (t *Testbed) listen(port int, holder string) (net.Listener, int, error) {
	if port != 0 {
		l, err := t.listenAt(port, holder)
		if !errors.Is(err, claim.ErrTaken) && !errors.Is(err, syscall.EADDRINUSE) {
			return l, port, err
		}
		if err := t.ports.Release(uint32(port), holder); err != nil {
			return nil, 0, err
		}
	}
	var l net.Listener
	var last error
	n, err := t.ports.Take(holder, func(n uint32) bool {
		l, last = t.bind(int(n))
		return last == nil
	})
	if err != nil && last != nil && !errors.Is(last, syscall.EADDRINUSE) {
		err = last
	}
	return l, int(n), err
}

// listenAt opens a port that the holder has, and waits for an old gateway to let
// go of it.
func (t *Testbed) listenAt(port int, holder string) (net.Listener, error) {
	if err := t.ports.Hold(uint32(port), holder); err != nil {
		return nil, err
	}
	for end := time.Now().Add(t.portTime); ; {
		l, err := t.bind(port)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) || t.ctx.Err() != nil {
			return l, err
		}
		sleep(t.ctx, 20*time.Millisecond)
	}
}

func (t *Testbed) bind(port int) (net.Listener, error) {
	host := ""
	if t.settings.Listen.IsValid() {
		host = t.settings.Listen.String()
	}
	return net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
}

// published is what experimenters are told of a door.
func (t *Testbed) published(name string, port int) (login []string, proxy string) {
	if t.settings.Publish != local.Gateway {
		login = append(login, net.JoinHostPort(t.settings.PublicHost, strconv.Itoa(port)))
	}
	if t.settings.Publish != local.Direct {
		login = append(login, net.JoinHostPort(name, "22"))
		proxy = gateway.User + "@" + t.gatewayAddress()
	}
	return login, proxy
}

func (t *Testbed) gatewayAddress() string {
	return net.JoinHostPort(t.settings.PublicHost, strconv.Itoa(t.gateway.Port))
}
