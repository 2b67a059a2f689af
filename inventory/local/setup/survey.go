package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Bounds on an archive.
const (
	maxEntries = 1_000_000 // whose names are kept in memory
	block      = 4096      // bytes that the least thing on a disk takes
)

// survey looks at all that an archive holds before anything of it is written.
type survey struct {
	p       *place
	kinds   map[string]kind
	size    int64 // bytes on the disk
	content int64 // bytes of files
	room    int64
}

// look reads the archive to its end and refuses what cannot be unpacked whole.
func look(ctx context.Context, f *os.File, as format, p *place) (*survey, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(p.fd, &st); err != nil {
		return nil, err
	}
	s := &survey{p: p, kinds: map[string]kind{".": kindFolder}, room: int64(min(st.Bavail, math.MaxInt32*uint64(block))) * st.Bsize}
	return s, eachEntry(ctx, f, as, s.add)
}

// add notes an entry, and makes its name clean.
func (s *survey) add(e *entry) error {
	name, err := clean(e.name)
	if err != nil {
		return err
	}
	switch {
	case name == "." && e.kind == kindFolder:
		return nil
	case name == ".":
		return refusal(e.name, "would take the place of the folder itself")
	}
	if err := s.above(name); err != nil {
		return err
	}
	was := s.kinds[name]
	if was != 0 && (was == kindFolder) != (e.kind == kindFolder) {
		return refusal(e.name, "is there twice, as a folder and as something else")
	}
	switch e.kind {
	case kindLink:
		err = checkTarget(name, e.target, s.p.path)
	case kindSame:
		err = s.same(e)
	}
	if err == nil {
		err = s.set(name, e.kind)
	}
	if err != nil || e.kind != kindFile {
		return err
	}
	return s.file(e)
}

// same refuses a second name of anything but a file that the archive had before.
func (s *survey) same(e *entry) error {
	first, err := clean(e.target)
	if err != nil {
		return refusal(e.name, "is a link to %.120q, which leads outside of the archive", e.target)
	}
	if was := s.kinds[first]; was != kindFile && was != kindSame {
		return refusal(e.name, "is a second name of %.120q, which is no file that comes before it in the archive", e.target)
	}
	return nil
}

// set notes what a name is.
func (s *survey) set(name string, is kind) error {
	s.kinds[name] = is
	if len(s.kinds) > maxEntries {
		return fmt.Errorf("the archive is refused: it has more than %d entries", maxEntries)
	}
	return s.take(name, block)
}

// take counts what will be on the disk.
func (s *survey) take(name string, bytes int64) error {
	if s.size += bytes; bytes < 0 || s.size < 0 || s.size > s.room {
		return refusal(name, "does not fit: the archive has more than the %d bytes that are free on the disk of the node", s.room)
	}
	return nil
}

// above notes the folders that a name is in.
func (s *survey) above(name string) error {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		switch s.kinds[dir] {
		case kindFolder:
			return nil
		case 0:
		default:
			return refusal(name, "is below %.120q, which is no folder", dir)
		}
		if err := s.set(dir, kindFolder); err != nil {
			return err
		}
	}
}

// file reads the body of a file, for its sums are checked at its end.
func (s *survey) file(e *entry) error {
	if e.size < 0 || e.size > math.MaxInt64/2 {
		return refusal(e.name, "is larger than any disk")
	}
	if err := s.take(e.name, e.size); err != nil {
		return err
	}
	s.content += e.size
	n, err := io.Copy(io.Discard, io.LimitReader(e.body, e.size+1))
	if err == nil && n != e.size {
		err = errors.New("it has not as many bytes as it should")
	}
	if err != nil {
		return fmt.Errorf("%.120q in the archive cannot be read: %w", e.name, err)
	}
	return nil
}
