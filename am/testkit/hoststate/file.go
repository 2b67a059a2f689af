package hoststate

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// takeRoots adds the files in the roots, by mode and owner. It does not compare the contents of files,
// since logs grow.
func (k *taker) takeRoots() error {
	for _, root := range k.options.Roots {
		whole := k.isMarked(root)
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				var i fs.FileInfo
				if i, err = os.Lstat(path); err == nil {
					if whole || k.isMarked(path) || k.hasMarkedContent(path, i) {
						stat := i.Sys().(*syscall.Stat_t)
						k.add("%s %s, owner %d:%d", describeFile(path, i), path, stat.Uid, stat.Gid)
					}
					return nil
				}
			}
			if vanished(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// hasMarkedContent reports whether the content of a small file, or the target of a link,
// contains a mark.
func (k *taker) hasMarkedContent(path string, i fs.FileInfo) bool {
	if i.Mode().Type() == fs.ModeSymlink {
		return k.isMarked(link(path))
	}
	if !i.Mode().IsRegular() || i.Size() > 64<<10 {
		return false
	}
	b, err := os.ReadFile(path)
	return err == nil && k.isMarked(string(b))
}

func describeFile(path string, i fs.FileInfo) string {
	switch i.Mode().Type() {
	case fs.ModeDir:
		return "folder " + i.Mode().String()
	case fs.ModeSymlink:
		return "link to " + link(path) + " called"
	case fs.ModeSocket:
		return "socket " + i.Mode().String()
	}
	return "file " + i.Mode().String()
}

func (k *taker) takeTemp() error {
	if len(k.options.Temp) == 0 {
		return nil
	}
	list, err := os.ReadDir(os.TempDir())
	if err != nil {
		return err
	}
	for _, e := range list {
		for _, prefix := range k.options.Temp {
			if strings.HasPrefix(e.Name(), prefix) {
				k.addOnce("temporary file %s", filepath.Join(os.TempDir(), e.Name()))
			}
		}
	}
	return nil
}
