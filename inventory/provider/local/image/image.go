package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"patchbay/inventory/provider/local/node"
)

// Host is the name of the image that is made of this host.
const Host = "host"

// Store is a folder of images, State/images. Several processes may use it at the same time.
type Store struct {
	dir  string
	host string // root of the file system from which Host is made

	// Building, if not nil, is called when the build of the image Host begins. isRebuild
	// reports whether this process has built that image before. The returned function is
	// called when the build ends, with its error. Set Building before the first Find.
	Building func(isRebuild bool) (ended func(error))

	mu    sync.Mutex // guards the fields below; held while the skeleton is built
	stamp string     // the host's stamp when the last skeleton was built
	key   string     // key of the last skeleton
}

// Open opens the folder of images and creates it if necessary. Only the current user can
// enter it: setuid programs in it would give the current user's rights to other users.
func Open(dir string) (*Store, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the folder of images, %q, is not an absolute path", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create the folder of images: %w", err)
	}
	if i, err := os.Lstat(dir); err != nil || !i.IsDir() {
		return nil, fmt.Errorf("%s, the folder of images, is not a folder", dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot set the mode of the folder of images: %w", err)
	}
	return &Store{dir: dir, host: "/"}, nil
}

// Find returns the image with a name and its key, which identifies the present content. A
// node stores the key, and gets the same content from Key later. If name is Host, the first
// call builds the skeleton, which takes a second. So does the first call after a change of
// the host's packages or accounts. Find fails with fs.ErrNotExist for an unknown name.
func (s *Store) Find(ctx context.Context, name string) (key string, i node.Image, err error) {
	if err := checkName(name); err != nil {
		return "", node.Image{}, err
	}
	if name == Host {
		key, err = s.findHost(ctx)
	} else {
		key, err = s.keyOf(name)
	}
	if err != nil {
		return "", node.Image{}, err
	}
	i, err = s.Key(key)
	return key, i, err
}

// keyOf fails with fs.ErrNotExist if there is no such image.
func (s *Store) keyOf(name string) (string, error) {
	key, err := os.Readlink(filepath.Join(s.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no image %q; add it: patchbay-local image add SETTINGS %s: %w", name, name, fs.ErrNotExist)
	}
	if err != nil || !isKeyOf(key, name) {
		return "", fmt.Errorf("%s is not a link to an image; remove it and add the image again", filepath.Join(s.dir, name))
	}
	return key, nil
}

// Key returns the image with a key. It fails with fs.ErrNotExist if the image was removed.
func (s *Store) Key(key string) (node.Image, error) {
	name, _, _ := strings.Cut(key, "@")
	if !isKeyOf(key, name) {
		return node.Image{}, fmt.Errorf("%q is not a key of an image", key)
	}
	root := filepath.Join(s.dir, key)
	switch i, err := os.Lstat(root); {
	case errors.Is(err, fs.ErrNotExist):
		return node.Image{}, fmt.Errorf("the contents %s of the image %q were removed: %w", key, name, fs.ErrNotExist)
	case err != nil:
		return node.Image{}, err
	case !i.IsDir():
		return node.Image{}, fmt.Errorf("%s is not a folder", root)
	}
	i := node.Image{Root: root}
	if name == Host {
		i.Usr = filepath.Join(s.host, "usr")
	}
	return i, nil
}

// Names returns the names of all images, sorted. Host is always among them.
func (s *Store) Names() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("cannot list the images: %w", err)
	}
	names := []string{Host}
	for _, e := range entries {
		if e.Type() == fs.ModeSymlink && e.Name() != Host && checkName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}
