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

// kind is what an entry of an archive is.
type kind byte

const (
	kindFile kind = iota + 1
	kindFolder
	kindLink     // symbolic
	kindHardLink // the same file under a second name
)

// entry is one thing in an archive.
type entry struct {
	kind     kind
	name     string // as the archive has it; survey makes it clean
	mode     fs.FileMode
	size     int64 // of a file
	modified time.Time
	target   string // of a link; of a second name, the first
	body     io.Reader
}

// Bounds on names in archives, in bytes.
const (
	maxName   = 255
	maxTarget = 4095
)

// refusalf is what is wrong with an archive.
func refusalf(name, format string, args ...any) error {
	return fmt.Errorf("the archive is refused: %.120q %s", name, fmt.Sprintf(format, args...))
}

// cleanName is a name as a path below the place, "." for the place itself.
func cleanName(name string) (string, error) {
	switch {
	case name == "":
		return "", refusalf(name, "is a name without a letter")
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

// checkTarget refuses links that lead out of the place. ".." can only come first:
// after another name, which may be a link itself, nobody knows where it leads.
func checkTarget(name, target, place string) error {
	switch {
	case target == "" || strings.ContainsRune(target, 0) || len(target) > maxTarget:
		return refusalf(name, "is a link whose target has no letter, a zero byte or more than %d bytes", maxTarget)
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

// eachEntry calls f for all entries of an archive.
func eachEntry(ctx context.Context, f *os.File, as format, each func(*entry) error) error {
	if as == formatZip {
		return eachZipEntry(ctx, f, each)
	}
	return eachTarEntry(ctx, f, each)
}

// contextReader ends reading with ctx.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (t contextReader) Read(b []byte) (int, error) {
	if t.ctx.Err() != nil {
		return 0, fmt.Errorf("it is not unpacked after %v", installTime)
	}
	return t.r.Read(b)
}

// archiveError is an error of reading an archive.
func archiveError(as format, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("it cannot be read as a %s archive: %w", as, err)
}
