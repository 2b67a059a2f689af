package testbed

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"patchbay/inventory/local/hostalloc"
	"patchbay/inventory/provider"
)

// halfTime is how long one node that was never whole may hold up all others.
const halfTime = 5 * time.Second

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
		l := t.newLife(id)
		if !t.recall(l) {
			continue
		}
		if err := t.join(l, &l.rec); err != nil {
			return err
		}
		if n := l.rec.Outside; n != 0 && t.outside[n] == nil {
			t.outside[n] = l
		}
		l.setState(provider.StateChanging, "being looked for after a restart of the testbed")
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

// recall reads the record of a node, and tells whether there is such a node.
func (t *Testbed) recall(l *life) bool {
	err := readJSON(l.dir(), recordFile, &l.rec)
	if err == nil {
		err = l.readInterfaces(&l.rec)
	}
	if err == nil {
		l.services = openServices(l, l.rec)
		return true
	}
	l.rec = record{Asked: asked{Component: t.settings.Component, Power: provider.Off}, Change: 1}
	if !errors.Is(err, fs.ErrNotExist) {
		t.log.Error("the record of a node is spoilt; the node is ended, and can only be removed", "node", l.id, "error", err)
		l.broken = "what was noted of it is spoilt; remove it and make it anew"
		return true
	}
	t.log.Warn("a node has no record: it was never written down whole, or its state was removed; what is left of it is ended and removed", "node", l.id)
	ctx, cancel := context.WithTimeout(t.ctx, halfTime)
	defer cancel()
	if err = t.machines.Remove(ctx, l.id); err == nil {
		return false
	}
	t.log.Error("cannot remove what is left of a node; that is tried again", "node", l.id, "error", err)
	l.rec.Asked.Removing = true
	return true
}

// sweepClaims makes the claims of this instance equal to those in the records,
// with t.mu held.
func (t *Testbed) sweepClaims() error {
	if err := t.readGateway(); err != nil {
		return err
	}
	unknown := map[string]bool{} // nodes that may use numbers which nobody knows
	ids := map[string]uint32{t.gatewayHolder(): t.gateway.UID}
	ports := map[string]uint32{t.gatewayHolder(): uint32(t.gateway.Port)}
	for id, l := range t.lives {
		unknown[l.holder()] = l.rec.Base == 0 && (l.broken != "" || l.rec.Asked.Removing)
		ids[t.settings.Instance+"/"+id], ports[t.settings.Instance+"/"+id] = l.rec.Base, uint32(l.rec.Port)
	}
	for _, d := range t.foreignDoors {
		ports[t.settings.Instance+"/"+d.id] = uint32(d.Port)
	}
	for _, all := range []struct {
		numbers numbers
		held    map[string]uint32
	}{{t.ids, ids}, {t.ports, ports}} {
		problems, err := all.numbers.Sweep(t.settings.Instance, func(holder string, n uint32) bool { return all.held[holder] == n || unknown[holder] })
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
		if err := t.ids.Hold(l.rec.Base, l.holder()); errors.Is(err, hostalloc.ErrTaken) {
			t.log.Error("the user ids of a node are not its own any more", "node", id, "error", err)
			l.broken = takenMessage
		} else if err != nil {
			t.log.Error("cannot claim the user ids of a node; that is tried again before it is started", "node", id, "error", err)
		}
	}
	return nil
}
