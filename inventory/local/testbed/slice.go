package testbed

import (
	"errors"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/inventory/local/agent"
)

// peerUpdateDelay is how long changes among the nodes of a slice are gathered before the others
// are told: telling n nodes of n peers is not done n times.
const peerUpdateDelay = time.Second

// firstPeer is the address of a slice's first node inside its nodes. All of
// 127.0.0.0/8 is on lo; 127.64.0.0/10 is for peers.
var firstPeer = [4]byte{127, 64, 0, 1}

// joinSlice makes l one of its slice, and gives it an address there, with t.mu held.
func (t *Testbed) joinSlice(nc *nodeController, rec *record) error {
	urn := rec.Desired.SliceURN
	t.joinNetwork(nc, urn)
	if urn == "" {
		return nil
	}
	s := t.slices[urn]
	if s == nil {
		s = &slice{t: t, urn: urn, id: sliceID(urn), peers: map[netip.Addr]*nodeController{}}
		t.slices[urn] = s
		t.work.Go(func() { _, _ = s.experimentKey() }) // if it fails, the nodes try it again
	}
	if !rec.Peer.IsValid() || s.peers[rec.Peer] != nil {
		rec.Peer = netip.AddrFrom4(firstPeer)
		for s.peers[rec.Peer] != nil {
			rec.Peer = rec.Peer.Next()
		}
	}
	s.peers[rec.Peer] = nc
	nc.slice = s
	return nil
}

// leaveSlice takes l out of its slice. The last one takes the key away.
func (nc *nodeController) leaveSlice() {
	t, s := nc.t, nc.slice
	if s == nil {
		return
	}
	t.mu.Lock()
	maps.DeleteFunc(s.peers, func(_ netip.Addr, other *nodeController) bool { return other == nc })
	last := len(s.peers) == 0 && t.slices[s.urn] == s
	if last {
		delete(t.slices, s.urn)
	}
	t.mu.Unlock()
	if !last {
		s.schedulePeerUpdate()
		return
	}
	if err := t.removeKey(s); err != nil {
		t.log.Error("cannot remove the key of an experiment", "slice", s.urn, "error", err)
	}
	t.work.Go(func() {
		if err := t.gateway.SetPeers(s.id, nil); err != nil && t.ctx.Err() == nil {
			t.log.Error("cannot tell the gateway that a slice has gone", "slice", s.urn, "error", err)
		}
		if next := t.sliceByURN(s.urn); next != nil { // perhaps it had told its peers already
			next.refreshMu.Lock()
			next.gatewayPeers = nil
			next.refreshMu.Unlock()
			next.schedulePeerUpdate()
		}
	})
}

