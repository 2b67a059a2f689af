package testbed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"patchbay/inventory/provider/local/egress"
	"patchbay/inventory/provider/local/hostalloc"
)

// egressRecord is the part of the outside network's state that survives restarts.
type egressRecord struct {
	Network uint32 `json:"network"`
}

const (
	egressFolder = "outbound"
	egressFile   = "outbound.json"
)

func (t *Testbed) egressHolder() string { return t.settings.Instance + ":outbound" }

// openEgress opens the outside network with its saved number, or a new one, and detaches nodes that no longer
// exist. If the settings have no outside network, it removes an earlier one.
func (t *Testbed) openEgress() error {
	var rec egressRecord
	if err := readJSON(t.o.State, egressFile, &rec); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.log.Warn("the saved state of the outside network is damaged; it is created again", "error", err)
	}
	if !t.settings.Outbound {
		return t.removeEgress()
	}
	if rec.Network == 0 || t.uplinks.Claim(rec.Network, t.egressHolder()) != nil {
		n, err := t.uplinks.Allocate(t.egressHolder(), egress.IsFree)
		if errors.Is(err, hostalloc.ErrNone) {
			err = errors.New("it takes four addresses of 198.19.0.0/16 or 100.127.0.0/16, and these networks are in use on this host")
		}
		if err != nil {
			return fmt.Errorf("no addresses for the nodes' outside network: %w; or set outbound: no", err)
		}
		rec.Network = n
		if err := t.write(t.o.State, egressFile, rec); err != nil {
			return err
		}
	}
	e, err := egress.Open(egress.Options{
		Folder: filepath.Join(t.o.State, egressFolder), Instance: t.settings.Instance, Number: rec.Network,
		Servers: t.settings.DNS, Block: t.settings.OutboundBlock, SourceAddresses: t.settings.OutboundAddresses, Log: t.log,
	})
	if err != nil {
		return fmt.Errorf("cannot create the nodes' outside network: %w; run patchbay-local doctor for details, or set outbound: no", err)
	}
	t.egress = e
	return e.Sweep(func(number int) bool { return t.nodeAtEgress(number) != nil })
}

func (t *Testbed) removeEgress() error {
	folder := filepath.Join(t.o.State, egressFolder)
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
		if err := egress.Remove(folder, t.settings.Instance); err != nil {
			return fmt.Errorf("cannot remove the nodes' outside network: %w", err)
		}
	}
	if err := os.Remove(filepath.Join(t.o.State, egressFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	problems, err := t.uplinks.Sweep(t.settings.Instance, func(string, uint32) bool { return false })
	return errors.Join(append(problems, err)...)
}

func (t *Testbed) closeEgress() error {
	if t.egress == nil {
		return nil
	}
	return t.egress.Close()
}

// nameServer returns "" if nodes have no name server.
func (t *Testbed) nameServer() string {
	if t.egress == nil {
		return ""
	}
	return egress.Gateway().String()
}

// attachEgress attaches the running node to the outside network, unless it is attached. It saves the node's
// number there in rec and the node's record.
func (nc *nodeController) attachEgress(ctx context.Context, rec *record) error {
	if nc.t.egress == nil || nc.run.hasEgress {
		return nil
	}
	number := nc.t.takeEgressNumber(rec.EgressNumber, nc)
	if number == 0 {
		return errors.New("the outside network has no free address")
	}
	if number != rec.EgressNumber {
		if err := nc.updateRecord(func(r *record) { r.EgressNumber = number }); err != nil {
			return err
		}
		rec.EgressNumber = number
	}
	space, err := nc.t.runtime.Network(nc.id)
	if err != nil {
		return err
	}
	defer space.Close()
	nc.t.egress.SetOwner(number, rec.Desired.SliceURN)
	err = nc.t.egress.Attach(ctx, number, space)
	if errors.Is(err, egress.ErrOccupied) {
		nc.t.log.Warn("a node is not attached to the outside network, since its root created another device in its place", "node", nc.id, "error", err)
		err = nil
	}
	if err == nil {
		nc.run.hasEgress = true
	}
	return err
}

func (nc *nodeController) detachEgress(rec record) error {
	if nc.t.egress == nil || nc.t.nodeAtEgress(rec.EgressNumber) != nc {
		return nil
	}
	if err := nc.t.egress.Detach(rec.EgressNumber); err != nil {
		return err
	}
	nc.t.mu.Lock()
	defer nc.t.mu.Unlock()
	delete(nc.t.egressNodes, rec.EgressNumber)
	return nil
}

func (t *Testbed) nodeAtEgress(number int) *nodeController {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.egressNodes[number]
}

// takeEgressNumber reserves the parameter number for the node, or a free number if the parameter
// is 0 or taken. It returns 0 if none is free.
func (t *Testbed) takeEgressNumber(number int, nc *nodeController) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if holder := t.egressNodes[number]; number < 1 || number > egress.MaxNumber || holder != nil && holder != nc {
		for number = 1; t.egressNodes[number] != nil; number++ {
			if number == egress.MaxNumber {
				return 0
			}
		}
	}
	t.egressNodes[number] = nc
	return number
}
