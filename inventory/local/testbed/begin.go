package testbed

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"patchbay/am/durable"
	"patchbay/inventory/local/node"
	"patchbay/inventory/local/setup"
	"patchbay/inventory/provider"
)

// begin writes a new node down and lets it live.
func (t *Testbed) begin(id string, rec record, steps []setup.Step) error {
	l := t.newLife(id)
	err := l.readInterfaces(&rec)
	if err != nil {
		return err // which assign has refused before
	}
	noDisk := t.lacksDisk()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.mu.Lock()
	switch {
	case t.lives[id] != nil:
		t.mu.Unlock()
		return refused(provider.Failed, "node %s is just being made; ask again", id)
	case len(t.lives) >= maxNodes:
		t.mu.Unlock()
		return errFull
	case noDisk:
		t.mu.Unlock()
		return errNoDisk
	case l.heavy > 0 && t.heavies()+l.heavy > heavyInterfaces:
		t.mu.Unlock()
		return errHeavy
	case t.closing:
		t.mu.Unlock()
		return refused(provider.Failed, "the testbed is just being stopped; ask again")
	}
	t.lives[id] = l
	err = t.join(l, &rec)
	t.mu.Unlock()
	if err == nil {
		err = l.writeNew(&rec, steps)
	}
	if err != nil {
		l.gone = true
		l.leaveSlice()
		l.leaveNetwork()
		t.mu.Lock()
		delete(t.lives, id)
		t.mu.Unlock()
		return err
	}
	l.setState(provider.StatePending, "waiting for its turn")
	if l.slice != nil {
		l.slice.announce()
	}
	l.live()
	return nil
}

func (t *Testbed) newLife(id string) *life {
	return &life{t: t, id: id, pokes: make(chan struct{}, 1), died: make(chan *run, 1), fetching: make(turns, 1)}
}

// readInterfaces reads what the record says of them; their texts are in memory once.
func (l *life) readInterfaces(rec *record) (err error) {
	if l.ifaces, err = parseInterfaces(rec.Asked.Interfaces); err != nil {
		return err
	}
	rec.Asked.Interfaces, l.heavy = texts(l.ifaces), heavy(l.ifaces)
	return nil
}

// writeNew makes the node's folder with host key, steps and record.
func (l *life) writeNew(rec *record, steps []setup.Step) error {
	private, public, err := newHostKey()
	if err != nil {
		return err
	}
	rec.HostKey = public
	if err := folder(l.dir()); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(l.dir(), hostKeyFile), private, 0o600); err != nil {
		return err
	}
	if err := l.keepSteps(steps); err != nil {
		return err
	}
	if err := l.save(*rec); err != nil {
		return err
	}
	return durable.SyncFolder(filepath.Dir(l.dir()))
}

// disown is save for a node that is being removed, where that cannot be written:
// on a full disk, nodes must be removable above all. A node without a record is
// removed by the next program, too. l.mu is held.
func (l *life) disown(rec record, unsaved error) error {
	if l.t.ctx.Err() != nil {
		return unsaved
	}
	err := os.Remove(filepath.Join(l.dir(), recordFile))
	if err == nil {
		err = durable.SyncFolder(l.dir())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(unsaved, err)
	}
	l.t.log.Warn("it cannot be written down that a node is being removed; its record is given up instead", "node", l.id, "error", unsaved)
	l.rec = rec
	return nil
}

var errNoDisk = refused(provider.Full, "the disk of this testbed's host has no room left for another node; remove nodes that you no longer need, or ask again later")

// lacksDisk tells whether the disk of the state has no room for new nodes.
func (t *Testbed) lacksDisk() bool {
	left, reserve, err := node.DiskLeft(t.o.State)
	return err == nil && left < reserve // without it, who needs it finds out
}

var errFull = refused(provider.Full, "the testbed has as many nodes as it can have, %d", maxNodes)

var errNoPort = refused(provider.Full, "all ports for logins are taken: ask for fewer nodes, or wait until others remove theirs; operators give the testbed more with the line ports in its settings")
