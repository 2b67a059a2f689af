package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Remove removes an image. isUsed reports whether the content with a key is in use. Used
// content stays until a later Sweep. Remove fails with fs.ErrNotExist if there is no such
// image, and refuses Host.
func (s *Store) Remove(name string, isUsed func(key string) bool) error {
	if err := checkName(name); err != nil {
		return err
	}
	if name == Host {
		return errors.New(`the image "host" is made of this host and cannot be removed`)
	}
	unlock, err := s.lock(context.Background())
	if err != nil {
		return err
	}
	defer unlock()
	key, err := s.keyOf(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no image %q to remove; list the images: patchbay-local image list SETTINGS: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
		return fmt.Errorf("cannot remove the image %q: %w", name, err)
	}
	if isUsed(key) {
		return nil
	}
	return s.removeContents(key)
}

// Sweep removes the contents without a name for which isUsed returns false. It also removes
// unfinished images, which interrupted calls of Add and Find have left. isUsed must return
// true for a key as soon as Find has returned the key.
func (s *Store) Sweep(isUsed func(key string) bool) error {
	unlock, err := s.lock(context.Background())
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("cannot list the images: %w", err)
	}
	named := map[string]bool{}
	for _, e := range entries {
		if e.Type() == fs.ModeSymlink {
			if key, err := s.keyOf(e.Name()); err == nil {
				named[key] = true
			}
		}
	}
	var errs []error
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), "@")
		switch {
		case !e.IsDir():
		case isKeyOf(e.Name(), name):
			if !named[e.Name()] && !isUsed(e.Name()) {
				errs = append(errs, s.removeContents(e.Name()))
			}
		case strings.HasPrefix(e.Name(), removedPrefix):
			errs = append(errs, removeTree(filepath.Join(s.dir, e.Name())))
		case strings.HasPrefix(e.Name(), newPrefix):
			errs = append(errs, s.removeAbandoned(e.Name()))
		}
	}
	return errors.Join(errs...)
}

// removeContents renames the content before the removal, so that no caller finds a part of
// it.
func (s *Store) removeContents(key string) error {
	dir, err := os.MkdirTemp(s.dir, removedPrefix)
	if err != nil {
		return fmt.Errorf("cannot remove %s: %w", key, err)
	}
	err = os.Rename(filepath.Join(s.dir, key), filepath.Join(dir, "root"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		os.Remove(dir)
		return fmt.Errorf("cannot remove %s: %w", key, err)
	}
	return removeTree(dir)
}

// removeAbandoned removes an unfinished image, unless the process that builds it still
// lives.
func (s *Store) removeAbandoned(name string) error {
	dir := filepath.Join(s.dir, name)
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the process that built the image has just published or removed it
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil
	}
	return removeTree(dir)
}

// removeTree removes a folder with all files in it. It never follows symbolic links. It fails if a file
// system is mounted in the folder, and so never removes files of a mounted file system.
func removeTree(dir string) error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("cannot remove %s, since the mounts cannot be read: %w", dir, err)
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && (fields[4] == dir || strings.HasPrefix(fields[4], dir+"/")) {
			return fmt.Errorf("cannot remove %s: something is mounted at %s; umount it first", dir, fields[4])
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("cannot remove %s: %w", dir, err)
	}
	return nil
}
