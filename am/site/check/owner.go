package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"patchbay/am/display"
	"patchbay/am/file"
)

// ownerAccess warns if all users may write in the site's folder. It reports files that the
// folder's owner cannot read: the server runs as the owner and would fail. The other checks do
// not notice this if root runs them.
func (k *Checker) ownerAccess(dir string) {
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o002 != 0 {
		k.warn(dir, "all users of this host may write here, so they control the site; run: %s", display.ShellLine([]string{"chmod", "o-w", dir}))
	}
	uid, _, another, err := file.OtherOwner(dir)
	if err != nil || !another {
		return
	}
	var unreadable []string
	err = file.AsOwner(dir, func() error {
		return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				var f *os.File
				if f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
					f.Close()
				}
			}
			if errors.Is(err, fs.ErrPermission) {
				unreadable = append(unreadable, path)
			}
			return nil
		})
	})
	if err != nil || len(unreadable) == 0 {
		return
	}
	var more string
	if n := len(unreadable) - 1; n > 0 {
		more = fmt.Sprintf(" (and %s)", display.Count(n, "other file"))
	}
	fix := display.ShellLine([]string{"chown", "--reference=" + dir, unreadable[0]})
	k.bad(unreadable[0], "the site's owner, user %d, cannot read it%s; run: %s", uid, more, fix)
}