// removeKey removes the key of a slice that has gone, unless there is one of that
// name again, which may use it by now.
func (t *Testbed) removeKey(s *slice) error {
	t.keysMu.Lock()
	defer t.keysMu.Unlock()
	if t.sliceByURN(s.urn) != nil {
		return nil
	}
	if err := os.Remove(filepath.Join(t.keysDir, s.id)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sliceByURN is the slice of that name, nil when there is none.
func (t *Testbed) sliceByURN(urn string) *slice {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.slices[urn]
}

// experimentKey is the slice's key, which is made unless there is one.
func (s *slice) experimentKey() (experimentKey, error) {
	s.keyMu.Lock()
	defer s.keyMu.Unlock()
	if s.key.public != "" {
		return s.key, nil
	}
	private, public, err := s.loadKey(nil)
	if errors.Is(err, fs.ErrNotExist) {
		var fresh []byte
		if fresh, err = s.t.newKey(); err == nil {
			private, public, err = s.loadKey(fresh)
		}
	}
	if err == nil {
		s.key = experimentKey{string(private), public}
	}
	return s.key, err
}

// loadKey is the key that is kept, or fresh, which then is, while the slice is there.
func (s *slice) loadKey(fresh []byte) (private []byte, public string, err error) {
	s.t.keysMu.Lock()
	defer s.t.keysMu.Unlock()
	if s.t.sliceByURN(s.urn) != s {
		return nil, "", errors.New("the slice has gone")
	}
	return loadOrCreateKey(s.t.keysDir, s.id, func() ([]byte, error) {
		if fresh == nil {
			return nil, fs.ErrNotExist
		}
		return fresh, nil
	})
}

// schedulePeerUpdate notes that a node of the slice came, went, or has another name.
func (s *slice) schedulePeerUpdate() {
	s.dirtyMu.Lock()
	defer s.dirtyMu.Unlock()
	s.dirty = true
	if s.timer == nil {
		s.timer = time.AfterFunc(s.t.peerUpdateDelay, s.wakeNodes)
	}
}

// wakeNodes wakes all nodes of the slice.
func (s *slice) wakeNodes() {
	s.dirtyMu.Lock()
	s.timer = nil
	s.dirtyMu.Unlock()
	s.t.mu.Lock()
	var all []*nodeController
	for _, nc := range s.peers {
		all = append(all, nc)
	}
	s.t.mu.Unlock()
	for _, nc := range all {
		nc.wake()
	}
}

// refreshPeers are the lines that hold now; the gateway knows them, too.
func (s *slice) refreshPeers() (peerFiles, error) {
	s.refreshMu.Lock()
	defer s.refreshMu.Unlock()
	s.dirtyMu.Lock()
	dirty := s.dirty
	s.dirty = false
	s.dirtyMu.Unlock()
	if !dirty && s.files.version > 0 {
		return s.files, nil
	}
	next := peerFiles{version: s.files.version + 1}
	at := map[netip.Addr]string{}
	s.t.mu.Lock()
	peers := make(map[netip.Addr]*nodeController, len(s.peers))
	var order []netip.Addr
	for a, nc := range s.peers {
		peers[a], at[a], order = nc, nc.id, append(order, a)
	}
	s.t.mu.Unlock()
	slices.SortFunc(order, netip.Addr.Compare)
	records, nodes := make([]record, len(order)), map[string]bool{}
	for i, a := range order {
		if records[i] = peers[a].snapshot(); records[i].Desired.Removing { // another may have its name
			delete(at, a)
			continue
		}
		for _, name := range records[i].peerNames() {
			nodes[name] = true
		}
	}
	for i, a := range order {
		if records[i].Desired.Removing {
			continue
		}
		p := peer{node: peers[a], address: a, names: records[i].peerNames()}
		p.interfaces = p.node.peerInterfaces(p.names, nodes)
		next.peers = append(next.peers, p)
		next.knownHosts = append(next.knownHosts, p.knownHostsLines(records[i].HostKey)...)
	}
	if s.files.version > 0 && slices.EqualFunc(next.peers, s.files.peers, samePeer) && slices.Equal(next.knownHosts, s.files.knownHosts) && maps.Equal(at, s.gatewayPeers) {
		return s.files, nil
	}
	if err := s.t.gateway.SetPeers(s.id, at); err != nil {
		s.dirtyMu.Lock()
		s.dirty = true
		s.dirtyMu.Unlock()
		s.gatewayPeers = nil // nobody knows what it was told
		return peerFiles{}, err
	}
	s.files, s.gatewayPeers = next, at
	return next, nil
}

// peerNames are what the node is called by its peers.
func (r *record) peerNames() []string {
	var all []string
	short, _, _ := strings.Cut(r.Desired.Hostname, ".")
	for _, name := range []string{r.Desired.Hostname, short, r.Desired.ClientID} {
		if agent.IsHostname(name) && !slices.Contains(all, name) && name != "localhost" {
			all = append(all, name)
		}
	}
	return all
}

// sweepKeys removes keys of slices that are no more, with t.mu held.
func (t *Testbed) sweepKeys() error {
	entries, err := os.ReadDir(t.keysDir)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, s := range t.slices {
		known[s.id] = true
	}
	for _, e := range entries {
		if !known[e.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(t.keysDir, e.Name())))
		}
	}
	return err
}
