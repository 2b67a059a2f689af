package setup

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxZipFolder is how many bytes the list of a zip archive's files may have, for
// it is kept in memory.
const maxZipFolder = 64 << 20

const encrypted = 1 // flag of a file in a zip archive

func eachZipped(ctx context.Context, f *os.File, each func(*entry) error) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	bounded := &thrifty{f, maxZipFolder}
	z, err := zip.NewReader(bounded, st.Size())
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // names are for survey to judge
		return inArchive(formatZip, err)
	}
	bounded.left = -1
	for _, h := range z.File {
		if err := eachOfZip(ctx, h, each); err != nil {
			return err
		}
	}
	return nil
}

func eachOfZip(ctx context.Context, h *zip.File, each func(*entry) error) error {
	e := &entry{name: h.Name, mode: h.Mode(), modified: h.Modified, size: int64(h.UncompressedSize64)}
	const unixMade, macMade = 3, 19
	if by := h.CreatorVersion >> 8; by != unixMade && by != macMade {
		e.mode &^= 0o022 // it knows no groups
	}
	if e.mode.Perm() == 0 { // nor does this one
		e.mode |= 0o644
		if e.mode.IsDir() {
			e.mode |= 0o755
		}
	}
	switch kind := e.mode.Type(); {
	case h.Flags&encrypted != 0:
		return refusal(h.Name, "is encrypted")
	case kind == fs.ModeDir:
		e.kind, e.size = kindFolder, 0
		return each(e)
	case kind == fs.ModeSymlink:
		e.kind = kindLink
	case kind == 0:
		e.kind = kindFile
	case kind&fs.ModeDevice != 0:
		return refusal(h.Name, "is a device")
	case kind == fs.ModeNamedPipe:
		return refusal(h.Name, "is a pipe")
	default:
		return refusal(h.Name, "is of a type that is not unpacked, %v", kind)
	}
	body, err := h.Open()
	if err != nil {
		return inArchive(formatZip, err)
	}
	defer body.Close()
	e.body = timely{ctx, body}
	if e.kind == kindLink {
		target, err := io.ReadAll(io.LimitReader(e.body, maxTarget+1))
		if err != nil {
			return inArchive(formatZip, err)
		}
		e.target, e.size = string(target), 0
	}
	return each(e)
}

// thrifty reads only so many bytes, unless left is below 0.
type thrifty struct {
	io.ReaderAt
	left int64
}

func (t *thrifty) ReadAt(b []byte, at int64) (int, error) {
	if t.left >= 0 {
		if t.left -= int64(len(b)); t.left < 0 {
			t.left = 0
			return 0, fmt.Errorf("the list of its files has more than %d bytes", maxZipFolder)
		}
	}
	return t.ReaderAt.ReadAt(b, at)
}
