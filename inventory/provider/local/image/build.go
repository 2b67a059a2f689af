package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Other names in the folder of images.
const (
	lockFile      = ".lock"
	newPrefix     = ".new-"
	removedPrefix = ".gone-"
)

// lock locks the names of images. It waits while another process has locked them.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the folder of images: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("cannot lock the folder of images: %w", err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("the folder of images is in use by another program: %w", context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// build is an unfinished image. Its folder is locked while the process lives. Without a
// lock, Sweep treats an unfinished image as the remainder of a crash.
type build struct {
	store  *Store
	dir    string
	root   string // below dir
	folder *os.File
}

// startBuild creates a folder for an unfinished image, and locks it as long as this process builds there.
func (s *Store) startBuild(ctx context.Context) (*build, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir, err := os.MkdirTemp(s.dir, newPrefix)
	if err != nil {
		return nil, fmt.Errorf("cannot create the folder of a new image: %w", err)
	}
	b := &build{store: s, dir: dir, root: filepath.Join(dir, "root")}
	b.folder, err = os.Open(dir)
	if err == nil {
		err = unix.Flock(int(b.folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		err = os.Mkdir(b.root, 0o755)
	}
	if err == nil {
		err = os.Chmod(b.root, 0o755) // the umask may have restricted the mode
	}
	if err != nil {
		b.discard()
		return nil, fmt.Errorf("cannot create the folder of a new image: %w", err)
	}
	return b, nil
}

// discard removes everything in the build's folder that was not published.
func (b *build) discard() error {
	err := removeTree(b.dir)
	if b.folder != nil {
		b.folder.Close()
	}
	return err
}

// publish moves the finished image into the store, gives it the name, and returns its key. If the same
// content was published under this name before, publish uses the existing copy. If the name is taken,
// replace decides: true makes the name point to the new image, false is an error that wraps fs.ErrExist.
func (b *build) publish(ctx context.Context, name string, replace bool) (key string, err error) {
	hash, err := hashTree(ctx, b.root)
	if err != nil {
		return "", fmt.Errorf("cannot read the new image again: %w", err)
	}
	key = name + "@" + hash
	to := filepath.Join(b.store.dir, key)
	if _, err := os.Lstat(to); err != nil {
		// After a loss of power, the name must not exist without its content.
		if err := syncFS(b.dir); err != nil {
			return "", fmt.Errorf("cannot write the new image to the disk: %w", err)
		}
	}
	unlock, err := b.store.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	link := filepath.Join(b.store.dir, name)
	if _, err := os.Lstat(link); err == nil && !replace {
		return "", nameTaken(name)
	}
	switch _, err := os.Lstat(to); {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.Rename(b.root, to); err != nil {
			return "", fmt.Errorf("cannot rename the new image: %w", err)
		}
	case err != nil:
		return "", err
	}
	if old, err := os.Readlink(link); err == nil && old == key {
		return key, nil
	}
	next := filepath.Join(b.dir, "name")
	if err := os.Symlink(key, next); err != nil {
		return "", fmt.Errorf("cannot name the new image: %w", err)
	}
	if err := os.Rename(next, link); err != nil {
		return "", fmt.Errorf("cannot name the new image: %w", err)
	}
	return key, syncDir(b.store.dir)
}

func nameTaken(name string) error {
	return fmt.Errorf("there is an image %q already; remove it first: patchbay-local image remove SETTINGS %s: %w", name, name, fs.ErrExist)
}

func syncFS(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
