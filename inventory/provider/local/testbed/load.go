package testbed

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local/hostalloc"
)

// removeIncompleteTime limits the removal of one incomplete node, since all other nodes wait
// for it.
const removeIncompleteTime = 5 * time.Second

// loadState reads the saved state into t: nodes with their slices, and endpoints of other providers. It
// removes nodes without a record, and releases keys and numbers that no record needs.
func (t *Testbed) loadState() error {
	if err := t.renameOlderFiles(); err != nil {
		return err
	}
	for _, dir := range []string{t.nodesDir, t.keysDir, t.foreignDir} {
		if err := folder(dir); err != nil {
			return err
		}
	}
	ids, err := t.runtime.IDs()
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		nc := t.newController(id)
		if !t.loadNode(nc) {
			continue
		}
		t.joinSlice(nc, &nc.rec)
		if n := nc.rec.EgressNumber; n != 0 && t.egressNodes[n] == nil {
			t.egressNodes[n] = nc
		}
		nc.setState(provider.StateChanging, "checking whether it still runs, after a restart of the testbed")
		t.nodes[id] = nc
	}
	if err := t.loadForeignEndpoints(); err != nil {
		return err
	}
	if err := t.sweepKeys(); err != nil {
		return err
	}
	return t.sweepClaims()
}

// renameOlderFiles gives files of programs before schema 5 of the site's store their present names.
func (t *Testbed) renameOlderFiles() error {
	older, err := filepath.Glob(filepath.Join(t.nodesDir, "*", "services.json"))
	for _, path := range older {
		err = errors.Join(err, os.Rename(path, filepath.Join(filepath.Dir(path), journalFile)))
	}
	if _, e := os.Lstat(t.foreignDir); err != nil || e == nil {
		return err
	}
	if err = os.Rename(filepath.Join(filepath.Dir(t.foreignDir), "doors"), t.foreignDir); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// loadNode reports whether the node still exists. A node with a damaged record can only be
// removed. loadNode removes a node without a record; if that fails, the node's controller
// removes it later.
func (t *Testbed) loadNode(nc *nodeController) bool {
	err := readJSON(nc.dir(), recordFile, &nc.rec)
	if err == nil {
		err = nc.readInterfaces(&nc.rec)
	}
	if err == nil {
		if nc.steps = nc.loadSteps(nc.rec); nc.hasSteps() {
			nc.rec.Desired.SetupStage = strconv.Itoa(nc.steps.Journal().Stage)
		}
		return true
	}
	nc.rec = record{Desired: desired{Component: t.settings.Component, Power: provider.Off}, Change: 1}
	if !errors.Is(err, fs.ErrNotExist) {
		t.log.Error("the record of a node is damaged; the node is ended and can only be removed", "node", nc.id, "error", err)
		nc.broken = "its record is damaged; remove it and create it again"
		return true
	}
	t.log.Warn("a node has no record: its creation was interrupted, or its state was removed; the rest of it is removed", "node", nc.id)
	ctx, cancel := context.WithTimeout(t.ctx, removeIncompleteTime)
	defer cancel()
	if err = t.runtime.Remove(ctx, nc.id); err == nil {
		return false
	}
	t.log.Error("cannot remove the rest of a node; retrying", "node", nc.id, "error", err)
	nc.rec.Desired.Removing = true
	return true
}

// sweepClaims releases the numbers of this instance that no record contains, and claims the
// user ids in the records again. t.mu is held.
func (t *Testbed) sweepClaims() error {
	if err := t.readGateway(); err != nil {
		return err
	}
	unknown := map[string]bool{} // nodes whose numbers are unknown
	ids := map[string]uint32{t.gatewayHolder(): t.gatewayIDs.UID}
	ports := map[string]uint32{t.gatewayHolder(): uint32(t.gatewayIDs.Port)}
	for id, nc := range t.nodes {
		unknown[nc.holder()] = nc.rec.Base == 0 && (nc.broken != "" || nc.rec.Desired.Removing)
		ids[t.settings.Instance+"/"+id], ports[t.settings.Instance+"/"+id] = nc.rec.Base, uint32(nc.rec.Port)
	}
	for _, d := range t.foreignEndpoints {
		ports[t.settings.Instance+"/"+d.id] = uint32(d.Port)
	}
	for _, all := range []struct {
		numbers allocator
		held    map[string]uint32
	}{{t.userIDs, ids}, {t.ports, ports}} {
		problems, err := all.numbers.Sweep(t.settings.Instance, func(holder string, n uint32) bool { return all.held[holder] == n || unknown[holder] })
		for _, p := range problems {
			t.log.Warn("cannot read an allocated number", "error", p)
		}
		if err != nil {
			return err
		}
	}
	for id, nc := range t.nodes {
		if nc.rec.Base == 0 {
			continue
		}
		if err := t.userIDs.Claim(nc.rec.Base, nc.holder()); errors.Is(err, hostalloc.ErrTaken) {
			t.log.Error("the user ids of a node were allocated to another user", "node", id, "error", err)
			nc.broken = takenMessage
		} else if err != nil {
			t.log.Error("cannot hold the user ids of a node; retrying before it is started", "node", id, "error", err)
		}
	}
	return nil
}
