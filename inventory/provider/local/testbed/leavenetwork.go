package testbed

import (
	"context"
	"errors"
	"time"
)

// leaveNetwork removes the interfaces of a removed node from its links. The last node removes
// the whole network. Nodes that leave within a short delay cause one rebuild. The rebuild runs
// in the background, since the kernel needs seconds for hundreds of devices. An interrupted
// rebuild is completed after the next start of this program.
func (nc *nodeController) leaveNetwork() {
	n := nc.network()
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

// remove removes the network, unless a node has joined. A removed network is never used again: nodes that
// join later get a new one with the same id.
func (n *network) remove(ctx context.Context) error {
	return n.runExclusive(ctx, func() error {
		n.mu.Lock()
		keep := n.removed || len(n.nodes) > 0
		n.mu.Unlock()
		if keep {
			return nil
		}
		if err := n.t.fabric.RemoveNetwork(ctx, n.id); err != nil {
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

// rebuildAfter cancels a rebuild that was scheduled before.
func (n *network) rebuildAfter(wait time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.timer != nil {
		n.timer.Stop()
	}
	n.timer = time.AfterFunc(wait, n.rebuild)
}

// rebuild changes the links to their present plans, and removes the network if it has no nodes. After an
// error it schedules another rebuild.
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
		n.t.log.Warn("the links of a slice could not be rebuilt; retrying", "slice", n.id, "error", err)
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

// rebuildLinks changes existing links whose plan has changed, and removes those that are no
// longer planned. It does nothing for a network without nodes. It must be called inside
// runExclusive.
func (n *network) rebuildLinks(ctx context.Context) error {
	n.mu.Lock()
	gone := n.removed
	n.mu.Unlock()
	if gone || len(n.t.members(n.id)) == 0 {
		return nil // removeIfEmpty removes everything
	}
	names, errs := n.t.fabric.Links(ctx, n.id)
	planned := n.plan()
	var left []string
	for _, name := range names {
		n.mu.Lock()
		is := n.created[name] != nil
		n.mu.Unlock()
		if l := planned[name]; l != nil {
			if is && l.conflict == "" { // a link that does not exist yet is created when its next node connects
				errs = errors.Join(errs, n.createLink(ctx, l))
			}
			continue
		}
		left = append(left, name)
	}
	if len(left) == 0 {
		return errs
	}
	err := n.t.fabric.RemoveLinks(ctx, n.id, left...)
	if err == nil {
		n.mu.Lock()
		for _, name := range left {
			delete(n.created, name)
		}
		n.mu.Unlock()
	}
	return errors.Join(errs, err)
}
