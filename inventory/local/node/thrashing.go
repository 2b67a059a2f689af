package node

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"patchbay/inventory/local/cgroup"
)

// A node that thrashes has its memory full of what cannot be taken away, and
// reads its programs from the disk again and again, for as little of them as is
// left room for. The kernel takes each page that it can still take for progress
// and ends nothing, for minutes, while the disk of the host is busy. Here the
// largest job is ended when a node was found so as often as patience says, as
// the kernel does with one that has no memory left at all. One that is full, reads
// much and gets on with it waits less: 0.2 to 0.3 of its time where 0.4 was thrashing.
const (
	checkInterval      = time.Second
	maxThrashingChecks = 10
	stalledShare       = 0.33
	fewFiles           = 64 << 20
)

// isThrashing tells whether a full node thrashes.
func isThrashing(m cgroup.Memory) bool {
	return m.Files < min(m.Limit/20, fewFiles) && m.Stalled >= stalledShare
}

// KillThrashing looks after the memory of all nodes until ctx ends. It calls ended with
// the id of each node of which it has ended a process.
func (h *Host) KillThrashing(ctx context.Context, ended func(id string)) {
	found := map[string]int{} // how often a node was found thrashing, one after the other
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		ids, err := h.tree.IDs()
		if err != nil {
			continue // it is told where nodes are changed
		}
		now := map[string]int{}
		for _, id := range nodeIDs(ids) {
			if !h.isThrashing(id) {
				continue
			}
			if now[id] = found[id] + 1; now[id] == maxThrashingChecks {
				if h.killLargest(id) {
					ended(id)
				}
				delete(now, id)
			}
		}
		found = now
	}
}

// isThrashing looks at a node's memory, closely if it is full. One that cannot be
// looked at goes just now.
func (h *Host) isThrashing(id string) bool {
	if full, err := h.tree.Full(id); err != nil || !full {
		return false
	}
	m, err := h.tree.Memory(id)
	return err == nil && isThrashing(m)
}

// killLargest ends the largest process of a node, and reports whether it did.
func (h *Host) killLargest(id string) bool {
	pid, name, err := h.tree.KillLargest(id)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it has ended by itself
	case err != nil:
		h.Log.Warn("a node has no memory left and reads its programs again and again; its largest process cannot be ended", "node", id, "error", err)
	default:
		h.Log.Info("a node had no memory left and read its programs again and again: its largest process was ended", "node", id, "process", name, "pid", pid)
		return true
	}
	return false
}

// OOMKills is how many processes of the node that runs the kernel has ended for want
// of memory.
func (h *Host) OOMKills(id string) (int64, error) {
	if err := checkID(id); err != nil {
		return 0, err
	}
	return h.tree.OOMKills(id)
}
