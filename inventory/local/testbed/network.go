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
	// linkDelay is how long no node may have come to a slice before its links are
	// made: those of a request come together.
	linkDelay = 25 * time.Millisecond
	// maxLinkDelay is the longest wait for that.
	maxLinkDelay = time.Second
)

// networkID is the network of a slice, or of a node without one.
func networkID(urn, node string) string {
	if urn == "" {
		return sliceID("\x00" + node)
	}
	return sliceID(urn)
}

// joinNetwork makes l a node of its network, with t.mu held.
func (t *Testbed) joinNetwork(nc *nodeController, urn string) {
	if !slices.ContainsFunc(nc.interfaces, func(f iface) bool { return !f.control }) {
		return
	}
	n := t.networkByID(networkID(urn, nc.id))
	nc.network = n
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if now.Sub(n.lastJoined) > t.linkDelay {
		n.firstJoined = now
	}
	n.nodes[nc], n.lastJoined, n.planned = true, now, nil
}

// networkByID is the one called id, made if need be, with t.mu held.
func (t *Testbed) networkByID(id string) *network {
	n := t.networks[id]
	if n == nil {
		n = &network{t: t, id: id, changing: make(semaphore, 1), nodes: map[*nodeController]bool{}, created: map[string]*createdLink{}}
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
	lives := make([]*nodeController, 0, len(n.nodes))
	for nc := range n.nodes {
		lives = append(lives, nc)
	}
	n.mu.Unlock()
	lives = slices.DeleteFunc(lives, func(nc *nodeController) bool { return nc.snapshot().Desired.Removing })
	all := make([]member, len(lives))
	for i, nc := range lives {
		all[i] = member{nc.id, nc.interfaces}
	}
	return all
}

// plan is how all links should be.
func (n *network) plan() map[string]*link {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.planned == nil {
		members := make([]member, 0, len(n.nodes))
		for nc := range n.nodes {
			members = append(members, member{nc.id, nc.interfaces})
		}
		n.planned = planLinks(n.id, members)
	}
	return n.planned
}

// runExclusive lets f change the fabric when its turn comes. When ctx ends, f is left alone
// with the turn that it has.
func (n *network) runExclusive(ctx context.Context, f func() error) error {
	if n.t.fabricError != nil {
		return n.t.fabricError
	}
	if err := n.changing.acquire(ctx); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer n.changing.release()
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitForNodes waits until no more nodes come.
func (n *network) waitForNodes(ctx context.Context) {
	for ctx.Err() == nil {
		n.mu.Lock()
		now := time.Now()
		wait := min(n.t.linkDelay-now.Sub(n.lastJoined), maxLinkDelay-now.Sub(n.firstJoined))
		n.mu.Unlock()
		if wait <= 0 {
			return
		}
		sleep(ctx, wait)
	}
}

// connect makes the links of a running node, and its interfaces in it.
func (n *network) connect(ctx context.Context, nc *nodeController) error {
	n.waitForNodes(ctx)
	return n.runExclusive(ctx, func() error {
		if err := n.createLinks(ctx, nc); err != nil {
			return err
		}
		space, err := n.t.runtime.Network(nc.id)
		if err != nil {
			return err
		}
		defer space.Close()
		for i := range nc.interfaces {
			if f := &nc.interfaces[i]; !f.control {
				if err := n.t.fabric.Plug(ctx, n.id, f.linkID(nc.id), f.endID(nc.id), space); err != nil {
					return fmt.Errorf("interface %.80q: %w", f.clientID, err)
				}
			}
		}
		return nil
	})
}

// errLeaving says that another attempt may find the link free.
var errLeaving = errors.New("a node that does not fit it has not left its link yet")

// conflictError is why a node cannot be on a link whose ends do not fit together: it was
// accepted at the same moment as another, or that one is still being removed.
func (n *network) conflictError(f *iface, is *link) error {
	left := planLinks(n.id, n.t.members(n.id))[is.Name]
	if left == nil || left.conflict == "" {
		return errLeaving
	}
	return &userError{left.conflictMessage(f), errors.New("nodes that do not fit together were accepted at once"), true}
}

// createLinks makes the links of a node as they are drawn.
func (n *network) createLinks(ctx context.Context, nc *nodeController) error {
	drawn := n.plan()
	for i := range nc.interfaces {
		f := &nc.interfaces[i]
		if f.control {
			continue
		}
		link := drawn[f.linkID(nc.id)]
		if link == nil {
			return errors.New("the node has left its links")
		}
		if link.conflict != "" {
			return n.conflictError(f, link)
		}
		if err := n.createLink(ctx, link); err != nil {
			if no, ok := errors.AsType[*fabric.UnsupportedError](err); ok {
				return &userError{link.refusalMessage(f, no), err, true}
			}
			return err
		}
	}
	return nil
}

// createLink makes one link as it is drawn, unless it is.
func (n *network) createLink(ctx context.Context, l *link) error {
	n.mu.Lock()
	is := n.created[l.Name]
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
	n.created[l.Name] = &createdLink{l, emulator}
	return nil
}

// emulator is what makes a link, empty as long as it is not made.
func (n *network) emulator(link string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m := n.created[link]; m != nil {
		return m.emulator
	}
	return ""
}
