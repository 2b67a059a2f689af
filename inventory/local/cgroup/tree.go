package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The groups of all instances: of nodes, which have limits in common, and of the
// programs beside them, which must go on when nodes have used these up.
const (
	nodesParent    = "patchbay-local"
	programsParent = "patchbay-local-programs"
)

const (
	initLeaf = "init"
	jobsLeaf = "jobs"
)

// Tree is the groups of one instance. It keeps nothing in memory that the
// kernel does not know, so several may work on one instance.
type Tree struct {
	parent   string
	instance string
	all      []hierarchy
	parents  sync.Mutex // held while groups above those of nodes come and go
}

// Open finds out how this host does groups and makes the parents of those of
// the instance's nodes, which with those of all other instances are bounded by what
// the host can spare. Names of instances and of groups are the caller's to check:
// they become names of folders.
func Open(instance string) (*Tree, error) { return openBelow(nodesParent, instance) }

// OpenPrograms is Open for programs that are no nodes: these are bounded each by
// itself, and not together with nodes.
func OpenPrograms(instance string) (*Tree, error) { return openBelow(programsParent, instance) }

func openBelow(parent, instance string) (*Tree, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := detect(f)
	if err != nil {
		return nil, err
	}
	t := &Tree{parent: parent, instance: instance, all: all}
	return t, t.makeParents()
}

// Version is "v1", "hybrid" or "v2": where the controllers are.
func (t *Tree) Version() string {
	two := slices.ContainsFunc(t.all, func(h hierarchy) bool { return h.v2 })
	one := slices.ContainsFunc(t.all, func(h hierarchy) bool { return !h.v2 })
	switch {
	case two && one:
		return "hybrid"
	case two:
		return "v2"
	}
	return "v1"
}

// with is the hierarchy that has a controller; detect has made sure that there is
// one for each that limits.
func (t *Tree) with(controller string) hierarchy {
	return t.all[slices.IndexFunc(t.all, func(h hierarchy) bool { return h.has(controller) })]
}

// dir is a group of the instance in one hierarchy.
func (t *Tree) dir(h hierarchy, names ...string) string {
	return filepath.Join(append([]string{h.path, t.parent, t.instance}, names...)...)
}

// leaf is where PID 1 is in a hierarchy.
func (t *Tree) leaf(h hierarchy, id string) string {
	if len(h.leafControllers()) > 0 {
		return t.dir(h, id, initLeaf)
	}
	return t.dir(h, id)
}

// insist calls f again where another instance went and took the common parent
// away between two steps of f.
func insist(f func() error) (err error) {
	for range 100 {
		if err = f(); !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return err
}

func (t *Tree) makeParents() error {
	t.parents.Lock()
	defer t.parents.Unlock()
	return insist(func() error {
		for _, h := range t.all {
			for _, dir := range []string{h.path, filepath.Join(h.path, t.parent), t.dir(h)} {
				if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
					return fmt.Errorf("cannot make the group %s: %w", dir, err)
				}
				if err := enable(h, dir, h.controllers); err != nil {
					return err
				}
			}
			if t.parent == nodesParent {
				if err := bound(h, filepath.Join(h.path, t.parent)); err != nil {
					return fmt.Errorf("cannot bound what all nodes may have together: %w", err)
				}
			}
		}
		return nil
	})
}

// enable gives the groups below dir the controllers.
func enable(h hierarchy, dir string, controllers []string) error {
	if !h.v2 || len(controllers) == 0 {
		return nil
	}
	if err := write(dir, "cgroup.subtree_control", "+"+strings.Join(controllers, " +")); err != nil {
		return fmt.Errorf("cannot have limits below %s: %w; a group that has processes of its own cannot hand limits on", dir, err)
	}
	return nil
}

// Make makes the groups of id under limits. There must be none.
func (t *Tree) Make(id string, limits Limits) error {
	return insist(func() error {
		err := t.make(id, limits)
		if err == nil || errors.Is(err, os.ErrExist) {
			return err
		}
		t.RemoveEmpty(id)
		if errors.Is(err, os.ErrNotExist) {
			if err := t.makeParents(); err != nil {
				return err
			}
		}
		return err
	})
}

func (t *Tree) make(id string, limits Limits) error {
	for _, h := range t.all {
		if err := os.Mkdir(t.dir(h, id), 0o755); err != nil {
			return fmt.Errorf("cannot make a group: %w", err)
		}
	}
	for _, h := range t.all {
		controllers := h.leafControllers()
		if len(controllers) == 0 {
			continue
		}
		if err := enable(h, t.dir(h, id), controllers); err != nil {
			return err
		}
		for _, leaf := range []string{initLeaf, jobsLeaf} {
			if err := os.Mkdir(t.dir(h, id, leaf), 0o755); err != nil {
				return fmt.Errorf("cannot make a group: %w", err)
			}
		}
		if h.has("cpu") {
			if err := weigh(h, t.dir(h, id, initLeaf), 10); err != nil {
				return err
			}
		}
	}
	return t.Update(id, limits)
}

// IDs are all groups of the instance, whole or not.
func (t *Tree) IDs() ([]string, error) {
	var ids []string
	for _, h := range t.all {
		entries, err := os.ReadDir(t.dir(h))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() {
				ids = append(ids, e.Name())
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// Remove removes the groups of id, once its processes are gone; it waits for
// that until ctx is done. Groups that are not there are no error.
func (t *Tree) Remove(ctx context.Context, id string) error {
	pause := 200 * time.Microsecond
	for {
		var err error
		for _, h := range t.all {
			err = errors.Join(err, removeAll(t.dir(h, id)))
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot remove the groups of %s: %w", id, err)
		case <-time.After(pause):
		}
		pause = min(2*pause, 5*time.Millisecond)
	}
}

// Close removes the parents, unless groups are left below them.
func (t *Tree) Close() error {
	t.parents.Lock()
	defer t.parents.Unlock()
	var errs []error
	for _, h := range t.all {
		for _, dir := range []string{t.dir(h), filepath.Join(h.path, t.parent)} {
			err := unix.Rmdir(dir)
			if err != nil && err != unix.EBUSY && err != unix.ENOTEMPTY && err != unix.ENOENT {
				errs = append(errs, &os.PathError{Op: "rmdir", Path: dir, Err: err})
			}
		}
	}
	return errors.Join(errs...)
}

// removeAll removes a group with those below it, the deepest first.
func removeAll(dir string) error {
	err := unix.Rmdir(dir)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	entries, reading := os.ReadDir(dir)
	if errors.Is(reading, os.ErrNotExist) {
		return nil
	}
	below := false
	for _, e := range entries {
		if e.IsDir() {
			below = true
			if err := removeAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if below {
		err = unix.Rmdir(dir)
	}
	if err == nil || err == unix.ENOENT {
		return nil
	}
	return &os.PathError{Op: "rmdir", Path: dir, Err: err}
}

// write writes to a file of a group, which must exist.
func write(dir, file, text string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// RemoveEmpty removes the groups of id unless a process is in them.
func (t *Tree) RemoveEmpty(id string) {
	for _, h := range t.all {
		removeAll(t.dir(h, id))
	}
}
