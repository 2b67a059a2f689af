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

// compactAbove is the size in bytes above which a log with mostly outdated lines is rewritten.
const compactAbove = 256 << 10

// line is one line of the log. A line replaces earlier lines about the same node or component.
type line struct {
	Seed      uint64   `json:"seed,omitempty"`
	Node      *node    `json:"node,omitempty"`
	Component *history `json:"component,omitempty"`
}

// history counts the operations on a component. The random numbers and the setting "times"
// depend on these counts.
type history struct {
	Component string `json:"name"`
	// Draws counts all operations, and Bad those in which the component misbehaved.
	Draws int `json:"draws"`
	Bad   int `json:"bad,omitempty"`
}

// state is the parsed log. It belongs to one call, which holds the lock.
type state struct {
	dir       string
	lock      *os.File
	seed      uint64
	nodes     map[string]*node
	histories map[string]history
	size      int64  // bytes of whole lines in the log
	lines     int    // number of these lines
	pending   []byte // lines that save appends to the log

	// The method place uses these fields, and creates them for the first node.
	places  map[int]bool   // places in use
	lowest  int            // all places below this one are in use
	nodesOn map[string]int // nodes of each component
}

// openState acquires the lock and reads the log. The caller must close the state.
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

func (s *state) close() error { return s.lock.Close() }

func (s *state) path() string { return filepath.Join(s.dir, "log") }

// read reads the log. A missing log is empty, and an incomplete last line is ignored.
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
		if !whole { // the end, or an incomplete line that a killed process wrote
			return nil
		}
		s.lines++
		s.size += int64(len(one)) + 1
		text = rest
		var l line
		if err := json.Unmarshal(one, &l); err != nil {
			return fmt.Errorf("%s:%d: %w; remove the folder to start without nodes", s.path(), s.lines, err)
		}
		if l.Node != nil {
			l.Node.convertSteps()
		}
		s.apply(l)
	}
}

// apply makes the change that a line of the log describes.
func (s *state) apply(l line) {
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

// append applies a line, and keeps it for save.
func (s *state) append(l line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	s.apply(l)
	s.pending = append(append(s.pending, b...), '\n')
	s.lines++
	return nil
}

// save appends the pending lines to the log, and compacts a log with mostly outdated lines. It does not sync the file,
// because a simulation may lose its nodes at a power failure.
func (s *state) save(now time.Time) error {
	if len(s.pending) == 0 {
		return nil
	}
	f, err := os.OpenFile(s.path(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(s.size); err != nil { // removes an incomplete line
		return err
	}
	if _, err := f.WriteAt(s.pending, s.size); err != nil {
		return err
	}
	s.size += int64(len(s.pending))
	s.pending = nil
	if s.size > compactAbove && s.lines > 100+3*len(s.live(now)) {
		return s.compact(now)
	}
	return f.Close()
}

// live returns the nodes that exist, by name.
func (s *state) live(now time.Time) []*node {
	var all []*node
	for _, n := range s.nodes {
		if !n.isGone(now) {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b *node) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return all
}

// compact replaces the log by one without outdated lines.
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
		if err := short.append(l); err != nil {
			return err
		}
	}
	next := s.path() + ".next"
	if err := os.WriteFile(next, short.pending, 0o600); err != nil {
		return err
	}
	return os.Rename(next, s.path())
}
