package setup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
)

// afterEnd bounds how many bytes are read after the end of a tar archive. They are padding
// and the checksums of the compression.
const afterEnd = 1 << 20

// eachTarEntry calls visit for each entry of a tar archive. It refuses entries that are not unpacked, and
// archives that are damaged or incomplete.
func eachTarEntry(ctx context.Context, f *os.File, visit func(*entry) error) error {
	plain, err := decompress(contextReader{ctx, io.NewSectionReader(f, 0, 1<<62)})
	if err != nil {
		return archiveError(formatTar, err)
	}
	t := tar.NewReader(contextReader{ctx, plain})
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // scan.checkEntry checks the names
			return archiveError(formatTar, err)
		}
		e := &entry{name: h.Name, mode: h.FileInfo().Mode(), modified: h.ModTime, target: h.Linkname, body: t, user: int64(h.Uid), group: int64(h.Gid)}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
			e.kind, e.size = kindFile, h.Size
		case tar.TypeDir:
			e.kind = kindFolder
		case tar.TypeSymlink:
			e.kind = kindLink
		case tar.TypeLink:
			e.kind = kindHardLink
		case tar.TypeXGlobalHeader:
			continue
		default:
			return refusalf(h.Name, "is a device, a pipe or of another type that is not unpacked, %q", h.Typeflag)
		}
		if err := visit(e); err != nil {
			return err
		}
	}
	_, err = io.CopyN(io.Discard, plain, afterEnd)
	if errors.Is(err, io.EOF) || errors.Is(err, gzip.ErrHeader) { // other data after the end is ignored
		err = nil
	}
	return archiveError(formatTar, err)
}
