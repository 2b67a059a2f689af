package testbed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"patchbay/am/file"
	"patchbay/inventory/provider/local/hostalloc"
	"patchbay/inventory/provider/local/node"
	"patchbay/inventory/provider/local/sysctl"
)

// stateNames are the files and folders of a state folder, except temporary files.
var stateNames = []string{
	"nodes", "trash", "assembly", "disks", "program", "images", "slices", "endpoints", "doors", fabricsFolder, egressFolder, egressFile, gatewayFile, gatewayKeyFile, "lock",
	sysctl.File,
}

// Clean removes everything of an instance from this host, beginning with the nodes. It calls
// report with the id of each removed node. It fails if the instance runs, or if the folder
// State contains foreign files or mounts.
func Clean(ctx context.Context, o Options, report func(id string)) error {
	o.Settings.PortRest = 0 // release the ports at once
	t := newTestbed(o)
	defer t.close()
	// A testbed creates no other files, so a folder with other files may be the wrong one.
	entries, err := os.ReadDir(t.o.State)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	names := stateNames
	for _, e := range entries {
		if unfinished := file.Unfinished(e.Name()); slices.Contains(stateNames, unfinished) {
			names = append(slices.Clip(names), e.Name())
		} else if !slices.Contains(stateNames, e.Name()) {
			return fmt.Errorf("%s contains %q, which does not belong to a testbed: nothing was removed; is this the right folder?", t.o.State, e.Name())
		}
	}
	if err := t.lock(); err != nil {
		return err
	}
	if err := cleanFabric(ctx, t); err != nil {
		return err
	}
	if err := t.removeEgress(); err != nil {
		return err
	}
	if err := checkUnmounted(t.o.State); err != nil {
		return err
	}
	h, err := node.Open(t.o.State, t.settings.Instance, t.log)
	if err != nil {
		return err
	}
	ids, err := h.IDs()
	if err != nil {
		return err
	}
	if err := errors.Join(removeNodes(ctx, h, ids, report), h.KillHelpers(ctx)); err != nil {
		return err
	}
	if err := errors.Join(h.Close(), sysctl.Restore(t.o.State)); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(t.o.State, name)); err != nil {
			return err
		}
	}
	if err := os.Remove(t.o.State); err != nil {
		return err
	}
	return t.cleanHost()
}

// checkUnmounted fails if a file system is mounted below dir, since Clean must not remove the
// files of that file system.
func checkUnmounted(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if at := plain.Replace(fields[4]); strings.HasPrefix(at, dir+"/") {
			return fmt.Errorf("something is mounted at %s: unmount it, then clean again", at)
		}
	}
	return nil
}

// removeNodes removes the nodes in parallel, and calls report with the id of each removed one. It returns
// the errors of the others.
func removeNodes(ctx context.Context, h *node.Host, ids []string, report func(string)) error {
	var mu sync.Mutex
	var all error
	next := make(chan string)
	var work sync.WaitGroup
	for range runtime.NumCPU() {
		work.Go(func() {
			for id := range next {
				err := h.Remove(ctx, id)
				mu.Lock()
				if err == nil {
					report(id)
				}
				all = errors.Join(all, err)
				mu.Unlock()
			}
		})
	}
	for _, id := range ids {
		next <- id
	}
	close(next)
	work.Wait()
	return all
}

// cleanHost releases the instance's numbers and removes its files outside of State.
// Folders that other instances use stay.
func (t *Testbed) cleanHost() error {
	var err error
	if t.userIDs, err = hostalloc.IDs(t.o.Claims); err != nil {
		return err
	}
	for _, all := range []allocator{t.userIDs, t.ports, t.uplinks} {
		problems, sweeping := all.Sweep(t.settings.Instance, func(string, uint32) bool { return false })
		err = errors.Join(append(problems, err, sweeping, all.Close())...)
	}
	for _, path := range []string{t.o.Socket, t.o.Socket + ".lock", t.o.Socket + ".site", filepath.Dir(t.o.Socket), t.o.Claims, Root} {
		switch e := os.Remove(path); {
		case e == nil, errors.Is(e, fs.ErrNotExist), errors.Is(e, syscall.ENOTEMPTY):
		case errors.Is(e, syscall.EBUSY): // an operator mounted a disk there
		default:
			err = errors.Join(err, e)
		}
	}
	return err
}
