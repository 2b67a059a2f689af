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

	"patchbay/inventory/local/node"
)

// Host is the name of the image made of this host.
const Host = "host"

// Store is a folder of images, State/images. Several processes may use one
// folder at the same time.
type Store struct {
	dir  string
	host string // root of the file system that Host is made of

	// Building is called when the image of this host begins to be made, anew if it was
	// made before, and what it returns when that has ended. Nil: nothing is called. It
	// is set before the first Find.
	Building func(anew bool) (ended func(error))

	mu    sync.Mutex // guards what follows; held while the skeleton is built
	stamp string     // of the host when it was last looked at
	key   string     // of the skeleton that was made then
}

// Open opens the folder, making it if need be. It belongs to whoever runs this,
// and to nobody else: there are programs in it that would give any user the
// rights of their owner.
func Open(dir string) (*Store, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the folder of images, %q, is not an absolute path", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the folder of images: %w", err)
	}
	if i, err := os.Lstat(dir); err != nil || !i.IsDir() {
		return nil, fmt.Errorf("%s, where the images would be, is not a folder", dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot close the folder of images to others: %w", err)
	}
	return &Store{dir: dir, host: "/"}, nil
}

// Find is the image of that name and its key: a name for exactly these
// contents, which a node keeps so that Key finds the same again. The first Find
// of Host makes the skeleton, which takes a second, and so does one after the
// host's packages or accounts have changed. An unknown name is fs.ErrNotExist.
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

// keyOf is the key that name stands for.
func (s *Store) keyOf(name string) (string, error) {
	key, err := os.Readlink(filepath.Join(s.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no image %q; add it: patchbay-local image add SETTINGS %s: %w", name, name, fs.ErrNotExist)
	}
	if err != nil || !isKeyOf(key, name) {
		return "", fmt.Errorf("%s is no link to an image; remove it and add the image again", filepath.Join(s.dir, name))
	}
	return key, nil
}

// Key is the image that Find once gave. One that is gone is fs.ErrNotExist.
func (s *Store) Key(key string) (node.Image, error) {
	name, _, _ := strings.Cut(key, "@")
	if !isKeyOf(key, name) {
		return node.Image{}, fmt.Errorf("%q is no key of an image", key)
	}
	root := filepath.Join(s.dir, key)
	switch i, err := os.Lstat(root); {
	case errors.Is(err, fs.ErrNotExist):
		return node.Image{}, fmt.Errorf("the contents %s of the image %q are gone: %w", key, name, fs.ErrNotExist)
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

// Names are the images there are, sorted, Host among them even if its skeleton
// was not made yet.
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
