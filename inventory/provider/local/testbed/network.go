package testbed

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"patchbay/inventory/provider/local/fabric"
)

const (
	// linkTime limits the connection of a node to its links, and each change of a network.
	linkTime = time.Minute
	// linkDelay is the pause after the last new node until links are created. The nodes of one
	// request join shortly after each other.
	linkDelay = 25 * time.Millisecond
	// maxLinkDelay is the longest wait for further nodes.
	maxLinkDelay = time.Second
)

// networkID returns the id of a slice's network. A node without a slice has a network of
// its own.
func networkID(urn, node string) string {
	if urn == "" {
		return sliceID("\x00" + node)
	}
	return sliceID(urn)
}

// joinNetwork does nothing if nc has no interfaces. t.mu is held.
func (t *Testbed) joinNetwork(nc *nodeController, urn string) {
	if !slices.ContainsFunc(nc.interfaces(), func(f iface) bool { return !f.control }) {
		return
	}
	n := t.networkByID(networkID(urn, nc.id))
	nc.net.Store(n)
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if now.Sub(n.lastJoined) > t.linkDelay {
		n.firstJoined = now
	}
	n.nodes[nc], n.lastJoined, n.planned = true, now, nil
}

// networkByID creates a missing network. t.mu is held.
func (t *Testbed) networkByID(id string) *network {
	n := t.networks[id]
	if n == nil {
		n = &network{t: t, id: id, changing: make(semaphore, 1), nodes: map[*nodeController]bool{}, created: map[string]*createdLink{}}
		t.networks[id] = n
	}
	return n
}

// members returns the nodes of the network with that id, with their interfaces. It leaves out nodes that are
// being removed.
func (t *Testbed) members(id string) []member {
	t.mu.Lock()
	n := t.networks[id]
	t.mu.Unlock()
	if n == nil {
		return nil
	}
	n.mu.Lock()
	controllers := make([]*nodeController, 0, len(n.nodes))
	for nc := range n.nodes {
		controllers = append(controllers, nc)
	}
	n.mu.Unlock()
	controllers = slices.DeleteFunc(controllers, func(nc *nodeController) bool { return nc.snapshot().Desired.Removing })
	all := make([]member, len(controllers))
	for i, nc := range controllers {
		all[i] = member{nc.id, nc.interfaces()}
	}
	return all
}

// plan returns the planned links by link id. It keeps the plan until a node joins or leaves.
func (n *network) plan() map[string]*link {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.planned == nil {
		members := make([]member, 0, len(n.nodes))
		for nc := range n.nodes {
			members = append(members, member{nc.id, nc.interfaces()})
		}
		n.planned = planLinks(n.id, members)
	}
	return n.planned
}

// runExclusive runs f while no other change of the network runs, and returns the error of f.
// If ctx ends first, runExclusive returns at once. f then continues, and blocks other changes
// until f ends.
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

// connect waits until no more nodes join. It then creates the links of a running node and
// attaches its interfaces.
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
		ifaces := nc.interfaces()
		for i := range ifaces {
			if f := &ifaces[i]; !f.control {
				if err := n.t.fabric.AttachEnd(ctx, n.id, f.linkID(nc.id), f.endID(nc.id), space); err != nil {
					return fmt.Errorf("interface %.80q: %w", f.clientID, err)
				}
			}
		}
		return nil
	})
}

// errLeaving means that the conflict is with a node that is being removed. Another attempt
// may succeed.
var errLeaving = errors.New("a conflicting node has not left the link yet")

// conflictError returns errLeaving while a conflicting node is still being removed. Otherwise
// two nodes were accepted at the same moment, and the error is final.
func (n *network) conflictError(f *iface, planned *link) error {
	left := planLinks(n.id, n.t.members(n.id))[planned.Name]
	if left == nil || left.conflict == "" {
		return errLeaving
	}
	return &userError{left.conflictMessage(f), errors.New("nodes with conflicting links were accepted at the same moment"), true}
}

// createLinks creates or changes all links of a node. Conflicts and unsupported properties are errors for
// its user.
func (n *network) createLinks(ctx context.Context, nc *nodeController) error {
	planned := n.plan()
	ifaces := nc.interfaces()
	for i := range ifaces {
		f := &ifaces[i]
		if f.control {
			continue
		}
		link := planned[f.linkID(nc.id)]
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

// createLink creates the link, or changes it if its plan has changed. Without a change it does nothing.
func (n *network) createLink(ctx context.Context, l *link) error {
	n.mu.Lock()
	present := n.created[l.Name]
	same := present != nil && present.link != nil && (present.link == l || reflect.DeepEqual(present.link.Link, l.Link))
	switch {
	case same:
		present.link = l
	case present != nil:
		present.link = nil // unknown until SetLink has succeeded
	}
	n.mu.Unlock()
	if same {
		return nil
	}
	emulator, err := n.t.fabric.SetLink(ctx, l.Link)
	if err != nil {
		return fmt.Errorf("link %.80q: %w", l.name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.created[l.Name] = &createdLink{l, emulator}
	return nil
}

// emulator returns "" if the link was not created.
func (n *network) emulator(link string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m := n.created[link]; m != nil {
		return m.emulator
	}
	return ""
}
