package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Kill kills all processes in the groups of id. It does not wait for their end.
func (t *Tree) Kill(ctx context.Context, id string) error {
	for _, h := range t.all {
		if !h.v2 {
			continue
		}
		err := write(t.dir(h, id), "cgroup.kill", "1")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("cannot end the processes of %s: %w", id, err)
		}
		return nil // this group contains all processes of id
	}
	return t.killEach(ctx, id)
}

// killEach kills the processes of id one by one, on hosts that have only version 1 of cgroups. It freezes the
// group, so that no new processes start.
func (t *Tree) killEach(ctx context.Context, id string) error {
	freezer := slices.IndexFunc(t.all, func(h hierarchy) bool { return h.has("freezer") })
	if freezer >= 0 {
		dir := t.dir(t.all[freezer], id)
		defer write(dir, "freezer.state", "THAWED") // also a group that is only partly frozen
		if err := freeze(ctx, dir); err != nil {
			return err
		}
	}
	pids, err := t.PIDs(id)
	for _, pid := range pids {
		if e := unix.Kill(pid, unix.SIGKILL); e != nil && e != unix.ESRCH {
			err = errors.Join(err, fmt.Errorf("cannot kill process %d: %w", pid, e))
		}
	}
	return err
}

// freeze freezes the group in the folder dir. It retries until ctx ends. A missing group is no error.
func freeze(ctx context.Context, dir string) error {
	for {
		err := write(dir, "freezer.state", "FROZEN")
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		b, reading := os.ReadFile(filepath.Join(dir, "freezer.state"))
		if strings.TrimSpace(string(b)) == "FROZEN" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot freeze %s: %w", dir, errors.Join(err, reading, ctx.Err()))
		case <-time.After(time.Millisecond):
		}
	}
}

// PIDs returns the processes of id, without zombies.
func (t *Tree) PIDs(id string) ([]int, error) {
	var pids []int
	for _, h := range t.all {
		for _, leaf := range []string{"", initLeaf, jobsLeaf} {
			in, err := readPIDs(filepath.Join(t.dir(h, id, leaf), "cgroup.procs"))
			if err != nil {
				return nil, err
			}
			pids = append(pids, in...)
		}
	}
	// During Start, a thread of this process is in the group.
	pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() })
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// readPIDs returns no processes if the file is missing.
func readPIDs(file string) (pids []int, err error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil // ENODEV: the group was just removed
	}
	for text := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(text); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, err
}
