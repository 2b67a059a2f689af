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
	Event  int    // the number of events before the power failure
	What   string // which of the unsynced changes survived
	Output string // the text that the process had written to its standard output

	image func() map[string][]byte
}

// Snapshot is the content of a folder before the first event of a log.
type Snapshot struct {
	folder string
	files  map[string]savedFile // by path
}

type savedFile struct {
	file uint64
	data []byte
}

// TakeSnapshot reads all files of a folder. Outcomes assumes that they are synced.
func TakeSnapshot(folder string) (Snapshot, error) {
	folder, err := filepath.EvalSymlinks(folder)
	s := Snapshot{folder, map[string]savedFile{}}
	if err != nil {
		return s, err
	}
	return s, filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		s.files[path] = savedFile{inode(path), data}
		return err
	})
}

// Outcomes yields possible contents of the disk after a power failure, for failures at the start
// and after each event. Of the changes that are not synced yet, different outcomes keep none, all,
// all but the first, all but the last, only the last, and all with a part of the last. Further
// outcomes keep a random choice of the changes: draws is the number of these outcomes, and the
// choice depends on seed. As on Linux, a change whose sync has failed may be lost even if a later
// sync succeeds. An Outcome is valid until the next one is yielded.
func (l Log) Outcomes(before Snapshot, seed uint64, draws int) iter.Seq[Outcome] {
	return func(yield func(Outcome) bool) {
		d := newDiskState(before)
		source := rand.New(rand.NewPCG(seed, 0))
		output, reported := "", -1 // reported is the number of unsynced changes in the last outcomes
		for n := range len(l) + 1 {
			if n > 0 {
				output += l[n-1].Output
				if !d.note(&l[n-1]) && n < len(l) {
					continue // the disk has not changed
				}
			}
			unsynced := d.unsynced()
			if reported == 0 && len(unsynced) == 0 && n < len(l) {
				continue // the outcome would be the same as the last one
			}
			reported = len(unsynced)
			for _, v := range selections(unsynced, draws, source) {
				if !yield(Outcome{n, v.what, output, func() map[string][]byte { return d.image(v.keep) }}) {
					return
				}
			}
		}
	}
}

type change struct {
	e      *Event
	synced bool
	lost   bool // a sync of this change has failed, so later syncs have no effect on it
}

// diskState is the content of a disk: the synced state, and the changes after it.
type diskState struct {
	folder  string
	names   map[string]uint64 // the inode of each path, without the changes
	files   map[uint64][]byte // the content of each inode, without the changes
	changes []*change
}

// newDiskState assumes that everything in the snapshot is synced.
func newDiskState(before Snapshot) *diskState {
	d := &diskState{folder: before.folder, names: map[string]uint64{}, files: map[uint64][]byte{}}
	for path, s := range before.files {
		d.names[path], d.files[s.file] = s.file, bytes.Clone(s.data)
	}
	return d
}

// note adds the changes of an event, or marks the changes that it syncs. It returns false if the
// event cannot change the disk.
func (d *diskState) note(e *Event) bool {
	switch e.Kind {
	case "":
		return false
	case Sync:
		for _, c := range d.changes {
			switch {
			case c.synced || !c.isSyncedBy(e):
			case !e.succeeded():
				c.lost = true
			case !c.lost:
				c.synced = true
			}
		}
		d.applySynced()
	case Write:
		if e.Done == 0 {
			return false
		}
		d.changes = append(d.changes, &change{e: e})
	default:
		if !e.succeeded() {
			return false
		}
		d.changes = append(d.changes, &change{e: e})
	}
	return true
}

// isSyncedBy requires a sync of the file for a change of content. For a change of a name, it
// requires a sync of the folder that contains the name.
func (c *change) isSyncedBy(sync *Event) bool {
	switch c.e.Kind {
	case Rename, Link:
		return filepath.Dir(c.e.To) == sync.Path
	case Remove:
		return filepath.Dir(c.e.Path) == sync.Path
	}
	return c.e.file == sync.file
}

// applySynced applies the changes before the first unsynced one, and removes them from
// d.changes.
func (d *diskState) applySynced() {
	n := 0
	for n < len(d.changes) && d.changes[n].synced {
		d.changes[n].apply(d.names, d.files, nil)
		n++
	}
	d.changes = d.changes[n:]
}

func (d *diskState) unsynced() (w []*change) {
	for _, c := range d.changes {
		if !c.synced {
			w = append(w, c)
		}
	}
	return w
}

// image returns the content of the disk after a power failure. The map survivors contains the
// unsynced changes that survive, each with a function that reports whether a sector survives. If
// the function is nil, all sectors survive.
func (d *diskState) image(survivors map[*change]func(sector int) bool) map[string][]byte {
	names, files := maps.Clone(d.names), map[uint64][]byte{}
	for file, data := range d.files {
		files[file] = bytes.Clone(data)
	}
	for _, c := range d.changes {
		sectors, kept := survivors[c]
		if c.synced || kept {
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

// apply applies only those sectors of a Write for which the function sectors returns true, or all
// if sectors is nil.
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

// selection is one choice of the unsynced changes that survive a power failure. The field keep is
// the parameter survivors of image.
type selection struct {
	what string
	keep map[*change]func(int) bool
}

// selections returns different selections. draws is the number of random selections among them.
func selections(unsynced []*change, draws int, source *rand.Rand) []selection {
	choose := func(what string, survives func(n int) bool) selection {
		v := selection{what, map[*change]func(int) bool{}}
		for n, c := range unsynced {
			if survives(n) {
				v.keep[c] = nil
			}
		}
		return v
	}
	last := len(unsynced) - 1
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
	torn.keep[unsynced[last]] = func(s int) bool { return s%2 == 0 }
	all = append(all, torn)
	for r := range draws {
		v := choose(fmt.Sprintf("draw %d", r), func(int) bool { return source.IntN(2) == 0 })
		for _, c := range unsynced {
			if _, kept := v.keep[c]; kept && source.IntN(2) == 0 {
				seed := source.Uint64()
				v.keep[c] = func(s int) bool { return rand.New(rand.NewPCG(seed, uint64(s))).IntN(2) == 0 }
			}
		}
		all = append(all, v)
	}
	return all
}

// Files returns the contents of the files, by their paths below the folder.
func (c Outcome) Files() map[string][]byte { return c.image() }

// Make creates the files in a folder.
func (c Outcome) Make(folder string) error {
	for name, data := range c.image() {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		// Zeros at the end become a hole, which takes no space.
		err := os.WriteFile(path, bytes.TrimRight(data, "\x00"), 0o600)
		if err := errors.Join(err, os.Truncate(path, int64(len(data)))); err != nil {
			return err
		}
	}
	return nil
}
