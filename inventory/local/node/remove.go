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

// Kill ends all of the node's processes at once and waits until its mounts,
// groups and loop device are gone. Its disk stays.
func (h *Host) Kill(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	defer h.locks.lock(id)()
	return h.kill(ctx, id)
}

func (h *Host) kill(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	pids, err := h.tree.PIDs(id)
	if err != nil {
		return err
	}
	if r, err := h.readRecord(id); err == nil && r.Boot == h.boot && !slices.Contains(pids, r.PID) {
		if started, _, err := ProcessStat(r.PID); err == nil && started == r.Started {
			pids = append(pids, r.PID) // dead, and nobody has looked yet
		}
	}
	if err := h.tree.Kill(ctx, id); err != nil {
		return fmt.Errorf("cannot kill node %s: %w", id, err)
	}
	if err := h.tree.Remove(ctx, id); err != nil {
		return err
	}
	for _, pid := range pids {
		reap(pid) // no child of ours, mostly
	}
	if err := h.nodes.Remove(filepath.Join(id, socketFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return h.waitForDisk(ctx, id)
}

// waitForDisk waits until nobody uses the node's disk.
func (h *Host) waitForDisk(ctx context.Context, id string) error {
	f, err := h.nodes.OpenFile(filepath.Join(id, diskFile), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return lockDisk(ctx, f)
}

// Remove is Kill, and then the folder goes too. Removing what is not there
// succeeds.
func (h *Host) Remove(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	defer h.locks.lock(id)()
	if err := h.kill(ctx, id); err != nil {
		return err
	}
	if err := unmounted(h.Dir(id)); err != nil {
		return err
	}
	// One step takes the node away; the rest can be done at any time.
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

// reapNode reaps the dead of a node of which nobody knows: PID 1 becomes a child of
// this process (a child subreaper) when the stage that made it is killed, and
// the groups do not name it any more when it is dead itself.
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
			continue // it is gone
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid < base || st.Uid-base >= idCount {
			continue
		}
		reap(pid) // it leaves its groups a moment before it can be reaped
	}
	return nil
}

// unmounted refuses a folder below which something is mounted: what is removed
// there is the node's alone.
func unmounted(dir string) error {
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

// emptyTrash removes what a Remove that was interrupted left.
func (h *Host) emptyTrash() error {
	entries, err := fs.ReadDir(h.state.FS(), trashFolder)
	for _, e := range entries {
		err = errors.Join(err, h.removeFolder(filepath.Join(trashFolder, e.Name())))
	}
	return err
}

// removeFolder removes a folder of files. A node's folder has no others, so one in it
// is somebody's mistake, and it stays.
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
