package testbed

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"patchbay/am/file"
	"patchbay/inventory/node/setup"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local/node"
)

// addNode adds a new node with its record and steps, saves them, and starts its controller. After an error,
// the node does not exist.
func (t *Testbed) addNode(id string, rec record, steps []setup.Step) error {
	nc := t.newController(id)
	if err := nc.readInterfaces(&rec); err != nil {
		return err // cannot happen: apply has refused invalid interfaces
	}
	noDisk := t.lacksDiskSpace()
	nc.mu.Lock()
	defer nc.mu.Unlock()
	t.mu.Lock()
	switch {
	case t.nodes[id] != nil:
		t.mu.Unlock()
		return provider.Refuse(provider.Failed, "node %s is being created; try again", id)
	case len(t.nodes) >= maxNodes:
		t.mu.Unlock()
		return errFull
	case noDisk:
		t.mu.Unlock()
		return errNoDisk
	case nc.excessWeight > 0 && t.totalExcessWeight()+nc.excessWeight > sharedInterfaceWeight:
		t.mu.Unlock()
		return errInterfaceWeight
	case t.closing:
		t.mu.Unlock()
		return provider.Refuse(provider.Failed, "the testbed is stopping; try again")
	}
	t.nodes[id] = nc
	t.joinSlice(nc, &rec)
	t.mu.Unlock()
	if err := nc.writeFiles(&rec, steps); err != nil {
		nc.removed = true
		nc.leaveSlice()
		nc.leaveNetwork()
		t.mu.Lock()
		delete(t.nodes, id)
		t.mu.Unlock()
		return err
	}
	nc.setState(provider.StatePending, "waiting for its turn")
	if nc.slice != nil {
		nc.slice.schedulePeerUpdate()
	}
	nc.start()
	return nil
}

// newController does not start the controller.
func (t *Testbed) newController(id string) *nodeController {
	return &nodeController{t: t, id: id, wakeups: make(chan struct{}, 1), died: make(chan *run, 1), manifest: cachedManifest{slot: make(semaphore, 1)}}
}

// readInterfaces parses the record's interfaces into nc. Afterwards the record uses the same
// strings as nc, which saves memory.
func (nc *nodeController) readInterfaces(rec *record) error {
	ifaces, err := parseInterfaces(rec.Desired.Interfaces)
	if err != nil {
		return err
	}
	rec.Desired.Interfaces = nc.setInterfaces(ifaces, rec.Names)
	return nil
}

// setInterfaces makes ifaces the interfaces of nc, and returns their texts for the record. names has the
// names in the node of some of them, by client_id; the others keep the name of parseInterfaces.
func (nc *nodeController) setInterfaces(ifaces []iface, names map[string]string) (texts []string) {
	for i := range ifaces {
		if name := names[ifaces[i].clientID]; name != "" && !ifaces[i].control {
			ifaces[i].name = name
		}
	}
	nc.ifaces.Store(&ifaces)
	nc.excessWeight = excessWeight(ifaces)
	return interfaceTexts(ifaces)
}

// interfaces returns the interfaces as they were last requested.
func (nc *nodeController) interfaces() []iface {
	if p := nc.ifaces.Load(); p != nil {
		return *p
	}
	return nil
}

// network returns nil for a node that never had an interface.
func (nc *nodeController) network() *network { return nc.net.Load() }

// writeFiles creates the files of a new node: its host key, whose public part it stores in rec, its steps,
// and last the record, without which the node does not exist.
func (nc *nodeController) writeFiles(rec *record, steps []setup.Step) error {
	private, public, err := newHostKey()
	if err != nil {
		return err
	}
	rec.HostKey = public
	if err := folder(nc.dir()); err != nil {
		return err
	}
	if err := file.Write(filepath.Join(nc.dir(), hostKeyFile), private, 0o600); err != nil {
		return err
	}
	if err := nc.saveSteps(steps, rec.Desired.stage()); err != nil {
		return err
	}
	if err := nc.saveRecord(*rec); err != nil {
		return err
	}
	return file.SyncFolder(filepath.Dir(nc.dir()))
}

// removeRecord deletes the record of a node that is being removed, if the changed record rec
// cannot be saved: nodes must be removable on a full disk. The next start removes a node without
// a record. If the record cannot be deleted, removeRecord returns saveErr. nc.mu is held.
func (nc *nodeController) removeRecord(rec record, saveErr error) error {
	if nc.t.ctx.Err() != nil {
		return saveErr
	}
	err := os.Remove(filepath.Join(nc.dir(), recordFile))
	if err == nil {
		err = file.SyncFolder(nc.dir())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(saveErr, err)
	}
	nc.t.log.Warn("the removal of a node cannot be saved; its record is deleted instead", "node", nc.id, "error", saveErr)
	nc.rec = rec
	return nil
}

var errNoDisk = provider.Refuse(provider.Full, "the disk of this testbed's host has no room left for another node; remove nodes that you no longer need, or try again later")

func (t *Testbed) lacksDiskSpace() bool {
	left, reserve, err := node.DiskLeft(t.o.State)
	return err == nil && left < reserve // if the free space is unknown, a full disk fails the node later
}

var errFull = provider.Refuse(provider.Full, "the testbed has its maximum of %d nodes", maxNodes)

var errNoPort = provider.Refuse(provider.Full, "all ports for logins are taken: request fewer nodes, or wait until others remove theirs; operators can add ports with ports in the testbed's settings")
