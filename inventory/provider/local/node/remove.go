package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Kill kills all of the node's processes, and waits until its mounts, cgroups and loop devices no
// longer exist. The disks stay.
func (h *Host) Kill(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	defer h.locks.lock(id)()
	return h.kill(ctx, id)
}

// kill kills all processes of a node, removes its cgroups and its socket, and waits until its disks are unused.
// The node's lock is held.
func (h *Host) kill(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	pids, err := h.tree.PIDs(id)
	if err != nil {
		return err
	}
	if r, err := h.readRecord(id); err == nil && r.Boot == h.boot && !slices.Contains(pids, r.PID) {
		if started, _, err := ProcessStat(r.PID); err == nil && started == r.Started {
			pids = append(pids, r.PID) // dead but not yet reaped
		}
	}
	if err := h.tree.Kill(ctx, id); err != nil {
		return fmt.Errorf("cannot kill node %s: %w", id, err)
	}
	if err := h.tree.Remove(ctx, id); err != nil {
		return err
	}
	for _, pid := range pids {
		reap(pid) // fails for processes that are not children
	}
	if err := h.nodes.Remove(filepath.Join(id, socketFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return h.waitForDisks(ctx, id)
}

func (h *Host) waitForDisks(ctx context.Context, id string) error {
	names, err := h.diskFiles(id)
	for _, name := range names {
		f, errDisk := h.nodes.OpenFile(name, os.O_RDONLY, 0)
		if errDisk == nil {
			errDisk = errors.Join(lockDisk(ctx, f), f.Close())
		}
		err = errors.Join(err, errDisk)
	}
	return err
}

// Remove kills the node and removes its folder. It succeeds if the node does not exist.
func (h *Host) Remove(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	defer h.locks.lock(id)()
	if err := h.kill(ctx, id); err != nil {
		return err
	}
	if err := checkUnmounted(h.Dir(id)); err != nil {
		return err
	}
	// The rename removes the node at once; its files can be removed later.
	gone := filepath.Join(trashFolder, id+"."+strconv.FormatInt(time.Now().UnixNano(), 36))
	err := h.state.Rename(filepath.Join(nodesFolder, id), gone)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return h.removeFolder(gone)
}

// reapNode reaps the dead processes of a node whose start failed. When the stage that
// started PID 1 is killed, PID 1 becomes a child of this process, a child subreaper. Cgroups
// do not list dead processes, so reapNode finds them by their user id.
func reapNode(base uint32) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // the process has ended
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid < base || st.Uid-base >= idCount {
			continue
		}
		reap(pid) // a process leaves its cgroup a moment before it can be reaped
	}
	return nil
}

// checkUnmounted fails if a file system is mounted in dir, since Remove must not remove the
// files of that file system.
func checkUnmounted(dir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 4 && (fields[4] == dir || strings.HasPrefix(fields[4], dir+"/")) {
			return fmt.Errorf("something is mounted at %s: unmount it, then remove the node again", fields[4])
		}
	}
	return lines.Err()
}

// emptyTrash completes interrupted calls of Remove.
func (h *Host) emptyTrash() error {
	entries, err := fs.ReadDir(h.state.FS(), trashFolder)
	for _, e := range entries {
		err = errors.Join(err, h.removeFolder(filepath.Join(trashFolder, e.Name())))
	}
	return err
}

// removeFolder removes a folder of the state with its files. It fails if there is a subfolder, which a node's
// folder never has.
func (h *Host) removeFolder(folder string) error {
	dir, err := h.state.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := unix.Unlinkat(int(dir.Fd()), name, 0); err != nil && err != unix.ENOENT {
			return fmt.Errorf("cannot remove %s: %w", filepath.Join(h.State, folder, name), err)
		}
	}
	if err := h.state.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
