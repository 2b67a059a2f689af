package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"patchbay/inventory/local/cgroup"
)

// PlaceGateway puts a process of the gateway in a group of its own, under limits.
func (h *Host) PlaceGateway(pid int, l Limits) error { return h.joinGroup(gatewayGroup, pid, l, 1) }

// vswitchWeight is how many times the processor time of a node a relay has: what it
// passes on late is late for all nodes of its slice. With more, a slice whose nodes
// flood their relay would take too much from the others'.
const vswitchWeight = 4

// PlaceVSwitch puts the relay of a slice in a group of its own, under limits.
func (h *Host) PlaceVSwitch(slice string, pid int, l Limits) error {
	if !checkName(slice, 64) {
		return fmt.Errorf("%q cannot name a slice: it takes 1 to 64 of a-z, 0-9 and -", slice)
	}
	return h.joinGroup(vswitchGroup+slice, pid, l, vswitchWeight)
}

// RemoveVSwitchGroup removes the group of the relay of a slice, which has ended. It is no
// error when there is none.
func (h *Host) RemoveVSwitchGroup(slice string) error {
	if !checkName(slice, 64) {
		return fmt.Errorf("%q cannot name a slice: it takes 1 to 64 of a-z, 0-9 and -", slice)
	}
	h.groupsMu.Lock()
	defer h.groupsMu.Unlock()
	// What has ended leaves its groups a moment later.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return h.processTree.Remove(ctx, vswitchGroup+slice)
}

func (h *Host) joinGroup(group string, pid int, l Limits, weight int) error {
	h.groupsMu.Lock()
	defer h.groupsMu.Unlock()
	limits := cgroup.Limits{CPUs: l.CPUs, Memory: l.Memory, PIDs: l.PIDs, Weight: weight}
	place := func() error {
		err := h.processTree.Make(group, limits)
		if errors.Is(err, fs.ErrExist) {
			err = h.processTree.Update(group, limits)
		}
		return err
	}
	err := place()
	if errors.Is(err, fs.ErrNotExist) {
		// Close removed half of it while the last process was ending.
		h.processTree.RemoveEmpty(group)
		err = place()
	}
	if err != nil {
		return err
	}
	return h.processTree.Join(group, pid)
}

// processGroups are the groups beside those of nodes.
func (h *Host) processGroups() ([]string, error) {
	ids, err := h.processTree.IDs()
	list := []string{gatewayGroup}
	for _, id := range ids {
		if strings.HasPrefix(id, vswitchGroup) {
			list = append(list, id)
		}
	}
	return list, err
}

// removeEmptyGroups removes the groups beside those of nodes, unless a process lives on
// in them.
func (h *Host) removeEmptyGroups() {
	h.groupsMu.Lock()
	defer h.groupsMu.Unlock()
	groups, _ := h.processGroups() // what cannot be listed stays
	for _, group := range groups {
		h.processTree.RemoveEmpty(group)
	}
}

// KillPlaced ends all processes that PlaceGateway and PlaceRelay placed, and
// removes their groups.
func (h *Host) KillPlaced(ctx context.Context) error {
	groups, err := h.processGroups()
	for _, group := range groups {
		err = errors.Join(err, h.processTree.Kill(ctx, group), h.processTree.Remove(ctx, group))
	}
	return err
}
