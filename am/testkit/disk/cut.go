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

// sector is what a disk writes whole or not at all, in bytes.
const sector = 512

// Cut is what a power cut may leave.
type Cut struct {
	Event int    // how many events were before it
	What  string // what became of that which was not synced
	Said  string // what had been written to standard output

	image func() map[string][]byte
}

// Start is what was in a folder before a log began, as Cuts needs it.
type Start struct {
	folder string
	files  map[string]seen
}

type seen struct {
	file uint64
	data []byte
}

// Before takes all files of a folder as lasting.
func Before(folder string) (Start, error) {
	folder, err := filepath.EvalSymlinks(folder)
	s := Start{folder, map[string]seen{}}
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

// Cuts gives what power cuts after each event may leave. Of what was not synced
// by then there is nothing, all, all but the first, all but the last, only the
// last, the last in part, and, as often as random says, any part, drawn by seed.
// A write for which a sync failed may be lost from then on, whatever is synced
// later: that is how Linux has it. A Cut is valid until the next.
func (l Log) Cuts(before Start, seed uint64, random int) iter.Seq[Cut] {
	return func(yield func(Cut) bool) {
		d := newPlatter(before)
		draw := rand.New(rand.NewPCG(seed, 0))
		said, told := "", -1
		for n := range len(l) + 1 {
			if n > 0 {
				said += l[n-1].Said
				if !d.note(&l[n-1]) && n < len(l) {
					continue // nothing that lasts has changed
				}
			}
			waits := d.waits()
			if told == 0 && len(waits) == 0 && n < len(l) {
				continue // as before it
			}
			told = len(waits)
			for _, v := range variants(waits, random, draw) {
				if !yield(Cut{n, v.what, said, func() map[string][]byte { return d.image(v.keep) }}) {
					return
				}
			}
		}
	}
}

// change is one change of a file or of names, waiting to last or lasting.
type change struct {
	e     *Event
	lasts bool
	lost  bool // a sync of it has failed: no later one helps
}

// platter is what a disk holds.
type platter struct {
	folder  string
	names   map[string]uint64 // lasting
	files   map[uint64][]byte // what lasts at the beginning of changes
	changes []*change
}

func newPlatter(before Start) *platter {
	d := &platter{folder: before.folder, names: map[string]uint64{}, files: map[uint64][]byte{}}
	for path, s := range before.files {
		d.names[path], d.files[s.file] = s.file, bytes.Clone(s.data)
	}
	return d
}

// note takes an event, and tells whether it may matter.
func (d *platter) note(e *Event) bool {
	switch e.Kind {
	case "":
		return false
	case Sync:
		for _, c := range d.changes {
			switch {
			case c.lasts || !c.of(e):
			case !e.ok():
				c.lost = true
			case !c.lost:
				c.lasts = true
			}
		}
		d.settle()
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

// of tells whether a sync is of what has changed: the file, or the folder of a name.
func (c *change) of(sync *Event) bool {
	switch c.e.Kind {
	case Rename, Link:
		return filepath.Dir(c.e.To) == sync.Path
	case Remove:
		return filepath.Dir(c.e.Path) == sync.Path
	}
	return c.e.file == sync.file
}

// settle forgets changes that last, as far as nothing before them may be lost.
func (d *platter) settle() {
	n := 0
	for n < len(d.changes) && d.changes[n].lasts {
		d.changes[n].apply(d.names, d.files, nil)
		n++
	}
	d.changes = d.changes[n:]
}

func (d *platter) waits() (w []*change) {
	for _, c := range d.changes {
		if !c.lasts {
			w = append(w, c)
		}
	}
	return w
}

// image is what is on the disk if of the changes that do not last those are
// there for which keep has sectors; nil stands for all of them.
func (d *platter) image(keep map[*change]func(sector int) bool) map[string][]byte {
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

// variant is one choice of what is there of changes that wait.
type variant struct {
	what string
	keep map[*change]func(int) bool
}

func variants(waits []*change, random int, draw *rand.Rand) []variant {
	choose := func(what string, of func(n int) bool) variant {
		v := variant{what, map[*change]func(int) bool{}}
		for n, c := range waits {
			if of(n) {
				v.keep[c] = nil
			}
		}
		return v
	}
	last := len(waits) - 1
	all := []variant{choose("nothing", func(int) bool { return false })}
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

// Files are the contents of files by their paths below the folder.
func (c Cut) Files() map[string][]byte { return c.image() }

// Make writes the files into a folder.
func (c Cut) Make(folder string) error {
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
