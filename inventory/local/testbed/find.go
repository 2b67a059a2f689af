package testbed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"patchbay/inventory/provider"
)

// find reads the records, and removes what has none.
func (t *Testbed) find() error {
	for _, dir := range []string{t.nodes, t.keys, t.foreign} {
		if err := folder(dir); err != nil {
			return err
		}
	}
	ids, err := t.machines.IDs()
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		var rec record
		err := readJSON(filepath.Join(t.nodes, id), recordFile, &rec)
		if errors.Is(err, fs.ErrNotExist) {
			t.log.Info("a node was never written down whole; it is removed", "node", id)
			if err := t.machines.Remove(context.Background(), id); err != nil {
				return fmt.Errorf("cannot remove what is left of node %s: %w", id, err)
			}
			continue
		}
		if err != nil {
			t.log.Error("the record of a node is spoilt; the node is ended, and can only be removed", "node", id, "error", err)
			if err := t.machines.Kill(context.Background(), id); err != nil {
				return fmt.Errorf("cannot end node %s: %w", id, err)
			}
			rec = t.spoilt()
		}
		l := t.newLife(id)
		if err := t.join(l, &rec); err != nil {
			return err
		}
		l.rec = rec
		l.say(provider.StateChanging, "being looked for after a restart of the testbed")
		t.lives[id] = l
	}
	if err := t.findDoors(); err != nil {
		return err
	}
	if err := t.sweepKeys(); err != nil {
		return err
	}
	return t.sweepClaims()
}

// spoilt is the record of a node of which nothing is known.
func (t *Testbed) spoilt() record {
	return record{
		Asked: asked{Component: t.settings.Component, Power: provider.Off}, Change: 1, FailedAt: 1,
		Failed: "what was noted of it is spoilt; remove it and make it anew",
	}
}

// sweepClaims makes the claims of this instance those that the records tell,
// with t.mu held.
func (t *Testbed) sweepClaims() error {
	if err := readJSON(t.o.State, gatewayFile, &t.gateway); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ids := map[string]uint32{t.gatewayHolder(): t.gateway.UID}
	ports := map[string]uint32{t.gatewayHolder(): uint32(t.gateway.Port)}
	for id, l := range t.lives {
		ids[t.settings.Instance+"/"+id], ports[t.settings.Instance+"/"+id] = l.rec.Base, uint32(l.rec.Port)
	}
	for _, d := range t.leads {
		ports[t.settings.Instance+"/"+d.id] = uint32(d.Port)
	}
	for _, all := range []struct {
		numbers numbers
		held    map[string]uint32
	}{{t.ids, ids}, {t.ports, ports}} {
		problems, err := all.numbers.Sweep(t.settings.Instance, func(holder string, n uint32) bool { return all.held[holder] == n })
		for _, p := range problems {
			t.log.Warn("a claim cannot be read", "error", p)
		}
		if err != nil {
			return err
		}
	}
	for id, l := range t.lives {
		if l.rec.Base == 0 {
			continue
		}
		if err := t.ids.Hold(l.rec.Base, t.settings.Instance+"/"+id); err != nil {
			t.log.Error("the user ids of a node are not its own any more", "node", id, "error", err)
			l.rec.Failed, l.rec.FailedAt = "its user ids were given to somebody else; remove it and make it anew", l.rec.Change
		}
	}
	return nil
}
