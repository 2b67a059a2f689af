package testbed

import (
	"context"
	"errors"
	"time"
)

// leaveNetwork takes the ends of a node that has gone, or was never made, out of
// its links. That is done a little later, for all nodes that leave at once, and
// with the last of them the whole network goes. Nobody waits for it: hundreds of
// devices take the kernel seconds. The next program ends what this one did not.
func (nc *nodeController) leaveNetwork() {
	n := nc.network
	if n == nil {
		return
	}
	n.mu.Lock()
	delete(n.nodes, nc)
	n.planned = nil
	wait := n.t.peerUpdateDelay
	if len(n.nodes) == 0 {
		wait = 0
	}
	n.mu.Unlock()
	n.rebuildAfter(wait)
}

// remove removes the network unless a node has come. Nothing is done by it any more
// after that: nodes that come later have another one, by the same name.
func (n *network) remove(ctx context.Context) error {
	return n.runExclusive(ctx, func() error {
		n.mu.Lock()
		keep := n.removed || len(n.nodes) > 0
		n.mu.Unlock()
		if keep {
			return nil
		}
		if err := n.t.fabric.Drop(ctx, n.id); err != nil {
			return err
		}
		n.t.mu.Lock()
		defer n.t.mu.Unlock()
		n.mu.Lock()
		defer n.mu.Unlock()
		clear(n.created)
		n.counterCache, n.overruns = counterCache{}, nil
		if len(n.nodes) == 0 {
			n.removed = true
			delete(n.t.networks, n.id)
		}
		return nil
	})
}

// rebuildAfter lets the links be made anew after a time in which no other node leaves.
func (n *network) rebuildAfter(wait time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.timer != nil {
		n.timer.Stop()
	}
	n.timer = time.AfterFunc(wait, n.rebuild)
}

// rebuild makes the links that are made as they are drawn by now, and tries again
// until it can.
func (n *network) rebuild() {
	n.t.mu.Lock()
	if n.t.closing || n.t.fabricError != nil {
		n.t.mu.Unlock()
		return
	}
	n.t.work.Add(1)
	n.t.mu.Unlock()
	defer n.t.work.Done()
	ctx, cancel := context.WithTimeout(n.t.ctx, linkTime)
	defer cancel()
	err := n.runExclusive(ctx, func() error { return n.rebuildLinks(ctx) })
	if err == nil {
		err = n.removeIfEmpty(ctx)
	}
	if err != nil && n.t.ctx.Err() == nil {
		n.t.log.Warn("the links of a slice are not as they should be yet; that is tried again", "slice", n.id, "error", err)
		n.rebuildAfter(maxPause * n.t.pause)
	}
}

func (n *network) removeIfEmpty(ctx context.Context) error {
	n.mu.Lock()
	empty := len(n.nodes) == 0
	n.mu.Unlock()
	if !empty {
		return nil
	}
	return n.remove(ctx)
}

// rebuildLinks is for who has the turn.
func (n *network) rebuildLinks(ctx context.Context) error {
	n.mu.Lock()
	gone := n.removed
	n.mu.Unlock()
	if gone || len(n.t.members(n.id)) == 0 {
		return nil // the last to leave removes everything
	}
	names, errs := n.t.fabric.Links(ctx, n.id)
	drawn := n.plan()
	var left []string
	for _, name := range names {
		n.mu.Lock()
		is := n.created[name] != nil
		n.mu.Unlock()
		if l := drawn[name]; l != nil {
			if is && l.conflict == "" { // the others wait for a node of theirs
				errs = errors.Join(errs, n.createLink(ctx, l))
			}
			continue
		}
		left = append(left, name)
	}
	if len(left) == 0 {
		return errs
	}
	err := n.t.fabric.Remove(ctx, n.id, left...)
	if err == nil {
		n.mu.Lock()
		for _, name := range left {
			delete(n.created, name)
		}
		n.mu.Unlock()
	}
	return errors.Join(errs, err)
}
