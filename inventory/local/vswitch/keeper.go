package vswitch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"patchbay/inventory/local/supervisor"
)

// Argv0 is the name under which the program runs as the relay.
const Argv0 = "patchbay-vswitch"

// Options of a Manager.
type Options struct {
	// Program is the path of this program, which runs again as the relay.
	Program string
	// UID is the user and the group of the relay, who owns nothing. 0: it stays
	// root and keeps its rights, which only tests should want.
	UID uint32
	// SetLimits is called with each new relay process before it does anything, to
	// put it under limits. Nil: nothing is called.
	SetLimits func(pid int) error
	// Ended is called when the last link has gone and the process has ended, to
	// undo what SetLimits did. Nil: nothing is called.
	Ended func()
	Log   *slog.Logger
}

// ErrClosed says that the Manager was closed.
var ErrClosed = errors.New("the relay was closed")

// attempts is how often a change is told to a relay that dies of it, or just then.
const attempts = 3

// Manager runs the relay process of a slice while it has links, and holds their
// devices, so that one that died is replaced by an equal one. Its methods may be
// called at the same time; one that changes something waits for others.
type Manager struct {
	o       Options
	closing chan struct{} // closed when the Manager is

	turn    chan struct{} // whoever has put something in may touch what follows
	links   map[string]*kept
	now     *process // nil: none runs
	backoff supervisor.Backoff
	closed  bool
}

// kept is a link with its devices.
type kept struct {
	plan  json.RawMessage
	ports []keptPort
}

type keptPort struct {
	id   string
	open func() (*os.File, error)
	file *os.File
}

// New makes a Manager without links; no process runs until it has one.
func New(o Options) *Manager {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Manager{o: o, closing: make(chan struct{}), turn: make(chan struct{}, 1), links: make(map[string]*kept), backoff: backoff}
}

// enter waits for the Manager's turn; each that is entered is left.
func (k *Manager) enter(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("the relay is busy: %w", ctx.Err())
	}
	if k.closed {
		k.leave()
		return ErrClosed
	}
	return nil
}

func (k *Manager) leave() { <-k.turn }

// SetLink makes a link, or makes the one of its ID what it shall be. Ports that stay,
// by ID, keep their devices and counters while these are there; while all do,
// frames on their way arrive, too, unless their path changes. After an error
// the link is as before, or not there as before. ctx bounds the waiting for
// others' turns.
func (k *Manager) SetLink(ctx context.Context, l Link) error {
	p, err := l.plan()
	if err != nil {
		return fmt.Errorf("link %.300q: %w", l.ID, err)
	}
	if err := k.enter(ctx); err != nil {
		return err
	}
	defer k.leave()
	old := k.links[l.ID]
	next, err := take(l.Ports, p, old)
	if err != nil {
		return fmt.Errorf("link %s: %w", l.ID, err)
	}
	k.links[l.ID] = next
	if err := k.tell(l.ID); err != nil {
		if k.links[l.ID] = old; old == nil {
			delete(k.links, l.ID)
		}
		next.closeBut(old)
		if len(k.links) == 0 {
			k.stop()
		}
		return fmt.Errorf("link %s: %w", l.ID, err)
	}
	if old != nil {
		old.closeBut(next)
	}
	return nil
}

// take makes a link as planned with those devices of old that are still there,
// and new ones.
func take(ports []Port, p plan, old *kept) (next *kept, err error) {
	had := make(map[string]*os.File)
	if old != nil {
		for _, o := range old.ports {
			had[o.id] = o.file
		}
	}
	next = new(kept)
	defer func() {
		if err != nil {
			next.closeBut(old)
		}
	}()
	for i, n := range ports {
		port := keptPort{n.ID, n.Open, had[n.ID]}
		headers, err := port.ready()
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
		err = fmt.Errorf("its paths name too many ports: %d bytes, the relay takes %d", len(next.plan), maxPlan)
	}
	return next, err
}

// ready opens the port's device unless it is open and there.
func (p *keptPort) ready() (headers bool, err error) {
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

// closeBut closes the devices that other does not have, too.
func (l *kept) closeBut(other *kept) {
	stays := make(map[*os.File]bool)
	if other != nil {
		for _, p := range other.ports {
			stays[p.file] = true
		}
	}
	for _, p := range l.ports {
		if !stays[p.file] {
			p.file.Close()
		}
	}
}

// RemoveLink ends a link and closes its devices. It is no error when there is none.
// With the last link the process ends.
func (k *Manager) RemoveLink(ctx context.Context, id string) error {
	if err := k.enter(ctx); err != nil {
		return err
	}
	defer k.leave()
	old := k.links[id]
	if old == nil {
		return nil
	}
	delete(k.links, id)
	defer old.closeBut(nil)
	if len(k.links) == 0 {
		k.stop()
		return nil
	}
	if _, err := k.now.ask(order{Kind: orderRemove, Link: id}); err != nil {
		k.now.end() // its successor does not know the link
	}
	delete(k.now.has, id)
	return nil
}

// Counters are what went through, by link and port.
func (k *Manager) Counters(ctx context.Context) (map[string]map[string]Counters, error) {
	if err := k.enter(ctx); err != nil {
		return nil, err
	}
	defer k.leave()
	all := make(map[string]map[string]Counters, len(k.links))
	for id, l := range k.links {
		if !k.now.IsRunning() {
			return nil, errors.New("the relay died and is being started again")
		}
		a, err := k.now.ask(order{Kind: orderCount, Link: id})
		switch {
		case err != nil:
			k.now.Kill()
			return nil, fmt.Errorf("the relay does not tell its counters: %w", err)
		case len(a.Counts) != len(l.ports):
			k.now.Kill()
			return nil, fmt.Errorf("the relay counts %d ports of link %s, which has %d", len(a.Counts), id, len(l.ports))
		}
		all[id] = make(map[string]Counters, len(l.ports))
		for i, p := range l.ports {
			all[id][p.id] = a.Counts[i]
		}
	}
	return all, nil
}

// Close ends the relay and all links, and closes their devices.
func (k *Manager) Close() error {
	k.turn <- struct{}{}
	defer k.leave()
	if k.closed {
		return nil
	}
	k.closed = true
	close(k.closing)
	for _, l := range k.links {
		l.closeBut(nil)
	}
	clear(k.links)
	k.stop()
	return nil
}
