package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
)

const (
	maxEntries = 1_000_000 // bounds the memory for the names of the entries
	block      = 4096      // minimal allocation on disk, in bytes
)

// scan checks a whole archive before any of it is written.
type scan struct {
	path    string          // of the target folder
	owners  *owners         // nil: the owners of the entries do not matter
	kinds   map[string]kind // by clean name
	size    int64           // estimated use of the disk, in bytes
	content int64           // total size of the files, in bytes
	room    int64           // free space of the disk, in bytes
}

// scanArchive reads the whole archive and refuses it if it cannot be unpacked completely into a
// folder with so much room.
func scanArchive(ctx context.Context, f *os.File, as format, path string, room int64, o *owners) (*scan, error) {
	sc := &scan{path: path, owners: o, kinds: map[string]kind{".": kindFolder}, room: room}
	err := eachEntry(ctx, f, as, sc.checkEntry)
	sc.kinds = nil // it is large
	return sc, err
}

// checkEntry refuses an entry that cannot be unpacked safely, or does not fit on the disk. It reads the content
// of a file.
func (sc *scan) checkEntry(e *entry) error {
	name, err := cleanName(e.name)
	if err != nil {
		return err
	}
	switch {
	case name == "." && e.kind == kindFolder:
		return nil
	case name == ".":
		return refusalf(e.name, "would replace the folder itself")
	}
	if err := sc.addParents(name); err != nil {
		return err
	}
	if sc.owners != nil {
		if err := sc.owners.check(e.name, e.user, e.group); err != nil {
			return err
		}
	}
	was := sc.kinds[name]
	if was != 0 && (was == kindFolder) != (e.kind == kindFolder) {
		return refusalf(e.name, "occurs twice, as a folder and as another type")
	}
	switch e.kind {
	case kindLink:
		err = checkTarget(name, e.target, sc.path)
	case kindHardLink:
		err = sc.checkHardLink(e)
	}
	if err == nil {
		err = sc.addName(name, e.kind)
	}
	if err != nil || e.kind != kindFile {
		return err
	}
	return sc.checkBody(e)
}

// checkHardLink refuses a hard link unless it links to an earlier file of the archive.
func (sc *scan) checkHardLink(e *entry) error {
	first, err := cleanName(e.target)
	if err != nil {
		return refusalf(e.name, "is a link to %.120q, which leads outside of the archive", e.target)
	}
	if was := sc.kinds[first]; was != kindFile && was != kindHardLink {
		return refusalf(e.name, "is a hard link to %.120q, which is not an earlier file of the archive", e.target)
	}
	return nil
}

func (sc *scan) addName(name string, entryKind kind) error {
	sc.kinds[name] = entryKind
	if len(sc.kinds) > maxEntries {
		return fmt.Errorf("the archive is refused: it has more than %d entries", maxEntries)
	}
	return sc.reserve(name, block)
}

// reserve refuses the archive if the disk has too little room.
func (sc *scan) reserve(name string, size int64) error {
	if sc.size += size; size < 0 || sc.size < 0 || sc.size > sc.room {
		return refusalf(name, "does not fit: the archive has more than the %d bytes that are free on the disk of the node", sc.room)
	}
	return nil
}

// addParents fails if the archive contains a parent folder of name as another type.
func (sc *scan) addParents(name string) error {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		switch sc.kinds[dir] {
		case kindFolder:
			return nil
		case 0:
		default:
			return refusalf(name, "is below %.120q, which is not a folder", dir)
		}
		if err := sc.addName(dir, kindFolder); err != nil {
			return err
		}
	}
}

// checkBody reads the whole content, since the checksum is verified at the end.
func (sc *scan) checkBody(e *entry) error {
	if e.size < 0 || e.size > math.MaxInt64/2 {
		return refusalf(e.name, "is larger than any disk")
	}
	if err := sc.reserve(e.name, e.size); err != nil {
		return err
	}
	sc.content += e.size
	n, err := io.Copy(io.Discard, io.LimitReader(e.body, e.size+1))
	if err == nil && n != e.size {
		err = errors.New("its size differs from the archive's header")
	}
	if err != nil {
		return fmt.Errorf("%.120q in the archive cannot be read: %w", e.name, err)
	}
	return nil
}
