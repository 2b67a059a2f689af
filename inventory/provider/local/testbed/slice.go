package testbed

import (
	"errors"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"patchbay/am/file"
	"patchbay/rspec/hostname"
)

// peerUpdateDelay is how long changes among the nodes of a slice are collected before all
// nodes are updated. Otherwise n new nodes would cause n updates of n nodes.
const peerUpdateDelay = time.Second

// peersPause is the time between two looks whether the other nodes know a new one.
const peersPause = 50 * time.Millisecond

// firstPeer is the address of a slice's first node, as used inside the slice's nodes. All of
// 127.0.0.0/8 is on lo; 127.64.0.0/16 is for peers.
var firstPeer = [4]byte{127, 64, 0, 1}

// joinSlice adds nc to the network and the slice of its record, and creates them if they are missing. If
// the address rec.Peer is unset or taken, it stores a free one there. t.mu is held.
func (t *Testbed) joinSlice(nc *nodeController, rec *record) {
	urn := rec.Desired.SliceURN
	t.joinNetwork(nc, urn)
	if urn == "" {
		return
	}
	s := t.slices[urn]
	if s == nil {
		s = &slice{t: t, urn: urn, id: sliceID(urn), peers: map[netip.Addr]*nodeController{}, manifest: cachedManifest{slot: make(semaphore, 1)}}
		t.slices[urn] = s
		t.work.Go(func() { _, _ = s.experimentKey() }) // on failure, the nodes try it again
	}
	if !rec.Peer.IsValid() || s.peers[rec.Peer] != nil {
		rec.Peer = netip.AddrFrom4(firstPeer)
		for s.peers[rec.Peer] != nil {
			rec.Peer = rec.Peer.Next()
		}
	}
	s.peers[rec.Peer] = nc
	nc.slice = s
}

// leaveSlice removes nc from its slice. The last node removes the slice with its key; the slice's peers at
// the gateway are then removed in the background.
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
			t.log.Error("cannot remove the peers of a slice from the gateway", "slice", s.urn, "error", err)
		}
		// SetPeers has also removed the peers that a new slice with this URN may have sent.
		if next := t.sliceByURN(s.urn); next != nil {
			next.refreshMu.Lock()
			next.gatewayPeers = nil
			next.refreshMu.Unlock()
			next.schedulePeerUpdate()
		}
	})
}

// removeKey keeps the key if a new slice has the same URN, since that slice may use the key.
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

func (t *Testbed) sliceByURN(urn string) *slice {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.slices[urn]
}

// experimentKey returns the key of the slice: from memory, or from its file. If there is no file, it makes
// a key and saves it. keysMu is not held while the key is made, since that is slow.
func (s *slice) experimentKey() (experimentKey, error) {
	s.keyMu.Lock()
	defer s.keyMu.Unlock()
	if s.key.public != "" {
		return s.key, nil
	}
	private, public, err := s.loadOrSaveKey(nil)
	if errors.Is(err, fs.ErrNotExist) {
		var fresh []byte
		if fresh, err = s.t.newKey(); err == nil {
			private, public, err = s.loadOrSaveKey(fresh)
		}
	}
	if err == nil {
		s.key = experimentKey{string(private), public}
	}
	return s.key, err
}

// replaceKey replaces the key, and wakes all nodes of the slice, which then accept only the new
// key. Concurrent calls share a key if it was created after each of them began.
func (s *slice) replaceKey() error {
	call := s.replacements.Add(1)
	s.keyMu.Lock()
	defer s.keyMu.Unlock()
	if s.replaced >= call {
		return nil
	}
	covered := s.replacements.Load()
	fresh, err := s.t.newKey()
	if err != nil {
		return err
	}
	public, err := publicLines(fresh)
	if err == nil {
		err = s.saveKey(fresh)
	}
	if err != nil {
		return err
	}
	s.key, s.replaced = experimentKey{string(fresh), public}, covered
	s.wakeAll()
	return nil
}

func (s *slice) saveKey(private []byte) error {
	s.t.keysMu.Lock()
	defer s.t.keysMu.Unlock()
	if s.t.sliceByURN(s.urn) != s {
		return errors.New("the slice was removed")
	}
	return file.Write(filepath.Join(s.t.keysDir, s.id), private, 0o600)
}

