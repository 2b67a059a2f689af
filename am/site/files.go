package site

import (
	"io/fs"
	"os"
	"path/filepath"

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
