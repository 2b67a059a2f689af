package node

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"patchbay/inventory/provider/local/cgroup"
)

// A thrashing node has its memory full of pages that cannot be reclaimed, and reads its
// programs from the disk again and again into the little memory left. The kernel counts each
// reclaimed page as progress and kills no process, for minutes, while the host's disk is busy.
// So this program kills the largest process of a node that was found thrashing in
// maxThrashingChecks consecutive checks. The kernel would do the same if no memory were free. A
// full node that makes progress waits for memory 0.2 to 0.3 of the time, a thrashing node 0.4.
const (
	checkInterval      = time.Second
	maxThrashingChecks = 10
	stalledShare       = 0.33     // of the time, waiting for memory
	fewFiles           = 64 << 20 // bytes of cached files
)

// isThrashing assumes that the node's memory is full.
func isThrashing(m cgroup.Memory) bool {
	return m.Files < min(m.Limit/20, fewFiles) && m.Stalled >= stalledShare
}

// KillThrashing checks the memory of all nodes until ctx ends, and kills the largest process of
// each thrashing node. After each kill it calls report with the node's id.
func (h *Host) KillThrashing(ctx context.Context, report func(id string)) {
	found := map[string]int{} // number of consecutive checks that found a node thrashing
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
			continue // changes of nodes report such errors
		}
		now := map[string]int{}
		for _, id := range nodeIDs(ids) {
			if !h.isThrashing(id) {
				continue
			}
			if now[id] = found[id] + 1; now[id] == maxThrashingChecks {
				if h.killLargest(id) {
					report(id)
				}
				delete(now, id)
			}
		}
		found = now
	}
}

// isThrashing reads the details only if the node's memory is full. A node that cannot be
// checked does not count as thrashing.
func (h *Host) isThrashing(id string) bool {
	if full, err := h.tree.IsNearlyFull(id); err != nil || !full {
		return false
	}
	m, err := h.tree.Memory(id)
	return err == nil && isThrashing(m)
}

func (h *Host) killLargest(id string) bool {
	pid, name, err := h.tree.KillLargest(id)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it has ended meanwhile
	case err != nil:
		h.Log.Warn("a node is thrashing (no free memory, it rereads its programs from disk), and its largest process cannot be killed", "node", id, "error", err)
	default:
		h.Log.Info("a node was thrashing (no free memory, it reread its programs from disk); its largest process was killed", "node", id, "process", name, "pid", pid)
		return true
	}
	return false
}

// OOMKills returns how many processes of the running node the kernel killed for lack of memory.
func (h *Host) OOMKills(id string) (int64, error) {
	if err := checkID(id); err != nil {
		return 0, err
	}
	return h.tree.OOMKills(id)
}
