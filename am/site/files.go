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

	"patchbay/am/durable"
	"patchbay/am/fileowner"
)

// ReplaceFile puts content where readers see either the old or the new, and
// strangers never a key. It makes the folder.
func ReplaceFile(path string, content []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	return fileowner.As(dir, func() error {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		return durable.WriteFile(path, content, mode)
	})
}

// File is a file to write into a folder.
type File struct {
	Name    string
	Content []byte
	Mode    fs.FileMode
}

// WriteFiles writes files below dir, and replaces each as a whole.
func WriteFiles(dir string, files []File) error {
	for _, f := range files {
		if err := ReplaceFile(filepath.Join(dir, f.Name), f.Content, f.Mode); err != nil {
			return err
		}
	}
	return nil
}

// OpenRegular opens a file that an operator named. It waits for nobody who writes into
// a pipe: what is no regular file is refused.
func OpenRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "read", Path: name, Err: notRegular(kindOf(info.Mode()))}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// notRegular says what stands in the place of a regular file.
type notRegular string

func (kind notRegular) Error() string {
	return fmt.Sprintf("it is not a regular file but %s; name one that is", string(kind))
}

// OrPiped adds to what is wrong with a file how to have the same text read, by commands
// that take - for standard input.
func OrPiped(err error) error {
	if kind, ok := errors.AsType[notRegular](err); ok && kind != aFolder {
		return fmt.Errorf("%w; or give - and pipe it in", err)
	}
	return err
}

// maxRegular is how long such a file may be that is read as a whole, in bytes: as long
// as an inventory.
const maxRegular = 64 << 20

// ReadRegular reads such a file.
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

const aFolder = "a folder"

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return aFolder
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	}
	return "a device"
}

// stamp tells two states of a file apart, without reading it. Of a link to what is
// not there it is the link's.
type stamp struct {
	there  bool
	edited int64 // when its content was, as it says; ns since 1970
	// touched is when its content, owner or mode was; nobody can set it. What could
	// not be read may be readable since.
	touched int64
	size    int64
	inode   uint64
}

func stampOf(file string) stamp {
	info, err := os.Stat(file)
	if err != nil {
		info, err = os.Lstat(file)
	}
	if err != nil {
		return stamp{}
	}
	s := stamp{there: true, edited: info.ModTime().UnixNano(), size: info.Size()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.touched, s.inode = sys.Ctim.Nano(), sys.Ino
	}
	return s
}

// filePause is how often files are looked at, and how long they must stay as they
// are before they are read, so that none is read while it is being written.
const filePause = 250 * time.Millisecond

// watchFiles calls settled, until ctx ends, whenever the state of files is as it was a
// pause ago, and after so many changes in a row as latest says; 0 is never.
func watchFiles(ctx context.Context, latest int, state func() string, settled func(state string)) {
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
		if changes++; now == last || changes == latest {
			changes = 0
			settled(now)
		}
		last = now
	}
}
