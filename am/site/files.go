package site

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

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
		t, err := os.CreateTemp(dir, ".new-*") // mode 0600
		if err != nil {
			return err
		}
		defer os.Remove(t.Name())
		_, err = t.Write(content)
		if err = errors.Join(err, t.Chmod(mode), t.Close()); err != nil {
			return err
		}
		return os.Rename(t.Name(), path)
	})
}
