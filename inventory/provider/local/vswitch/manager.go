package vswitch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"patchbay/inventory/provider/supervisor"
)

// Argv0 is the program name with which the binary runs as the switch process.
const Argv0 = "patchbay-vswitch"

// Options configure a Manager.
type Options struct {
	// Program is the path of this binary, which is run as the switch process.
	Program string
	// UID is the user and group id of the switch process; no other process may have this id.
	// If it is 0, which is for tests, the process keeps root and its capabilities.
	UID uint32
	// SetLimits, if not nil, applies resource limits to each new switch process before it
	// starts its work.
	SetLimits func(pid int) error
	// Ended, if not nil, is called when the last link is removed and the process has
	// ended. It undoes SetLimits.
	Ended func()
	Log   *slog.Logger
}

// ErrClosed is the error of calls after Close.
var ErrClosed = errors.New("the vswitch was closed")

// attempts limits how often a change is sent. If a switch process dies before it replies, the
// next attempt needs a new process.
const attempts = 3

// Manager runs the switch process of a slice while the slice has links. The Manager holds the
// devices of the links; if a process dies, the next one gets them. Its methods may be called
// concurrently; changes are serialized.
type Manager struct {
	options Options
	closing chan struct{} // closed by Close

	turn    chan struct{} // a lock that respects contexts: the holder of its one element may use the fields below
	links   map[string]*servedLink
	process *process // nil: none runs
	backoff supervisor.Backoff
	closed  bool
}

type servedLink struct {
	plan  json.RawMessage
	ports []servedPort
}

type servedPort struct {
	id   string
	open func() (*os.File, error)
	file *os.File
}

// New returns a Manager without links. The first link starts a process.
func New(o Options) *Manager {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Manager{options: o, closing: make(chan struct{}), turn: make(chan struct{}, 1), links: make(map[string]*servedLink), backoff: backoff}
}

// lock locks the Manager. The caller must call unlock.
func (k *Manager) lock(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("the vswitch is busy: %w", ctx.Err())
	}
	if k.closed {
		k.unlock()
		return ErrClosed
	}
	return nil
}

func (k *Manager) unlock() { <-k.turn }

// SetLink adds a link, or changes the link with the same ID. Ports with the same ID keep
// their devices and counters. If no port is removed, frames in flight arrive, except frames
// whose path changes. After an error the previous link remains. ctx limits the wait for other
// changes.
func (k *Manager) SetLink(ctx context.Context, l Link) error {
	p, err := l.plan()
	if err != nil {
		return fmt.Errorf("link %.300q: %w", l.ID, err)
	}
	if err := k.lock(ctx); err != nil {
		return err
	}
	defer k.unlock()
	old := k.links[l.ID]
	next, err := openPorts(l.Ports, p, old)
	if err != nil {
		return fmt.Errorf("link %s: %w", l.ID, err)
	}
	k.links[l.ID] = next
	if err := k.sendLink(l.ID); err != nil {
		if k.links[l.ID] = old; old == nil {
			delete(k.links, l.ID)
		}
		next.closeDevicesExcept(old)
		if len(k.links) == 0 {
			k.stop()
		}
		return fmt.Errorf("link %s: %w", l.ID, err)
	}
	if old != nil {
		old.closeDevicesExcept(next)
	}
	return nil
}

// openPorts returns the link of plan p with open devices. It keeps the device of a port that previous also
// has, if the device still exists. For all other ports it opens a device.
func openPorts(ports []Port, p plan, previous *servedLink) (next *servedLink, err error) {
	had := make(map[string]*os.File)
	if previous != nil {
		for _, o := range previous.ports {
			had[o.id] = o.file
		}
	}
	next = new(servedLink)
	defer func() {
		if err != nil {
			next.closeDevicesExcept(previous)
		}
	}()
	for i, n := range ports {
		port := servedPort{n.ID, n.Open, had[n.ID]}
		headers, err := port.openDevice()
		if port.file != nil {
			next.ports = append(next.ports, port)
		}
		switch {
		case err != nil:
			return next, err
		case i > 0 && headers != p.Headers:
			return next, errors.New("some ports were opened with segment and some without")
		}
		p.Headers = headers
	}
	if err := p.check(); err != nil {
		return next, err
	}
	next.plan, err = json.Marshal(p)
	if err == nil && len(next.plan) > maxPlan {
		err = fmt.Errorf("its paths name too many ports: %d bytes; at most %d are possible", len(next.plan), maxPlan)
	}
	return next, err
}

// openDevice keeps an open device unless the device was deleted. The result headers reports
// whether the frames of the device have headers.
func (p *servedPort) openDevice() (headers bool, err error) {
	if p.file != nil {
		if _, headers, err = tapOf(p.file); err == nil {
			return headers, nil
		}
	}
	f, err := p.open()
	if err != nil {
		return false, fmt.Errorf("port %s: %w", p.id, err)
	}
	p.file = f
	if _, headers, err = tapOf(f); err != nil {
		return false, fmt.Errorf("port %s: %w", p.id, err)
	}
	return headers, nil
}

// closeDevicesExcept keeps the devices that the parameter kept also uses. If kept is nil, it
// closes all.
func (l *servedLink) closeDevicesExcept(kept *servedLink) {
	stays := make(map[*os.File]bool)
	if kept != nil {
		for _, p := range kept.ports {
			stays[p.file] = true
		}
	}
	for _, p := range l.ports {
		if !stays[p.file] {
			p.file.Close()
		}
	}
}

// RemoveLink removes a link and closes its devices. An unknown link is no error. After the
// last link the switch process ends, too.
func (k *Manager) RemoveLink(ctx context.Context, id string) error {
	if err := k.lock(ctx); err != nil {
		return err
	}
	defer k.unlock()
	old := k.links[id]
	if old == nil {
		return nil
	}
	delete(k.links, id)
	defer old.closeDevicesExcept(nil)
	if len(k.links) == 0 {
		k.stop()
		return nil
	}
	if _, err := k.process.sendOrder(order{Kind: orderRemove, Link: id}); err != nil {
		k.process.end() // the next process does not get the link
	}
	delete(k.process.sent, id)
	return nil
}

// Counters returns the counters of all ports, by the ids of link and port.
func (k *Manager) Counters(ctx context.Context) (map[string]map[string]Counters, error) {
	if err := k.lock(ctx); err != nil {
		return nil, err
	}
	defer k.unlock()
	all := make(map[string]map[string]Counters, len(k.links))
	for id, l := range k.links {
		if !k.process.IsRunning() {
			return nil, errors.New("the vswitch died and is being started again")
		}
		a, err := k.process.sendOrder(order{Kind: orderCount, Link: id})
		switch {
		case err != nil:
			k.process.Kill()
			return nil, fmt.Errorf("cannot read the counters of the vswitch: %w", err)
		case len(a.Counts) != len(l.ports):
			k.process.Kill()
			return nil, fmt.Errorf("the vswitch has counters of %d ports of link %s, which has %d", len(a.Counts), id, len(l.ports))
		}
		all[id] = make(map[string]Counters, len(l.ports))
		for i, p := range l.ports {
			all[id][p.id] = a.Counts[i]
		}
	}
	return all, nil
}

// Close ends the switch process, removes all links and closes their devices.
func (k *Manager) Close() error {
	k.turn <- struct{}{}
	defer k.unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	close(k.closing)
	for _, l := range k.links {
		l.closeDevicesExcept(nil)
	}
	clear(k.links)
	k.stop()
	return nil
}
