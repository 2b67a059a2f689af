package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"patchbay/am/fileowner"
	"path/filepath"
	"syscall"
	"time"
)

// clearFolder uses the rights of the folder's owner.
func clearFolder(dir string) error {
	return fileowner.As(dir, func() error {
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

// lockFolder waits while another command holds the lock. The caller must call unlock.
func lockFolder(ctx context.Context, dir string, c console) (unlock func(), err error) {
	const quiet = 10 // attempts until a message says that lockFolder waits
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
			fmt.Fprintf(c.err, "waiting for another patchbay command that works in %s\n", dir)
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
