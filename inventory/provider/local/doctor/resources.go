package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/inventory/provider/local/cgroup"
	"patchbay/inventory/provider/local/node"
)

// Argv0 is the program name with which the binary runs as a child of an examination; main
// then calls ChildMain.
const Argv0 = "patchbay-doctor"

// base is the first user id of probes. Nodes never use ids of this range.
const base = 0x7ffe0000

// patience limits the time of one probe. On a host that is busy with other nodes, a probe
// that takes a second on an idle one may take twenty.
const patience = time.Minute

const scratchPrefix = ".patchbay-doctor-"

// groups is the name under which examinations create cgroups, as a testbed does under its
// own name.
const groups = "doctor"

var serial atomic.Int64

type resources struct {
	place Place
	name  string // unique on this host; identifies the process that created a resource
	dir   string // temporary folder; empty until scratch creates it
}

// processName returns a name that no other process gets before the next boot of this
// host.
func processName() string {
	pid := os.Getpid()
	return strconv.Itoa(pid) + "-" + started(pid)
}

// alive reports whether the process that created the named resource still runs. For a
// name that id cannot have returned, it reports true.
func alive(name string) bool {
	part := strings.Split(name, "-")
	if len(part) != 3 {
		return true // not a resource of this package
	}
	pid, err := strconv.Atoi(part[0])
	return err != nil || started(pid) == part[1]
}

// started returns the start time of a process in ticks since boot, or "" if the process
// does not exist.
func started(pid int) string {
	at, _, _ := node.ProcessStat(pid)
	return at
}

// id returns the name for resources of this examination: PID-START-NUMBER.
func (b *resources) id() string {
	if b.name == "" {
		b.name = processName() + "-" + strconv.FormatInt(serial.Add(1), 10)
	}
	return b.name
}

// stateDisk returns the folder of the state. If that does not exist, it returns the
// closest parent that exists, since the state will be on the same disk.
func (b *resources) stateDisk() string {
	dir := b.place.State
	for dir != "" && dir != "/" && dir != "." {
		if i, err := os.Stat(dir); err == nil && i.IsDir() {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return "/"
}

// scratch returns a temporary folder on the disk of the state, which only root can
// access. The first call creates the folder, and removes the folders of examinations
// that have ended.
func (b *resources) scratch() (string, *trouble) {
	if b.dir != "" {
		return b.dir, nil
	}
	parent := b.stateDisk()
	if entries, err := os.ReadDir(parent); err == nil {
		for _, e := range entries {
			if name, ok := strings.CutPrefix(e.Name(), scratchPrefix); ok && !alive(name) {
				os.RemoveAll(filepath.Join(parent, e.Name()))
			}
		}
	}
	dir := filepath.Join(parent, scratchPrefix+b.id())
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", &trouble{fmt.Sprintf("cannot make a folder in %s: %v", parent, err),
			"choose another folder for the state: patchbay-local up --state DIR SETTINGS"}
	}
	b.dir = dir
	return dir, nil
}

// clear need not unmount: only children mount something in the folder, and their mounts
// end with them.
func (b *resources) clear() {
	if b.dir != "" {
		os.RemoveAll(b.dir)
	}
}

// tree opens the parent of all examinations' cgroups, and removes the cgroups of
// examinations that have ended.
func (b *resources) tree(ctx context.Context) (*cgroup.Tree, error) {
	t, err := cgroup.Open(groups)
	if err != nil {
		return nil, err
	}
	ids, err := t.IDs()
	for _, id := range ids {
		if !alive(id) {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			t.Kill(ctx, id)
			t.Remove(ctx, id)
			cancel()
		}
	}
	return t, err
}
