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

	"patchbay/inventory/local/cgroup"
	"patchbay/inventory/local/node"
)

// Argv0 is the first argument of the program where it runs as a child of an
// examination; the main function then calls ChildMain at once.
const Argv0 = "patchbay-doctor"

// base is where the ids of probes begin: a range that is never given to nodes.
const base = 0x7ffe0000

// patience is how long one probe may take.
const patience = 20 * time.Second

const scratchPrefix = ".patchbay-doctor-"

// groups is the instance whose groups are those of examinations.
const groups = "doctor"

var serial atomic.Int64

// bench is what an examination works with.
type bench struct {
	place Place
	name  string // unique on this host; tells who made what is called so
	dir   string // scratch, once it was asked for
}

// maker names this process and no other, also after it is gone.
func maker() string {
	pid := os.Getpid()
	return strconv.Itoa(pid) + "-" + started(pid)
}

// alive tells whether the maker of what has this name still runs.
func alive(name string) bool {
	part := strings.Split(name, "-")
	if len(part) != 3 {
		return true // not ours
	}
	pid, err := strconv.Atoi(part[0])
	return err != nil || started(pid) == part[1]
}

// started is when a process began, in ticks since boot; empty if there is none.
func started(pid int) string {
	at, _, _ := node.ProcessStat(pid)
	return at
}

// id is the name of what this examination makes.
func (b *bench) id() string {
	if b.name == "" {
		b.name = maker() + "-" + strconv.FormatInt(serial.Add(1), 10)
	}
	return b.name
}

// stateDisk is the folder on whose disk the state is, or will be.
func (b *bench) stateDisk() string {
	dir := b.place.State
	for dir != "" && dir != "/" && dir != "." {
		if i, err := os.Stat(dir); err == nil && i.IsDir() {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return "/"
}

// scratch is an empty folder on the disk of the state, which only root enters.
func (b *bench) scratch() (string, *trouble) {
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

// clear takes away what was made. What is mounted in a child is gone with it.
func (b *bench) clear() {
	if b.dir != "" {
		os.RemoveAll(b.dir)
	}
}

// tree opens the groups of examinations, without those whose makers are gone.
func (b *bench) tree(ctx context.Context) (*cgroup.Tree, error) {
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
