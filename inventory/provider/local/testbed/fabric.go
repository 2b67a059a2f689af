package testbed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"patchbay/inventory/provider/local/fabric"
	"patchbay/inventory/provider/local/node"
	"patchbay/inventory/provider/local/vswitch"
)

const fabricsFolder = "fabrics"

// vswitchLimits bound the vswitch process of one slice. Its buffers use at most half of the
// memory.
var vswitchLimits = node.Limits{Memory: 512 << 20, PIDs: 128}

// openFabric opens the networks of slices. It stores an error in fabricError, since nodes without links work
// without the networks.
func (t *Testbed) openFabric() {
	h, err := fabric.Open(fabric.Options{
		Folder: t.fabricsPath(), Instance: t.settings.Instance, Emulator: string(t.settings.Emulator), Log: t.log,
		VSwitch: vswitch.Options{
			Program: t.o.Program,
			UID:     t.gatewayIDs.UID + 1, // the gateway needs only the first id of its block
			Log:     t.log,
		},
		SetLimits: func(slice string, pid int) error { return t.host.LimitVSwitch(slice, pid, vswitchLimits) },
		Ended:     t.host.RemoveVSwitchGroup,
	})
	if err != nil {
		t.log.Error("this host cannot make links; nodes with links are refused; run patchbay-local doctor for details", "error", err)
		t.fabricError = err
		return
	}
	if err := h.Features().CheckEmulator(string(t.settings.Emulator)); err != nil {
		t.log.Warn("requests for latency or loss are refused: " + err.Error())
	}
	t.fabric = h
}

func (t *Testbed) fabricsPath() string { return filepath.Join(t.o.State, fabricsFolder) }

// sweepFabric schedules a rebuild of every network. The rebuilds remove unused networks and
// links.
func (t *Testbed) sweepFabric() {
	if t.fabricError != nil {
		return
	}
	ids, err := t.fabric.Slices()
	if err != nil {
		t.log.Error("cannot list the networks of slices", "error", err)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		t.networkByID(id).rebuildAfter(0)
	}
}

// cleanFabric removes the networks of all slices. The instance must not run.
func cleanFabric(ctx context.Context, t *Testbed) error {
	h, err := fabric.Open(fabric.Options{Folder: t.fabricsPath(), Instance: t.settings.Instance, Log: t.log})
	if err != nil { // no error: the rest of the host can still be cleaned, and Clean reports mounts that remain
		t.log.Warn("cannot open the networks of slices", "error", err)
		return nil
	}
	ids, err := h.Slices()
	for _, id := range ids {
		drop, cancel := context.WithTimeout(ctx, linkTime)
		if e := h.RemoveNetwork(drop, id); e != nil {
			err = errors.Join(err, fmt.Errorf("the network %s cannot be removed: %w", id, e))
		}
		cancel()
	}
	return errors.Join(err, h.Close())
}
