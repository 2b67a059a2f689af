package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"patchbay/inventory/provider/local/cgroup"
)

// LimitGateway moves a process of the gateway into its own cgroup with limits.
func (h *Host) LimitGateway(pid int, l Limits) error { return h.joinGroup(gatewayGroup, pid, l, 1) }

// vswitchWeight is the CPU weight of a vswitch process. The weight of a node is 1. A vswitch
// gets more, because its delays affect all nodes of the slice. With a larger weight than this,
// a slice that floods its vswitch would take too much CPU from other slices.
const vswitchWeight = 4

// LimitVSwitch moves the vswitch process of a slice into its own cgroup with limits.
func (h *Host) LimitVSwitch(slice string, pid int, l Limits) error {
	if !isName(slice, 64) {
		return fmt.Errorf("%q cannot be the name of a slice: use 1 to 64 characters of a-z, 0-9 and -", slice)
	}
	return h.joinGroup(vswitchGroup+slice, pid, l, vswitchWeight)
}

// RemoveVSwitchGroup removes the cgroup of a slice's vswitch process after the end of the
// process. It does nothing if the cgroup does not exist.
func (h *Host) RemoveVSwitchGroup(slice string) error {
	if !isName(slice, 64) {
		return fmt.Errorf("%q cannot be the name of a slice: use 1 to 64 characters of a-z, 0-9 and -", slice)
	}
	h.groupsMu.Lock()
	defer h.groupsMu.Unlock()
	// An ended process leaves its cgroup a moment later.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return h.processTree.Remove(ctx, vswitchGroup+slice)
}

// joinGroup creates the cgroup of a process that is not in a node, or updates its limits, and moves the process
// there.
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
		// Close removed part of the group while its last process was ending.
		h.processTree.RemoveEmpty(group)
		err = place()
	}
	if err != nil {
		return err
	}
	return h.processTree.Join(group, pid)
}

// processGroups lists the cgroups that do not belong to nodes.
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

// removeEmptyGroups does not remove cgroups of nodes.
func (h *Host) removeEmptyGroups() {
	h.groupsMu.Lock()
	defer h.groupsMu.Unlock()
	groups, _ := h.processGroups() // an error leaves groups in place
	for _, group := range groups {
		h.processTree.RemoveEmpty(group)
	}
}

// KillHelpers kills all processes of the gateway and the vswitches, and removes their
// cgroups.
func (h *Host) KillHelpers(ctx context.Context) error {
	groups, err := h.processGroups()
	for _, group := range groups {
		err = errors.Join(err, h.processTree.Kill(ctx, group), h.processTree.Remove(ctx, group))
	}
	return err
}
