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

// The parents of the groups of all testbeds: one for nodes, which share limits, and one
// for other programs, which must continue when nodes have reached these limits.
const (
	nodesParent    = "patchbay-local"
	programsParent = "patchbay-local-programs"
)

const (
	initLeaf = "init"
	jobsLeaf = "jobs"
)

// Tree manages the groups of one testbed, which the name instance identifies. The
// groups are its only state, so several Trees may manage one instance.
type Tree struct {
	parent   string
	instance string
	all      []hierarchy
	parents  sync.Mutex // held while parent groups are created or removed
}

// Open detects the host's cgroup version, and creates the parent groups for the
// instance's nodes. All nodes of all instances share the limits of SharedLimits. The
// caller must check the names of instances and groups, because they become names of
// folders.
func Open(instance string) (*Tree, error) { return openBelow(nodesParent, instance) }

// OpenPrograms is like Open, for programs that are not nodes. Each program has limits of
// its own; there is no limit for all of them together.
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

// Version returns "v1", "hybrid" or "v2".
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

// with returns the hierarchy of a limiting controller. Each limiting controller has one,
// as detect requires.
func (t *Tree) with(controller string) hierarchy {
	return t.all[slices.IndexFunc(t.all, func(h hierarchy) bool { return h.has(controller) })]
}

func (t *Tree) dir(h hierarchy, names ...string) string {
	return filepath.Join(append([]string{h.path, t.parent, t.instance}, names...)...)
}

// leaf returns the group for PID 1 of id in a hierarchy.
func (t *Tree) leaf(h hierarchy, id string) string {
	if len(h.leafControllers()) > 0 {
		return t.dir(h, id, initLeaf)
	}
	return t.dir(h, id)
}

// retryMissing calls f again, up to 100 times, while f fails with os.ErrNotExist:
// another testbed may remove the common parent during f.
func retryMissing(f func() error) (err error) {
	for range 100 {
		if err = f(); !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return err
}

// makeParents creates the groups above those of nodes, with their controllers, and limits all nodes together.
func (t *Tree) makeParents() error {
	t.parents.Lock()
	defer t.parents.Unlock()
	return retryMissing(func() error {
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
				if err := limitAll(h, filepath.Join(h.path, t.parent)); err != nil {
					return fmt.Errorf("cannot limit all nodes together: %w", err)
				}
			}
		}
		return nil
	})
}

func enable(h hierarchy, dir string, controllers []string) error {
	if !h.v2 || len(controllers) == 0 {
		return nil
	}
	if err := write(dir, "cgroup.subtree_control", "+"+strings.Join(controllers, " +")); err != nil {
		return fmt.Errorf("cannot set limits below %s: %w; a group that contains processes cannot have limited groups below it", dir, err)
	}
	return nil
}

// Make creates the groups of id with limits. The groups must not exist yet.
func (t *Tree) Make(id string, limits Limits) error {
	return retryMissing(func() error {
		err := t.createGroup(id, limits)
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

// createGroup creates the groups of id in all hierarchies, and sets their limits. After an error, some of the
// groups may remain.
func (t *Tree) createGroup(id string, limits Limits) error {
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
			if err := setWeight(h, t.dir(h, id, initLeaf), 10); err != nil {
				return err
			}
		}
	}
	return t.Update(id, limits)
}

// IDs returns the ids of all groups of the instance, including incomplete ones.
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

// Remove removes the groups of id. It retries until their processes have ended, or
// until ctx ends. Missing groups are no error.
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

// Close removes the parents, unless they contain groups.
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

// removeAll removes a group and the groups below it. A missing group is no error.
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

func write(dir, file, text string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// RemoveEmpty removes those groups of id that contain no process.
func (t *Tree) RemoveEmpty(id string) {
	for _, h := range t.all {
		removeAll(t.dir(h, id))
	}
}
