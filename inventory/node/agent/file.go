package agent

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// updateFile replaces a file by one with the content text, unless its present content, current, equals
// text. The file keeps its mode, and its owner if root writes it. A missing file is created with mode,
// unless text is empty.
func updateFile(path string, current, text []byte, mode fs.FileMode) error {
	stat, err := os.Lstat(path)
	exists := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if bytes.Equal(current, text) && (exists || len(text) == 0) {
		return nil
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if exists && stat.Mode().IsRegular() {
		mode = stat.Mode().Perm()
		if s, ok := stat.Sys().(*syscall.Stat_t); ok && uid == 0 {
			uid, gid = int(s.Uid), int(s.Gid)
		}
	}
	return writeFile(path, text, mode, uid, gid)
}

// writeFile creates a file with this content, mode and owner, and then renames it to path.
func writeFile(path string, text []byte, mode fs.FileMode, uid, gid int) (err error) {
	fresh := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".patchbay")
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(fresh)
		}
	}()
	_, err = f.Write(text)
	if err == nil && (uid != os.Geteuid() || gid != os.Getegid()) {
		err = f.Chown(uid, gid)
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

func readIfExists(path string) ([]byte, error) {
	text, err := readFile(path, fileLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}
