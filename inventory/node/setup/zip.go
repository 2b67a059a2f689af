package setup

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

const encrypted = 1 // flag of an encrypted file

func eachZipEntry(ctx context.Context, f *os.File, visit func(*entry) error) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	z, err := zip.NewReader(f, st.Size())
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // scan.checkEntry checks the names
		return archiveError(formatZip, err)
	}
	for _, h := range z.File {
		if err := readZipEntry(ctx, h, visit); err != nil {
			return err
		}
	}
	return nil
}

// readZipEntry calls visit for one entry of a zip archive, with a mode that suits the system of its creator.
func readZipEntry(ctx context.Context, h *zip.File, visit func(*entry) error) error {
	e := &entry{name: h.Name, mode: h.Mode(), modified: h.Modified, size: int64(h.UncompressedSize64)}
	const unixMade, macMade = 3, 19
	if by := h.CreatorVersion >> 8; by != unixMade && by != macMade {
		e.mode &^= 0o022 // the system of the archive's creator has no groups
	}
	if e.mode.Perm() == 0 { // the system of the archive's creator has no modes
		e.mode |= 0o644
		if e.mode.IsDir() {
			e.mode |= 0o755
		}
	}
	switch kind := e.mode.Type(); {
	case h.Flags&encrypted != 0:
		return refusalf(h.Name, "is encrypted")
	case kind == fs.ModeDir:
		e.kind, e.size = kindFolder, 0
		return visit(e)
	case kind == fs.ModeSymlink:
		e.kind = kindLink
	case kind == 0:
		e.kind = kindFile
	default:
		return refusalf(h.Name, "is a device, a pipe or of another type that is not unpacked, %v", kind)
	}
	body, err := h.Open()
	if err != nil {
		return archiveError(formatZip, err)
	}
	defer body.Close()
	e.body = contextReader{ctx, body}
	if e.kind == kindLink {
		target, err := io.ReadAll(io.LimitReader(e.body, maxTarget+1))
		if err != nil {
			return archiveError(formatZip, err)
		}
		e.target, e.size = string(target), 0
	}
	return visit(e)
}
