package fabric

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"patchbay/inventory/provider/local/netspace"
	"patchbay/inventory/provider/local/vswitch"
)

// Options configure a Host.
type Options struct {
	// Folder holds the mounts of the namespaces; it is created with mode 0700.
	Folder string
	// Instance is the testbed's name in the log.
	Instance string
	// Emulator is Auto, Netem or VSwitch; empty means Auto.
	Emulator string
	// VSwitch configures the switch processes, one for each slice that needs it. The
	// fields SetLimits and Ended below replace those of VSwitch.
	VSwitch vswitch.Options
	// SetLimits, if not nil, applies resource limits to each new switch process before
	// the process starts its work. Ended, if not nil, is called when a slice has no switch
	// process any more.
	SetLimits func(slice string, pid int) error
	Ended     func(slice string) error
	Log       *slog.Logger
}

// Host creates the networks of the slices of one testbed. Its methods may be called
// concurrently; calls for one slice are serialized.
type Host struct {
	options  Options
	features Features

	mu     sync.Mutex // guards closed and slices
	closed bool
	slices map[string]*slice

	sharing sync.Mutex // held while shared VLANs are created, joined or removed
}

// ErrClosed is the error of calls after Close.
var ErrClosed = errors.New("the networks of the slices were closed")

// Open detects what this host supports, creates the folder, and removes shared VLANs
// without members. Networks of an earlier run stay until SetLink updates them or
// RemoveNetwork removes them.
func Open(o Options) (*Host, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Instance != "" {
		o.Log = o.Log.With("instance", o.Instance)
	}
	if o.VSwitch.Log == nil {
		o.VSwitch.Log = o.Log
	}
	switch o.Emulator {
	case "":
		o.Emulator = Auto
	case Auto, Netem, VSwitch:
	default:
		return nil, fmt.Errorf("emulator: %q is unknown; use auto, netem or vswitch", o.Emulator)
	}
	for _, dir := range []string{"slices", "shared"} {
		dir = filepath.Join(o.Folder, dir)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("cannot make the folder of networks: %w", err)
		}
		// MkdirAll keeps the mode of an existing folder and applies the umask to a new
		// one.
		if err := os.Chmod(dir, 0o700); err != nil {
			return nil, fmt.Errorf("cannot make the folder of networks: %w", err)
		}
	}
	able, err := Probe(context.Background())
	if err != nil {
		return nil, err
	}
	h := &Host{options: o, features: able, slices: make(map[string]*slice)}
	if err := h.removeUnusedShared(); err != nil {
		return nil, err
	}
	return h, nil
}

// Features returns what the host supported when Open was called.
func (h *Host) Features() Features { return h.features }

// CheckLink returns an *UnsupportedError if this host cannot make the link, or another
// error if the link is invalid.
func (h *Host) CheckLink(l Link) error {
	if err := l.check(); err != nil {
		return err
	}
	_, err := decide(l, h.features, h.options.Emulator)
	return err
}

// Close releases all resources. Networks continue to exist, but switch processes end.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	list := slices.Collect(maps.Values(h.slices))
	h.slices = make(map[string]*slice)
	h.mu.Unlock()
	var errs []error
	for _, s := range list {
		s.lock <- struct{}{}
		s.forgotten = true
		errs = append(errs, s.close())
		<-s.lock
	}
	return errors.Join(errs...)
}

// Slices returns the slices that have a network, sorted.
func (h *Host) Slices() ([]string, error) {
	list, err := os.ReadDir(h.folder())
	if err != nil {
		return nil, fmt.Errorf("cannot list the networks: %w", err)
	}
	var names []string
	for _, e := range list {
		if isSlice(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (h *Host) folder() string { return filepath.Join(h.options.Folder, "slices") }

func (h *Host) path(slice string) string { return filepath.Join(h.folder(), slice) }

// slice manages the network of one slice. Only the holder of lock may use the other
// fields.
type slice struct {
	name string
	path string
	lock chan struct{} // capacity 1
	// limitsLearning means that bridges limit the addresses that they learn.
	limitsLearning bool
	// hasInflow means that nftables rules limit the frames that nodes send.
	hasInflow bool
	log       *slog.Logger
	forgotten bool // no longer in Host.slices; lockSlice must get a new one

	net     *network // nil until it is needed
	links   map[string]*made
	manager *vswitch.Manager
	// own holds the MAC addresses that the inflow limit has stored in nftables, by port.
	// It is nil after a restart, until readOwn reads them.
	own map[string]string
}

// made is a link that SetLink has created.
type made struct {
	link   Link
	plan   plan
	shaped map[string]shaper // shaping of the ports, by device name
}

// end returns -1 if there is no end with that id.
func (m *made) end(id string) int {
	return slices.IndexFunc(m.link.Ends, func(e End) bool { return e.ID == id })
}

// lockSlice locks the network of a slice, and returns the function that unlocks it. It waits until ctx ends.
func (h *Host) lockSlice(ctx context.Context, name string) (*slice, func(), error) {
	if !isSlice(name) {
		return nil, nil, fmt.Errorf("%q is no id of a slice; an id has 1 to 32 characters of a-z and 0-9", name)
	}
	for {
		h.mu.Lock()
		if h.closed {
			h.mu.Unlock()
			return nil, nil, ErrClosed
		}
		s := h.slices[name]
		if s == nil {
			s = &slice{name: name, path: h.path(name), limitsLearning: h.features.limitsLearning, hasInflow: h.features.Inflow, log: h.options.Log, lock: make(chan struct{}, 1), links: make(map[string]*made)}
			h.slices[name] = s
		}
		h.mu.Unlock()
		select {
		case s.lock <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("the network of slice %s is being changed: %w", name, ctx.Err())
		}
		if !s.forgotten {
			return s, func() { h.unlock(s) }, nil
		}
		<-s.lock
	}
}

// unlock removes a slice without a network from Host.slices.
func (h *Host) unlock(s *slice) {
	if s.net == nil {
		s.forgotten = true
		h.mu.Lock()
		if h.slices[s.name] == s {
			delete(h.slices, s.name)
		}
		h.mu.Unlock()
	}
	<-s.lock
}

// open opens the network of the slice, and reports whether it exists. If create is true, it creates a missing
// network.
func (s *slice) open(create bool) (bool, error) {
	if s.net != nil {
		there, err := s.isMounted()
		if err != nil || there {
			return there, err
		}
		// Without the mount the network could not be found again.
		s.log.Warn("the mount of a slice's network was removed; it is created again", "slice", s.name, "path", s.path)
		if err := errors.Join(s.net.clear(), s.close()); err != nil {
			return false, err
		}
		clear(s.links)
	}
	n, err := openNetwork(s.path, create)
	s.net, s.own = n, nil
	return n != nil, err
}

// isMounted reports whether the mount of the network still refers to the open namespace.
func (s *slice) isMounted() (bool, error) {
	f, err := netspace.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot read the network of slice %s: %w", s.name, err)
	}
	defer f.Close()
	return netspace.Equal(f, s.net.file), nil
}

func (s *slice) close() error {
	var err error
	if s.manager != nil {
		err = s.manager.Close()
		s.manager = nil
	}
	if s.net != nil {
		s.net.close()
		s.net = nil
	}
	return err
}
