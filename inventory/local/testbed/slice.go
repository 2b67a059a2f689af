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

// quiet is how long changes among the nodes of a slice are gathered before the others
// are told: telling n nodes of n peers is not done n times.
const quiet = time.Second

// firstPeer is the address of a slice's first node inside its nodes. All of
// 127.0.0.0/8 is on lo; 127.64.0.0/10 is for peers.
var firstPeer = [4]byte{127, 64, 0, 1}

// join makes l one of its slice, and gives it an address there, with t.mu held.
func (t *Testbed) join(l *life, rec *record) error {
	urn := rec.Asked.SliceURN
	t.attach(l, urn)
	if urn == "" {
		return nil
	}
	s := t.slices[urn]
	if s == nil {
		s = &slice{t: t, urn: urn, id: sliceID(urn), peers: map[netip.Addr]*life{}}
		t.slices[urn] = s
		t.work.Go(func() { _, _ = s.experimentKey() }) // if it fails, the nodes try it again
	}
	if !rec.Peer.IsValid() || s.peers[rec.Peer] != nil {
		rec.Peer = netip.AddrFrom4(firstPeer)
		for s.peers[rec.Peer] != nil {
			rec.Peer = rec.Peer.Next()
		}
	}
	s.peers[rec.Peer] = l
	l.slice = s
	return nil
}

// leaveSlice takes l out of its slice. The last one takes the key away.
func (l *life) leaveSlice() {
	t, s := l.t, l.slice
	if s == nil {
		return
	}
	t.mu.Lock()
	maps.DeleteFunc(s.peers, func(_ netip.Addr, other *life) bool { return other == l })
	last := len(s.peers) == 0 && t.slices[s.urn] == s
	if last {
		delete(t.slices, s.urn)
	}
	t.mu.Unlock()
	if !last {
		s.announce()
		return
	}
	if err := t.forgetKey(s); err != nil {
		t.log.Error("cannot remove the key of an experiment", "slice", s.urn, "error", err)
	}
	t.work.Go(func() {
		if err := t.doors.Peers(s.id, nil); err != nil && t.ctx.Err() == nil {
			t.log.Error("cannot tell the gateway that a slice has gone", "slice", s.urn, "error", err)
		}
		if next := t.named(s.urn); next != nil { // perhaps it had told its peers already
			next.refreshing.Lock()
			next.at = nil
			next.refreshing.Unlock()
			next.announce()
		}
	})
}

// forgetKey removes the key of a slice that has gone, unless there is one of that
// name again, which may use it by now.
func (t *Testbed) forgetKey(s *slice) error {
	t.keeping.Lock()
	defer t.keeping.Unlock()
	if t.named(s.urn) != nil {
		return nil
	}
	if err := os.Remove(filepath.Join(t.keys, s.id)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// named is the slice of that name, nil when there is none.
func (t *Testbed) named(urn string) *slice {
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
	private, public, err := s.keptKey(nil)
	if errors.Is(err, fs.ErrNotExist) {
		var fresh []byte
		if fresh, err = s.t.newKey(); err == nil {
			private, public, err = s.keptKey(fresh)
		}
	}
	if err == nil {
		s.key = experimentKey{string(private), public}
	}
	return s.key, err
}

// keptKey is the key that is kept, or fresh, which then is, while the slice is there.
func (s *slice) keptKey(fresh []byte) (private []byte, public string, err error) {
	s.t.keeping.Lock()
	defer s.t.keeping.Unlock()
	if s.t.named(s.urn) != s {
		return nil, "", errors.New("the slice has gone")
	}
	return keptKey(s.t.keys, s.id, func() ([]byte, error) {
		if fresh == nil {
			return nil, fs.ErrNotExist
		}
		return fresh, nil
	})
}

// announce notes that a node of the slice came, went, or has another name.
func (s *slice) announce() {
	s.dirtyMu.Lock()
	defer s.dirtyMu.Unlock()
	s.dirty = true
	if s.timer == nil {
		s.timer = time.AfterFunc(s.t.quiet, s.push)
	}
}

// push wakes all nodes of the slice.
func (s *slice) push() {
	s.dirtyMu.Lock()
	s.timer = nil
	s.dirtyMu.Unlock()
	s.t.mu.Lock()
	var all []*life
	for _, l := range s.peers {
		all = append(all, l)
	}
	s.t.mu.Unlock()
	for _, l := range all {
		l.poke()
	}
}

// current are the lines that hold now; the gateway knows them, too.
func (s *slice) current() (peerLines, error) {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	s.dirtyMu.Lock()
	dirty := s.dirty
	s.dirty = false
	s.dirtyMu.Unlock()
	if !dirty && s.lines.version > 0 {
		return s.lines, nil
	}
	next := peerLines{version: s.lines.version + 1}
	at := map[netip.Addr]string{}
	s.t.mu.Lock()
	peers := make(map[netip.Addr]*life, len(s.peers))
	var order []netip.Addr
	for a, l := range s.peers {
		peers[a], at[a], order = l, l.id, append(order, a)
	}
	s.t.mu.Unlock()
	slices.SortFunc(order, netip.Addr.Compare)
	records, nodes := make([]record, len(order)), map[string]bool{}
	for i, a := range order {
		if records[i] = peers[a].snapshot(); records[i].Asked.Removing { // another may have its name
			delete(at, a)
			continue
		}
		for _, name := range records[i].names() {
			nodes[name] = true
		}
	}
	for i, a := range order {
		if records[i].Asked.Removing {
			continue
		}
		p := peer{life: peers[a], address: a, names: records[i].names()}
		p.ends = p.life.peerEnds(p.names, nodes)
		next.peers = append(next.peers, p)
		next.known = append(next.known, p.known(records[i].HostKey)...)
	}
	if s.lines.version > 0 && slices.EqualFunc(next.peers, s.lines.peers, samePeer) && slices.Equal(next.known, s.lines.known) && maps.Equal(at, s.at) {
		return s.lines, nil
	}
	if err := s.t.doors.Peers(s.id, at); err != nil {
		s.dirtyMu.Lock()
		s.dirty = true
		s.dirtyMu.Unlock()
		s.at = nil // nobody knows what it was told
		return peerLines{}, err
	}
	s.lines, s.at = next, at
	return next, nil
}

// names are what the node is called by its peers.
func (r *record) names() []string {
	var all []string
	short, _, _ := strings.Cut(r.Asked.Hostname, ".")
	for _, name := range []string{r.Asked.Hostname, short, r.Asked.ClientID} {
		if agent.IsHostname(name) && !slices.Contains(all, name) && name != "localhost" {
			all = append(all, name)
		}
	}
	return all
}

// sweepKeys removes keys of slices that are no more, with t.mu held.
func (t *Testbed) sweepKeys() error {
	entries, err := os.ReadDir(t.keys)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, s := range t.slices {
		known[s.id] = true
	}
	for _, e := range entries {
		if !known[e.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(t.keys, e.Name())))
		}
	}
	return err
}
