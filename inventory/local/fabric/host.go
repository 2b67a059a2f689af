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

	"patchbay/inventory/local/netspace"
	"patchbay/inventory/local/vswitch"
)

// Options of a Host.
type Options struct {
	// Folder is where namespaces are kept; it is made, for root alone.
	Folder string
	// Instance is what the testbed is called in the log.
	Instance string
	// Emulator is Auto, which is also what empty means, Netem or VSwitch.
	Emulator string
	// VSwitch is how switch processes are started, one for each slice that needs it; SetLimits and
	// Ended of it are not used, but those here, which are told the slice.
	VSwitch vswitch.Options
	// SetLimits is called with each new switch process before it does anything, to put it under
	// limits, and Ended when it has ended and no other follows. Nil: nothing is called.
	SetLimits func(slice string, pid int) error
	Ended     func(slice string) error
	Log       *slog.Logger
}

// Host makes the networks of the slices of one testbed. Its methods may be called
// at the same time; those of one slice wait for each other.
type Host struct {
	o    Options
	able Features

	mu     sync.Mutex // guards closed and slices
	closed bool
	slices map[string]*slice

	sharing sync.Mutex // held while shared VLANs are made, joined or removed
}

// ErrClosed says that the Host was closed.
var ErrClosed = errors.New("the networks of the slices were closed")

// Open finds out what this host can do, and makes the folder. What is there of
// an earlier time is left alone until it is put, or dropped.
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
		return nil, fmt.Errorf("emulator: %q is not known; auto, netem and vswitch are", o.Emulator)
	}
	for _, dir := range []string{"slices", "shared"} {
		dir = filepath.Join(o.Folder, dir)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("cannot make the folder of networks: %w", err)
		}
		// Nobody else may pass, whatever the umask or an earlier owner said.
		if err := os.Chmod(dir, 0o700); err != nil {
			return nil, fmt.Errorf("cannot make the folder of networks: %w", err)
		}
	}
	able, err := Probe(context.Background())
	if err != nil {
		return nil, err
	}
	h := &Host{o: o, able: able, slices: make(map[string]*slice)}
	if err := h.tidyShared(); err != nil {
		return nil, err
	}
	return h, nil
}

// Features are what the host could do when it was opened.
func (h *Host) Features() Features { return h.able }

// CheckLink tells whether this host can make the link: an *UnsupportedError if not,
// another error if it is no link.
func (h *Host) CheckLink(l Link) error {
	if err := l.check(); err != nil {
		return err
	}
	_, err := decide(l, h.able, h.o.Emulator)
	return err
}

// Close lets go of everything and leaves all networks as they are, but those that
// need the vswitch: it ends.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	list := slices.Collect(maps.Values(h.slices))
	h.slices = make(map[string]*slice)
	h.mu.Unlock()
	var errs []error
	for _, s := range list {
		s.lock <- struct{}{}
		s.gone = true
		errs = append(errs, s.close())
		<-s.lock
	}
	return errors.Join(errs...)
}

// Slices are those that have a network, sorted.
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

func (h *Host) folder() string { return filepath.Join(h.o.Folder, "slices") }

func (h *Host) path(slice string) string { return filepath.Join(h.folder(), slice) }

// slice is the network of a slice. Whoever has its lock owns the rest.
type slice struct {
	name string
	path string
	lock chan struct{} // one place
	// bounded says that bridges learn only so much.
	bounded bool
	// bounding says that rules of nftables bound what comes from nodes.
	bounding bool
	log      *slog.Logger
	gone     bool // it was forgotten; ask for it again

	net    *network // nil until it is needed
	links  map[string]*made
	keeper *vswitch.Manager
	// own are the addresses of ports that the rules know; nil after a crash.
	own map[string]string
}

// made is a link that was put.
type made struct {
	link   Link
	plan   plan
	shaped map[string]shaper // what the ports have, by name of the device
}

// end is the number of an end, and -1 if there is none of that id.
func (m *made) end(id string) int {
	return slices.IndexFunc(m.link.Ends, func(e End) bool { return e.ID == id })
}

// take locks a slice; what it returns unlocks it.
func (h *Host) take(ctx context.Context, name string) (*slice, func(), error) {
	if !isSlice(name) {
		return nil, nil, fmt.Errorf("%q is no id of a slice; 1 to 32 characters of a-z and 0-9 are", name)
	}
	for {
		h.mu.Lock()
		if h.closed {
			h.mu.Unlock()
			return nil, nil, ErrClosed
		}
		s := h.slices[name]
		if s == nil {
			s = &slice{name: name, path: h.path(name), bounded: h.able.bounded, bounding: h.able.Inflow, log: h.o.Log, lock: make(chan struct{}, 1), links: make(map[string]*made)}
			h.slices[name] = s
		}
		h.mu.Unlock()
		select {
		case s.lock <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("the network of slice %s is being changed: %w", name, ctx.Err())
		}
		if !s.gone {
			return s, func() { h.leave(s) }, nil
		}
		<-s.lock
	}
}

// leave unlocks a slice, and forgets it if it has no network.
func (h *Host) leave(s *slice) {
	if s.net == nil {
		s.gone = true
		h.mu.Lock()
		if h.slices[s.name] == s {
			delete(h.slices, s.name)
		}
		h.mu.Unlock()
	}
	<-s.lock
}

// open opens the network, and makes it if it is missing and shall be there. It
// is false if it is missing.
func (s *slice) open(create bool) (bool, error) {
	if s.net != nil {
		there, err := s.current()
		if err != nil || there {
			return there, err
		}
		// Without what nobody could find any more.
		s.log.Warn("somebody has taken away the mount that keeps the network of a slice; it is made again", "slice", s.name, "path", s.path)
		if err := errors.Join(s.net.clear(), s.close()); err != nil {
			return false, err
		}
		clear(s.links)
	}
	n, err := openNetwork(s.path, create)
	s.net, s.own = n, nil
	return n != nil, err
}

// current tells whether the mount still is the namespace that is open.
func (s *slice) current() (bool, error) {
	f, err := netspace.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot look at the network of slice %s: %w", s.name, err)
	}
	defer f.Close()
	return netspace.Equal(f, s.net.file), nil
}

// close lets go of the network and ends the vswitch.
func (s *slice) close() error {
	var err error
	if s.keeper != nil {
		err = s.keeper.Close()
		s.keeper = nil
	}
	if s.net != nil {
		s.net.close()
		s.net = nil
	}
	return err
}
