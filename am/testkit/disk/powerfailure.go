package disk

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// sector is the unit, in bytes, that a disk writes completely or not at all.
const sector = 512

// Outcome is one possible content of the disk after a power failure.
type Outcome struct {
	Event int    // how many events were before it
	What  string // what became of that which was not synced
	Said  string // what had been written to standard output

	image func() map[string][]byte
}

// Snapshot is the content of a folder before a log began, for Outcomes.
type Snapshot struct {
	folder string
	files  map[string]seen
}

type seen struct {
	file uint64
	data []byte
}

// TakeSnapshot reads all files of a folder, which count as synced.
func TakeSnapshot(folder string) (Snapshot, error) {
	folder, err := filepath.EvalSymlinks(folder)
	s := Snapshot{folder, map[string]seen{}}
	if err != nil {
		return s, err
	}
	return s, filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		s.files[path] = seen{inode(path), data}
		return err
	})
}

// Outcomes yields what power failures after each event may leave. Of the writes that
// were not synced by then it keeps none, all, all but the first, all but the last, only
// the last, part of the last, and, random times, a random part drawn by seed. A write
// for which a sync failed may be lost from then on, whatever is synced later, as on
// Linux. An Outcome is valid until the next.
func (l Log) Outcomes(before Snapshot, seed uint64, random int) iter.Seq[Outcome] {
	return func(yield func(Outcome) bool) {
		d := newDiskState(before)
		draw := rand.New(rand.NewPCG(seed, 0))
		said, told := "", -1
		for n := range len(l) + 1 {
			if n > 0 {
				said += l[n-1].Said
				if !d.note(&l[n-1]) && n < len(l) {
					continue // nothing that lasts has changed
				}
			}
			waits := d.pending()
			if told == 0 && len(waits) == 0 && n < len(l) {
				continue // as before it
			}
			told = len(waits)
			for _, v := range selections(waits, random, draw) {
				if !yield(Outcome{n, v.what, said, func() map[string][]byte { return d.image(v.keep) }}) {
					return
				}
			}
		}
	}
}

// change is one change of a file or of names, synced or not.
type change struct {
	e     *Event
	lasts bool
	lost  bool // a sync of it has failed: no later one helps
}

// diskState is the content of a disk.
type diskState struct {
	folder  string
	names   map[string]uint64 // lasting
	files   map[uint64][]byte // what lasts at the beginning of changes
	changes []*change
}

// newDiskState returns the state of a disk on which everything in the snapshot is synced.
func newDiskState(before Snapshot) *diskState {
	d := &diskState{folder: before.folder, names: map[string]uint64{}, files: map[uint64][]byte{}}
	for path, s := range before.files {
		d.names[path], d.files[s.file] = s.file, bytes.Clone(s.data)
	}
	return d
}

// note applies an event, and reports whether it may matter.
func (d *diskState) note(e *Event) bool {
	switch e.Kind {
	case "":
		return false
	case Sync:
		for _, c := range d.changes {
			switch {
			case c.lasts || !c.isSyncedBy(e):
			case !e.ok():
				c.lost = true
			case !c.lost:
				c.lasts = true
			}
		}
		d.forgetSynced()
	case Write:
		if e.Done == 0 {
			return false
		}
		d.changes = append(d.changes, &change{e: e})
	default:
		if !e.ok() {
			return false
		}
		d.changes = append(d.changes, &change{e: e})
	}
	return true
}

// isSyncedBy reports whether a sync covers the change: it is of the file, or of the
// folder of the name.
func (c *change) isSyncedBy(sync *Event) bool {
	switch c.e.Kind {
	case Rename, Link:
		return filepath.Dir(c.e.To) == sync.Path
	case Remove:
		return filepath.Dir(c.e.Path) == sync.Path
	}
	return c.e.file == sync.file
}

// forgetSynced removes synced changes from the list, as far as no unsynced change
// precedes them.
func (d *diskState) forgetSynced() {
	n := 0
	for n < len(d.changes) && d.changes[n].lasts {
		d.changes[n].apply(d.names, d.files, nil)
		n++
	}
	d.changes = d.changes[n:]
}

