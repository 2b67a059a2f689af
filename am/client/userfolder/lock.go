package userfolder

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

// Clear removes everything in a folder, with the rights of the folder's owner.
func Clear(dir string) error {
	return file.AsOwner(dir, func() error {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
		return nil
	})
}

// Lock waits while another command holds the lock. The caller must call unlock.
func Lock(ctx context.Context, dir string, messages io.Writer) (unlock func(), err error) {
	const quiet = 10 // attempts until a message says that Lock waits
	for try := 0; ; try++ {
		f, err := os.Open(dir)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && isStill(f, dir) {
			return func() { f.Close() }, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("cannot lock %s: %w", dir, err)
		}
		if try == quiet {
			fmt.Fprintf(messages, "waiting for another patchbay command that works in %s\n", dir)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// isStill reports whether the path still leads to the open folder.
func isStill(f *os.File, dir string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(dir)
	return err == nil && os.SameFile(opened, now)
}

// RemoveFile uses the rights of the folder's owner. It returns nil if the file does not
// exist.
func RemoveFile(name string) error {
	err := file.AsOwner(filepath.Dir(name), func() error { return os.Remove(name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
