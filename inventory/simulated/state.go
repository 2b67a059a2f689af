package simulated

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// compactAbove is the size in bytes from which a log that is mostly past is
// written anew.
const compactAbove = 256 << 10

// line is one line of the log; the last one about a thing counts.
type line struct {
	Seed      uint64   `json:"seed,omitempty"`
	Node      *node    `json:"node,omitempty"`
	Component *history `json:"component,omitempty"`
}

// history is what dice and settings need to know of a component's past.
type history struct {
	Component string `json:"name"`
	// Draws counts its operations, Bad those that were set up to go wrong.
	Draws int `json:"draws"`
	Bad   int `json:"bad,omitempty"`
}

// state is the log, read. It belongs to one call, which holds the lock.
type state struct {
	dir       string
	lock      *os.File
	seed      uint64
	nodes     map[string]*node
	histories map[string]history
	size      int64  // bytes of whole lines in the log
	lines     int    // how many those are
	news      []byte // lines to append

	// What settle needs, made when the first node is settled.
	places map[int]bool   // taken
	lowest int            // no place below is free
	crowd  map[string]int // nodes of each component
}

// openState takes the lock, shared or exclusive, and reads the log.
func openState(dir string, exclusive bool) (*state, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	s := &state{dir: dir, lock: lock, nodes: map[string]*node{}, histories: map[string]history{}}
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	for {
		if err = syscall.Flock(int(lock.Fd()), how); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		err = s.read()
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	return s, nil
}

// close lets go of the lock.
func (s *state) close() error { return s.lock.Close() }

func (s *state) path() string { return filepath.Join(s.dir, "log") }

func (s *state) read() error {
	text, err := os.ReadFile(s.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for {
		one, rest, whole := bytes.Cut(text, []byte{'\n'})
		if !whole { // nothing, or what a killed process left
			return nil
		}
		s.lines++
		s.size += int64(len(one)) + 1
		text = rest
		var l line
		if err := json.Unmarshal(one, &l); err != nil {
			return fmt.Errorf("%s:%d: %w; remove the folder to start anew", s.path(), s.lines, err)
		}
		s.take(l)
	}
}

func (s *state) take(l line) {
	if l.Seed != 0 {
		s.seed = l.Seed
	}
	if l.Node != nil {
		s.nodes[l.Node.Name] = l.Node
	}
	if l.Component != nil {
		s.histories[l.Component.Component] = *l.Component
	}
}

// put changes the state and remembers the line for save.
func (s *state) put(l line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	s.take(l)
	s.news = append(append(s.news, b...), '\n')
	s.lines++
	return nil
}

// save appends what was put. It does not wait for the disk: a simulation may
// forget its nodes when the host loses power.
func (s *state) save(now time.Time) error {
	if len(s.news) == 0 {
		return nil
	}
	f, err := os.OpenFile(s.path(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(s.size); err != nil { // an unfinished line goes
		return err
	}
	if _, err := f.WriteAt(s.news, s.size); err != nil {
		return err
	}
	s.size += int64(len(s.news))
	s.news = nil
	if s.size > compactAbove && s.lines > 100+3*len(s.live(now)) {
		return s.compact(now)
	}
	return f.Close()
}

// live are the nodes that are not gone, by name.
func (s *state) live(now time.Time) []*node {
	var all []*node
	for _, n := range s.nodes {
		if !n.gone(now) {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b *node) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return all
}

// compact replaces the log by one that holds only what still counts.
func (s *state) compact(now time.Time) error {
	short := &state{dir: s.dir, nodes: map[string]*node{}, histories: map[string]history{}}
	all := []line{{Seed: s.seed}}
	for _, h := range s.histories {
		all = append(all, line{Component: &h})
	}
	for _, n := range s.live(now) {
		all = append(all, line{Node: n})
	}
	for _, l := range all {
		if err := short.put(l); err != nil {
			return err
		}
	}
	next := s.path() + ".next"
	if err := os.WriteFile(next, short.news, 0o600); err != nil {
		return err
	}
	return os.Rename(next, s.path())
}