// others returns the records of the slice's other nodes, without those that are being removed.
func (s *slice) others(than *nodeController) (list []record) {
	for _, nc := range s.nodes() {
		if rec := nc.snapshot(); nc != than && !rec.Desired.Removing {
			list = append(list, rec)
		}
	}
	return list
}

func (s *slice) nodes() (all []*nodeController) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	for _, nc := range s.peers {
		all = append(all, nc)
	}
	return all
}

func (s *slice) wakeAll() {
	for _, nc := range s.nodes() {
		nc.wake()
	}
}

// loadOrSaveKey reads the saved key of a slice that still exists. If no key is saved, it saves and
// returns newKey. If newKey is nil, too, it fails with fs.ErrNotExist.
func (s *slice) loadOrSaveKey(newKey []byte) (private []byte, public string, err error) {
	s.t.keysMu.Lock()
	defer s.t.keysMu.Unlock()
	if s.t.sliceByURN(s.urn) != s {
		return nil, "", errors.New("the slice was removed")
	}
	return loadOrCreateKey(s.t.keysDir, s.id, func() ([]byte, error) {
		if newKey == nil {
			return nil, fs.ErrNotExist
		}
		return newKey, nil
	})
}

// schedulePeerUpdate must be called after a node of the slice was added, removed or renamed.
// After peerUpdateDelay it wakes all nodes of the slice.
func (s *slice) schedulePeerUpdate() {
	s.dirtyMu.Lock()
	defer s.dirtyMu.Unlock()
	s.dirty = true
	if s.timer == nil {
		s.timer = time.AfterFunc(s.t.peerUpdateDelay, s.wakeNodes)
	}
}

func (s *slice) wakeNodes() {
	s.dirtyMu.Lock()
	s.timer = nil
	s.dirtyMu.Unlock()
	s.wakeAll()
}

// isBehind reports whether a running node other than nc has older files than this version.
func (s *slice) isBehind(nc *nodeController, version uint64) bool {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	for _, other := range s.peers {
		if known := other.hosts.Load(); other != nc && known > 0 && known < version {
			return true
		}
	}
	return false
}

// refreshPeers returns the content of the files about the slice's nodes, with a new version if it has
// changed. It first sends the changed addresses of nodes to the gateway; if that fails, the next call
// repeats it.
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
	at := map[netip.Addr]string{} // node ids by address, for the gateway
	s.t.mu.Lock()
	peers := make(map[netip.Addr]*nodeController, len(s.peers))
	var order []netip.Addr
	for a, nc := range s.peers {
		peers[a], at[a], order = nc, nc.id, append(order, a)
	}
	s.t.mu.Unlock()
	slices.SortFunc(order, netip.Addr.Compare)
	var hostKeys []string
	for _, a := range order {
		nc := peers[a]
		rec := nc.snapshot()
		if rec.Desired.Removing { // a new node may have the same names
			delete(at, a)
			continue
		}
		next.nodes, hostKeys = append(next.nodes, nc), append(hostKeys, rec.HostKey)
		next.peers = append(next.peers, hostname.Peer{ClientID: rec.Desired.ClientID, Hostname: rec.Desired.Hostname, Address: a, Interfaces: nc.peerInterfaces()})
	}
	hostname.SetNames(next.peers)
	for i := range next.peers {
		next.knownHosts = append(next.knownHosts, knownHostsLines(&next.peers[i], hostKeys[i])...)
	}
	if s.files.version > 0 && slices.Equal(next.nodes, s.files.nodes) && slices.EqualFunc(next.peers, s.files.peers, hasSameNames) && slices.Equal(next.knownHosts, s.files.knownHosts) && maps.Equal(at, s.gatewayPeers) {
		return s.files, nil
	}
	if err := s.t.gateway.SetPeers(s.id, at); err != nil {
		s.dirtyMu.Lock()
		s.dirty = true
		s.dirtyMu.Unlock()
		s.gatewayPeers = nil // unknown after the error
		return peerFiles{}, err
	}
	s.files, s.gatewayPeers = next, at
	return next, nil
}

// sweepKeys removes keys of slices that no longer exist. t.mu is held.
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
