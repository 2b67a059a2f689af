package testbed

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"patchbay/inventory/local/fabric"
)

// Times of links.
const (
	// linkTime is for making the links of a node, and for removing a network.
	linkTime = time.Minute
	// gather is how long no node may have come to a slice before its links are
	// made: those of a request come together.
	gather = 25 * time.Millisecond
	// gatherLongest is the longest wait for that.
	gatherLongest = time.Second
)

// networkID is the network of a slice, or of a node without one.
func networkID(urn, node string) string {
	if urn == "" {
		return sliceID("\x00" + node)
	}
	return sliceID(urn)
}

// attach makes l a node of its network, with t.mu held.
func (t *Testbed) attach(l *life, urn string) {
	if !slices.ContainsFunc(l.ifaces, func(f iface) bool { return !f.control }) {
		return
	}
	n := t.network(networkID(urn, l.id))
	l.network = n
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if now.Sub(n.latest) > t.gather {
		n.since = now
	}
	n.nodes[l], n.latest, n.drawn = true, now, nil
}

// network is the one called id, made if need be, with t.mu held.
func (t *Testbed) network(id string) *network {
	n := t.networks[id]
	if n == nil {
		n = &network{t: t, id: id, turn: make(turns, 1), nodes: map[*life]bool{}, made: map[string]*made{}}
		t.networks[id] = n
	}
	return n
}

// members are the nodes of a network, without those that are being removed.
func (t *Testbed) members(id string) []member {
	t.mu.Lock()
	n := t.networks[id]
	t.mu.Unlock()
	if n == nil {
		return nil
	}
	n.mu.Lock()
	lives := make([]*life, 0, len(n.nodes))
	for l := range n.nodes {
		lives = append(lives, l)
	}
	n.mu.Unlock()
	lives = slices.DeleteFunc(lives, func(l *life) bool { return l.snapshot().Asked.Removing })
	all := make([]member, len(lives))
	for i, l := range lives {
		all[i] = member{l.id, l.ifaces}
	}
	return all
}

// draw is how all links should be.
func (n *network) draw() map[string]*link {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.drawn == nil {
		members := make([]member, 0, len(n.nodes))
		for l := range n.nodes {
			members = append(members, member{l.id, l.ifaces})
		}
		n.drawn = linksOf(n.id, members)
	}
	return n.drawn
}

// do lets f change the fabric when its turn comes. When ctx ends, f is left alone
// with the turn that it has.
func (n *network) do(ctx context.Context, f func() error) error {
	if n.t.noFabric != nil {
		return n.t.noFabric
	}
	if err := n.turn.take(ctx); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer n.turn.give()
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle waits until no more nodes come.
func (n *network) settle(ctx context.Context) {
	for ctx.Err() == nil {
		n.mu.Lock()
		now := time.Now()
		wait := min(n.t.gather-now.Sub(n.latest), gatherLongest-now.Sub(n.since))
		n.mu.Unlock()
		if wait <= 0 {
			return
		}
		sleep(ctx, wait)
	}
}

// connect makes the links of a running node, and its interfaces in it.
func (n *network) connect(ctx context.Context, l *life) error {
	n.settle(ctx)
	return n.do(ctx, func() error {
		if err := n.makeLinks(ctx, l); err != nil {
			return err
		}
		space, err := n.t.machines.Network(l.id)
		if err != nil {
			return err
		}
		defer space.Close()
		for i := range l.ifaces {
			if f := &l.ifaces[i]; !f.control {
				if err := n.t.fabric.Plug(ctx, n.id, f.on(l.id), f.endID(l.id), space); err != nil {
					return fmt.Errorf("interface %.80q: %w", f.clientID, err)
				}
			}
		}
		return nil
	})
}

// errLeaving says that another attempt may find the link free.
var errLeaving = errors.New("a node that does not fit it has not left its link yet")

// misfit is why a node cannot be on a link whose ends do not fit together: it was
// accepted at the same moment as another, or that one is still being removed.
func (n *network) misfit(f *iface, is *link) error {
	left := linksOf(n.id, n.t.members(n.id))[is.Name]
	if left == nil || left.clash == "" {
		return errLeaving
	}
	return &wordsError{left.misfit(f), errors.New("nodes that do not fit together were accepted at once"), true}
}

// makeLinks makes the links of a node as they are drawn.
func (n *network) makeLinks(ctx context.Context, l *life) error {
	drawn := n.draw()
	for i := range l.ifaces {
		f := &l.ifaces[i]
		if f.control {
			continue
		}
		link := drawn[f.on(l.id)]
		if link == nil {
			return errors.New("the node has left its links")
		}
		if link.clash != "" {
			return n.misfit(f, link)
		}
		if err := n.makeLink(ctx, link); err != nil {
			if no, ok := errors.AsType[*fabric.UnsupportedError](err); ok {
				return &wordsError{link.refusal(f, no), err, true}
			}
			return err
		}
	}
	return nil
}

// makeLink makes one link as it is drawn, unless it is.
func (n *network) makeLink(ctx context.Context, l *link) error {
	n.mu.Lock()
	is := n.made[l.Name]
	same := is != nil && is.link != nil && (is.link == l || reflect.DeepEqual(is.link.Link, l.Link))
	switch {
	case same:
		is.link = l
	case is != nil:
		is.link = nil
	}
	n.mu.Unlock()
	if same {
		return nil
	}
	emulator, err := n.t.fabric.Put(ctx, l.Link)
	if err != nil {
		return fmt.Errorf("link %.80q: %w", l.name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.made[l.Name] = &made{l, emulator}
	return nil
}

// emulator is what makes a link, empty as long as it is not made.
func (n *network) emulator(link string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m := n.made[link]; m != nil {
		return m.emulator
	}
	return ""
}
