package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/google/renameio/v2"
)

// Write replaces or creates the file path with exactly the mode perm. After a
// return without an error, the new content survives a loss of power. A symbolic link at
// path is replaced, not followed.
func Write(path string, data []byte, perm fs.FileMode) error {
	dir := filepath.Dir(path)
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithStaticPermissions(perm))
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.CloseAtomicallyReplace()
	}
	if err != nil {
		return errors.Join(err, f.Cleanup())
	}
	return SyncFolder(dir)
}

// SyncFolder makes the names in a folder survive a loss of power.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Unfinished recognizes a temporary file of Write by its name. It returns the name of
// the file that Write was writing; "" if name is not such a temporary file. A temporary
// file may be removed when no process writes in its folder.
func Unfinished(name string) (target string) {
	target, isHidden := strings.CutPrefix(name, ".")
	plain := strings.TrimRight(target, "0123456789")
	if !isHidden || plain == target {
		return ""
	}
	return plain
}

// RecoverFault calls f, which reads a file that is mapped into memory. Reading a damaged or truncated
// file causes a memory fault. If f panics, RecoverFault returns damage of the panic's value, and
// panics again if that is nil.
func RecoverFault(f func() error, damage func(p any) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if err = damage(p); err == nil {
				panic(p)
			}
		}
	}()
	return f()
}
