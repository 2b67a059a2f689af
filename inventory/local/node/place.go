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
func (h *Host) PlaceGateway(pid int, l Limits) error { return h.place(gatewayGroup, pid, l, 1) }

// relayWeight is how many times the processor time of a node a relay has: what it
// passes on late is late for all nodes of its slice. With more, a slice whose nodes
// flood their relay would take too much from the others'.
const relayWeight = 4

// PlaceRelay puts the relay of a slice in a group of its own, under limits.
func (h *Host) PlaceRelay(slice string, pid int, l Limits) error {
	if !checkName(slice, 64) {
		return fmt.Errorf("%q cannot name a slice: it takes 1 to 64 of a-z, 0-9 and -", slice)
	}
	return h.place(relayGroup+slice, pid, l, relayWeight)
}

// LeaveRelay removes the group of the relay of a slice, which has ended. It is no
// error when there is none.
func (h *Host) LeaveRelay(slice string) error {
	if !checkName(slice, 64) {
		return fmt.Errorf("%q cannot name a slice: it takes 1 to 64 of a-z, 0-9 and -", slice)
	}
	h.placing.Lock()
	defer h.placing.Unlock()
	// What has ended leaves its groups a moment later.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return h.programs.Remove(ctx, relayGroup+slice)
}

func (h *Host) place(group string, pid int, l Limits, weight int) error {
	h.placing.Lock()
	defer h.placing.Unlock()
	limits := cgroup.Limits{CPUs: l.CPUs, Memory: l.Memory, PIDs: l.PIDs, Weight: weight}
	place := func() error {
		err := h.programs.Make(group, limits)
		if errors.Is(err, fs.ErrExist) {
			err = h.programs.Update(group, limits)
		}
		return err
	}
	err := place()
	if errors.Is(err, fs.ErrNotExist) {
		// Close removed half of it while the last process was ending.
		h.programs.RemoveEmpty(group)
		err = place()
	}
	if err != nil {
		return err
	}
	return h.programs.Join(group, pid)
}

// placed are the groups beside those of nodes.
func (h *Host) placed() ([]string, error) {
	ids, err := h.programs.IDs()
	list := []string{gatewayGroup}
	for _, id := range ids {
		if strings.HasPrefix(id, relayGroup) {
			list = append(list, id)
		}
	}
	return list, err
}

// removeEmpty removes the groups beside those of nodes, unless a process lives on
// in them.
func (h *Host) removeEmpty() {
	h.placing.Lock()
	defer h.placing.Unlock()
	groups, _ := h.placed() // what cannot be listed stays
	for _, group := range groups {
		h.programs.RemoveEmpty(group)
	}
}

// EndPlaced ends all processes that PlaceGateway and PlaceRelay placed, and
// removes their groups.
func (h *Host) EndPlaced(ctx context.Context) error {
	groups, err := h.placed()
	for _, group := range groups {
		err = errors.Join(err, h.programs.Kill(ctx, group), h.programs.Remove(ctx, group))
	}
	return err
}
