package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"patchbay/am/fileowner"
)

// unfinished is how the names of backups begin that are being made.
const unfinished = "patchbay-backup-unfinished-"

// newBackup makes the file of a backup in a folder. While it is open a lock tells
// others that it is being made. The lock is a shared one, for the look at what was
// written takes one, too.
func newBackup(folder string) (*os.File, error) {
	for {
		f, err := os.CreateTemp(folder, unfinished+"*")
		if err != nil {
			return nil, err
		}
		// Where there are no locks, nobody removes anything.
		locked := syscall.Flock(int(f.Fd()), syscall.LOCK_SH)
		if locked != nil || isAt(f, f.Name()) {
			return f, nil
		}
		f.Close() // it was removed before it had its lock
	}
}

// removeUnfinished removes from a folder what backups of this user have left that were
// killed, and tells of it.
func removeUnfinished(folder string, told io.Writer) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return // a backup cannot be made there, and says so
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), unfinished) || !e.Type().IsRegular() {
			continue
		}
		name := filepath.Join(folder, e.Name())
		if removeUnlocked(name) {
			fmt.Fprintf(told, "patchbay: removed %q, which a backup has left that was killed\n", name)
		}
	}
}

// removeUnlocked removes a file of this user that nobody has a lock on.
func removeUnlocked(name string) bool {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	user := os.Geteuid()
	if owner, _, ok, err := fileowner.Other(filepath.Dir(name)); err != nil {
		return false
	} else if ok {
		user = owner
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != user {
		return false
	}
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && isAt(f, name) && os.Remove(name) == nil
}

// isAt tells whether an open file still has a name.
func isAt(f *os.File, name string) bool {
	there, err := os.Lstat(name)
	if err != nil {
		return false
	}
	mine, err := f.Stat()
	return err == nil && os.SameFile(there, mine)
}
