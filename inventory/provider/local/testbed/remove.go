package testbed

import (
	"context"
	"errors"
)

func (nc *nodeController) reportRemoval(*round) result {
	nc.reportProgress(removing)
	return result{}
}

// removeFiles kills the node, removes its folder, and begins to remove its links.
func (nc *nodeController) removeFiles(r *round) result {
	ctx, cancel := context.WithTimeout(r.ctx, removeTime)
	defer cancel()
	if nc.attempts == 0 { // later attempts mostly wait, so their number is not limited
		if err := nc.t.removals.acquire(ctx); err != nil {
			return resultOf(err)
		}
		defer nc.t.removals.release()
	}
	nc.clearRun()
	if err := nc.t.runtime.Remove(ctx, nc.id); err != nil {
		return resultOf(err)
	}
	nc.leaveNetwork()
	return result{}
}

// releaseClaims releases the node's numbers, detaches the node from the outside network, and removes it from
// its slice and the testbed.
func (nc *nodeController) releaseClaims(r *round) result {
	if err := nc.releaseNumbers(nc.snapshot()); err != nil {
		return resultOf(err)
	}
	if err := nc.detachEgress(nc.snapshot()); err != nil {
		return resultOf(err)
	}
	nc.leaveSlice()
	nc.mu.Lock() // get reports the node as absent only after everything was released
	defer nc.mu.Unlock()
	nc.removed = true
	nc.t.mu.Lock()
	defer nc.t.mu.Unlock()
	delete(nc.t.nodes, nc.id)
	return result{}
}

func (nc *nodeController) releaseNumbers(rec record) error {
	if rec.Base == 0 { // unknown: release all numbers of the node
		keep := func(holder string, _ uint32) bool { return holder != nc.holder() }
		_, err := nc.t.userIDs.Sweep(nc.t.settings.Instance, keep)
		_, ports := nc.t.ports.Sweep(nc.t.settings.Instance, keep)
		return errors.Join(err, ports)
	}
	err := nc.t.userIDs.Release(rec.Base, nc.holder())
	if rec.Port != 0 {
		err = errors.Join(err, nc.t.ports.Release(uint32(rec.Port), nc.holder()))
	}
	return err
}
