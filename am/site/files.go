package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"patchbay/am/file"
)

// ReplaceFile writes a file atomically: readers get the old or the new content, and no user can
// read the new content before the file has its mode. It creates the file's folder if necessary.
func ReplaceFile(path string, content []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	return file.AsOwner(dir, func() error {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		return file.Write(path, content, mode)
	})
}

// File is a file for WriteFiles.
type File struct {
	Name    string
	Content []byte
	Mode    fs.FileMode
}

// WriteFiles writes files below dir with ReplaceFile.
func WriteFiles(dir string, files []File) error {
	for _, f := range files {
		if err := ReplaceFile(filepath.Join(dir, f.Name), f.Content, f.Mode); err != nil {
			return err
		}
	}
	return nil
}

// OpenRegular opens a regular file. It fails at once for a file that is not regular; for a pipe
// it does not wait for a writer.
func OpenRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "read", Path: name, Err: notRegularError(kindOf(info.Mode()))}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

type notRegularError string

func (kind notRegularError) Error() string {
	return fmt.Sprintf("it is not a regular file but %s; name a regular file", string(kind))
}

// SuggestPipe adds a remedy to the error for a pipe or device: the argument "-", which means
// standard input. It returns other errors unchanged. Call it only in commands that accept "-".
func SuggestPipe(err error) error {
	if kind, ok := errors.AsType[notRegularError](err); ok && kind != kindFolder {
		return fmt.Errorf("%w; or give - and pipe the content in", err)
	}
	return err
}

// maxRegular limits, in bytes, what ReadRegular reads, and thus an inventory.
const maxRegular = 64 << 20

// ReadRegular reads a regular file of at most maxRegular bytes.
func ReadRegular(name string) ([]byte, error) {
	f, err := OpenRegular(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRegular+1))
	if err == nil && len(text) > maxRegular {
		err = &os.PathError{Op: "read", Path: name, Err: fmt.Errorf("it is larger than %d MiB; name a shorter one", maxRegular>>20)}
	}
	return text, errors.Join(err, f.Close())
}

const kindFolder = "a folder"

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return kindFolder
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	}
	return "a device"
}

// fileStamp identifies a version of a file without reading it. For a dangling link it identifies
// the link.
type fileStamp struct {
	exists   bool
	modified int64 // mtime, in ns since 1970
	// changed is the last change of content, owner or mode (ctime), in ns since 1970. Users
	// cannot set it. A new owner or mode can make a file readable.
	changed int64
	size    int64
	inode   uint64
}

// stampOf returns the zero value if there is no such file.
func stampOf(file string) fileStamp {
	info, err := os.Stat(file)
	if err != nil {
		info, err = os.Lstat(file)
	}
	if err != nil {
		return fileStamp{}
	}
	s := fileStamp{exists: true, modified: info.ModTime().UnixNano(), size: info.Size()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.changed, s.inode = sys.Ctim.Nano(), sys.Ino
	}
	return s
}

const filePause = 250 * time.Millisecond

// watchFiles polls state until ctx ends. It calls settled when two successive polls return the
// same state, so that no half-written file is read. If maxChanges is not 0, it also calls settled
// after maxChanges polls without such a call.
func watchFiles(ctx context.Context, maxChanges int, state func() string, settled func(state string)) {
	ticks := time.NewTicker(filePause)
	defer ticks.Stop()
	last, changes := state(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		now := state()
		if changes++; now == last || changes == maxChanges {
			changes = 0
			settled(now)
		}
		last = now
	}
}
