package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxFiles = 4_000_000
	maxBytes = 64 << 30
	// maxPath is the most bytes of a path in an image. It leaves room for the path of the
	// image on the host, since the kernel opens no path of 4096 bytes.
	maxPath = 3000
	// maxDirPaths is the most bytes of all paths in writer.dirs. The times of further folders
	// are not copied.
	maxDirPaths = 64 << 20
	// minFree is the space in bytes that images leave free on their disk.
	minFree = 256 << 20
	// User ids of a node are 0 to 65535.
	maxID  = 65535
	nobody = 65534
)

type meta struct {
	mode  uint32 // with set-id and sticky bits
	uid   int64
	gid   int64
	mtime time.Time
	attrs []attribute
}

// writer writes the files of an image below a folder. Paths never lead outside of the folder or
// through symbolic links.
type writer struct {
	ctx  context.Context
	root int // descriptor
	buf  []byte

	files, bytes    int64
	maxTotal        int64 // bound on the bytes of all files
	maxStream       int64 // bound on the bytes of a tar stream, which includes headers
	sinceSpaceCheck int64 // bytes counted since the last check of the free space
	omitted         omissions

	parent   int    // descriptor of the last used folder, or -1
	parentOf string // its path
	dirs     []dirTime
	dirPaths int // bytes of the paths in dirs
}

// omissions counts what was left out or changed.
type omissions struct {
	special int // devices, sockets and pipes
	mounts  int // folders with other file systems mounted on them
	ids     int // files whose owner or group a node does not have
}

// dirTime is the time of a folder. finish sets it, because writing into the folder changes
// its time.
type dirTime struct {
	path  string
	mtime time.Time
}

// newWriter requires that the folder root exists.
func newWriter(ctx context.Context, root string) (*writer, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", root, err)
	}
	return &writer{ctx: ctx, root: fd, buf: make([]byte, 128<<10), maxTotal: maxBytes, maxStream: maxBytes + maxFiles*4096, parent: -1}, nil
}

func (w *writer) close() {
	w.closeParent()
	unix.Close(w.root)
}

func (w *writer) closeParent() {
	if w.parent >= 0 {
		unix.Close(w.parent)
	}
	w.parent, w.parentOf = -1, ""
}

// cleanPath returns a relative path without dots. The root is "".
func cleanPath(name string) (string, error) {
	if strings.HasPrefix(name, "/") {
		return "", errors.New("it is absolute")
	}
	if len(name) > maxPath {
		return "", fmt.Errorf("it is longer than %d bytes", maxPath)
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", errors.New("it contains a zero byte")
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			return "", errors.New("it leads upwards (..)")
		case len(part) > 255:
			return "", errors.New("a part of it is longer than 255 bytes")
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "/"), nil
}

// open opens a cleaned path below the root, without following symbolic links.
func (w *writer) open(path string, flags uint64) (int, error) {
	if path == "" {
		path = "."
	}
	fd, err := unix.Openat2(w.root, path, &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return -1, errors.New("it leads through a link or a file")
	}
	return fd, err
}

// openParent creates the folder that contains path if necessary. It returns the folder and
// the last part of path. The descriptor is valid until the next call.
func (w *writer) openParent(path string) (fd int, name string, err error) {
	dir, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, name = path[:i], path[i+1:]
	}
	if w.parent >= 0 && dir == w.parentOf {
		return w.parent, name, nil
	}
	fd, err = w.open(dir, unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) && dir != "" {
		if err := w.makeFolder(dir, meta{mode: 0o755}); err != nil {
			return -1, "", err
		}
		fd, err = w.open(dir, unix.O_PATH|unix.O_DIRECTORY)
	}
	if err != nil {
		return -1, "", err
	}
	w.closeParent()
	w.parent, w.parentOf = fd, dir
	return fd, name, nil
}

// countFile fails above maxFiles, or when ctx has ended.
func (w *writer) countFile() error {
	if err := w.ctx.Err(); err != nil {
		return context.Cause(w.ctx)
	}
	if w.files++; w.files > maxFiles {
		return fmt.Errorf("more than %d files", maxFiles)
	}
	return nil
}

// writeContent copies r to the file fd, with holes for blocks of zeros.
func (w *writer) writeContent(fd int, r io.Reader) error {
	var size int64
	for {
		n, err := 0, error(nil)
		for n < len(w.buf) && err == nil {
			var more int
			more, err = r.Read(w.buf[n:])
			n += more
		}
		if n > 0 {
			if err := w.reserveSpace(int64(n)); err != nil {
				return err
			}
			if !isZero(w.buf[:n]) {
				if err := writeAt(fd, w.buf[:n], size); err != nil {
					return err
				}
			}
			size += int64(n)
		}
		switch {
		case err == io.EOF:
			return unix.Ftruncate(fd, size)
		case err != nil:
			return err
		}
	}
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func writeAt(fd int, b []byte, offset int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(fd, b, offset)
		if err != nil {
			return err
		}
		b, offset = b[n:], offset+int64(n)
	}
	return nil
}

// reserveSpace counts n bytes before they are written. It fails above maxTotal. Every 16 MiB it checks the
// disk, and fails if less than minFree is free.
func (w *writer) reserveSpace(n int64) error {
	if err := w.ctx.Err(); err != nil {
		return context.Cause(w.ctx)
	}
	if w.bytes += n; w.bytes > w.maxTotal {
		return fmt.Errorf("all files together have more than %d MiB", w.maxTotal>>20)
	}
	if w.sinceSpaceCheck += n; w.sinceSpaceCheck < 16<<20 && w.bytes != n {
		return nil
	}
	w.sinceSpaceCheck = 0
	var st unix.Statfs_t
	if err := unix.Fstatfs(w.root, &st); err != nil {
		return err
	}
	if free := int64(st.Bavail) * st.Bsize; free < minFree {
		return fmt.Errorf("only %d MiB are free on the disk of the images; make room and try again", free>>20)
	}
	return nil
}

// finish sets the times of the folders, in the reverse order of their creation.
func (w *writer) finish() error {
	w.closeParent()
	for i := len(w.dirs) - 1; i >= 0; i-- {
		fd, err := w.open(w.dirs[i].path, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			continue // a later member has replaced the folder
		}
		err = unix.UtimesNanoAt(fd, "", times(w.dirs[i].mtime), unix.AT_EMPTY_PATH)
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}