// pending returns the changes that are not synced yet, in their order.
func (d *diskState) pending() (w []*change) {
	for _, c := range d.changes {
		if !c.lasts {
			w = append(w, c)
		}
	}
	return w
}

// image returns the content of the disk if, of the unsynced changes, only those in keep
// are there, with the sectors for which keep returns true; nil keeps all.
func (d *diskState) image(keep map[*change]func(sector int) bool) map[string][]byte {
	names, files := maps.Clone(d.names), map[uint64][]byte{}
	for file, data := range d.files {
		files[file] = bytes.Clone(data)
	}
	for _, c := range d.changes {
		sectors, kept := keep[c]
		if c.lasts || kept {
			c.apply(names, files, sectors)
		}
	}
	out := map[string][]byte{}
	for path, file := range names {
		if name, ok := strings.CutPrefix(path, d.folder+"/"); ok {
			out[name] = files[file]
		}
	}
	return out
}

// apply makes the change, or those sectors of it.
func (c *change) apply(names map[string]uint64, files map[uint64][]byte, sectors func(int) bool) {
	e := c.e
	switch e.Kind {
	case Write:
		data := files[e.file]
		if end := int(e.Offset) + e.Done; end > len(data) {
			data = append(data, make([]byte, end-len(data))...)
		}
		for at := 0; at < e.Done; at += sector {
			if sectors == nil || sectors(at/sector) {
				copy(data[int(e.Offset)+at:], e.Data[at:min(at+sector, e.Done)])
			}
		}
		files[e.file] = data
	case Truncate:
		data := files[e.file]
		if n := int(e.Size); n <= len(data) {
			files[e.file] = data[:n:n]
		} else {
			files[e.file] = append(data, make([]byte, n-len(data))...)
		}
	case Link:
		names[e.To] = e.file
	case Rename:
		delete(names, e.Path)
		names[e.To] = e.file
	case Remove:
		delete(names, e.Path)
	}
}

// selection is one choice of the unsynced changes that reach the disk.
type selection struct {
	what string
	keep map[*change]func(int) bool
}

// selections returns the choices of the changes in waits that survive a power failure;
// random of them are drawn.
func selections(waits []*change, random int, draw *rand.Rand) []selection {
	choose := func(what string, of func(n int) bool) selection {
		v := selection{what, map[*change]func(int) bool{}}
		for n, c := range waits {
			if of(n) {
				v.keep[c] = nil
			}
		}
		return v
	}
	last := len(waits) - 1
	all := []selection{choose("nothing", func(int) bool { return false })}
	if last < 0 {
		return all
	}
	all = append(all, choose("all", func(int) bool { return true }))
	if last > 0 {
		all = append(all,
			choose("all but the first", func(n int) bool { return n > 0 }),
			choose("all but the last", func(n int) bool { return n < last }),
			choose("only the last", func(n int) bool { return n == last }))
	}
	torn := choose("the last in part", func(int) bool { return true })
	torn.keep[waits[last]] = func(s int) bool { return s%2 == 0 }
	all = append(all, torn)
	for r := range random {
		v := choose(fmt.Sprintf("draw %d", r), func(int) bool { return draw.IntN(2) == 0 })
		for _, c := range waits {
			if _, kept := v.keep[c]; kept && draw.IntN(2) == 0 {
				seed := draw.Uint64()
				v.keep[c] = func(s int) bool { return rand.New(rand.NewPCG(seed, uint64(s))).IntN(2) == 0 }
			}
		}
		all = append(all, v)
	}
	return all
}

// Files returns the contents of files by their paths below the folder.
func (c Outcome) Files() map[string][]byte { return c.image() }

// Make writes the files into a folder.
func (c Outcome) Make(folder string) error {
	for name, data := range c.image() {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		// Zeros at the end need no room.
		err := os.WriteFile(path, bytes.TrimRight(data, "\x00"), 0o600)
		if err := errors.Join(err, os.Truncate(path, int64(len(data)))); err != nil {
			return err
		}
	}
	return nil
}
