package store

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// lock keeps servers from the file until unlock is called; a file that is not
// there needs none. Its error is ErrLocked if somebody has it.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // not to wait for a pipe
	if errors.Is(err, os.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, explain(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, cannotOpen(path, ErrLocked)
		}
		return nil, err
	}
	return func() { f.Close() }, nil
}

// alias gives a file a second name, durably.
func alias(path, name string) error {
	err := os.Link(path, name)
	switch {
	case err == nil:
		return syncFolder(filepath.Dir(name))
	case errors.Is(err, os.ErrExist), errors.Is(err, os.ErrNotExist):
		return err
	}
	// Some file systems know no links.
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return syncFolder(filepath.Dir(name))
}
