package setup

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

type kind byte

const (
	kindFile kind = iota + 1
	kindFolder
	kindLink     // symbolic link
	kindHardLink // hard link
)

type entry struct {
	kind     kind
	name     string // as in the archive; cleanName normalizes it
	mode     fs.FileMode
	size     int64 // of a file
	modified time.Time
	target   string // of a link; for a hard link, the linked entry
	body     io.Reader
	// The numbers of the owners in a tar archive.
	user, group int64
}

// Bounds on names in archives, in bytes.
const (
	maxName   = 255
	maxTarget = 4095
)

func refusalf(name, format string, args ...any) error {
	return fmt.Errorf("the archive is refused: %.120q %s", name, fmt.Sprintf(format, args...))
}

// cleanName returns "." for the target folder itself. It refuses absolute, empty and too
// long names, and names with "..".
func cleanName(name string) (string, error) {
	switch {
	case name == "":
		return "", refusalf(name, "is an empty name")
	case strings.ContainsRune(name, 0):
		return "", refusalf(name, "has a zero byte in its name")
	case len(name) > maxPath:
		return "", refusalf(name, "is a name of more than %d bytes", maxPath)
	case path.IsAbs(name):
		return "", refusalf(name, "is an absolute name")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", refusalf(name, "has .. in its name")
		}
		if len(part) > maxName {
			return "", refusalf(name, "has a part of more than %d bytes", maxName)
		}
	}
	return path.Clean(name), nil
}

// checkTarget refuses a symbolic link that leads out of the target folder, whose path is
// place. The target of the link may contain ".." only at its beginning. After another name,
// the meaning of ".." is unknown, since that name may itself be a link.
func checkTarget(name, target, place string) error {
	switch {
	case target == "" || strings.ContainsRune(target, 0) || len(target) > maxTarget:
		return refusalf(name, "is a link whose target is empty, contains a zero byte or has more than %d bytes", maxTarget)
	case path.IsAbs(target):
		inside := strings.HasPrefix(path.Clean(target)+"/", strings.TrimSuffix(place, "/")+"/")
		if !inside || strings.Contains(target+"/", "/../") {
			return refusalf(name, "is a link to %.120q, which is outside of %s", target, place)
		}
		return nil
	}
	depth, down := strings.Count(name, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == "" || part == ".":
		case part != "..":
			down = true
		case down || depth == 0:
			return refusalf(name, "is a link to %.120q, which leads outside of the archive", target)
		default:
			depth--
		}
	}
	return nil
}

// eachEntry stops at the first error.
func eachEntry(ctx context.Context, f *os.File, as format, visit func(*entry) error) error {
	if as == formatZip {
		return eachZipEntry(ctx, f, visit)
	}
	return eachTarEntry(ctx, f, visit)
}

// contextReader fails when ctx has ended.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (t contextReader) Read(b []byte) (int, error) {
	if t.ctx.Err() != nil {
		return 0, fmt.Errorf("it was not unpacked within %v", installTime)
	}
	return t.r.Read(b)
}

func archiveError(as format, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("it cannot be read as a %s archive: %w", as, err)
}
