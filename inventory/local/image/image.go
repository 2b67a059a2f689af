package image

import (
	"context"
	"errors"
	"io"

	"patchbay/inventory/local/node"
)

// Host is the name of the image made of this host.
const Host = "host"

var errNotBuilt = errors.New("not built yet")

// Store is a folder of images, State/images.
type Store struct{ dir string }

// Open opens the folder, making it if need be.
func Open(dir string) (*Store, error) { return nil, errNotBuilt }

// Find is the image of that name and its key: a name for exactly these
// contents, which a node keeps so that Key finds the same again. The first Find
// of Host makes the skeleton.
func (s *Store) Find(ctx context.Context, name string) (key string, i node.Image, err error) {
	return "", node.Image{}, errNotBuilt
}

// Key is the image that Find once gave.
func (s *Store) Key(key string) (node.Image, error) { return node.Image{}, errNotBuilt }

// Names are the images there are, Host among them.
func (s *Store) Names() ([]string, error) { return nil, errNotBuilt }

// Add makes an image of a folder or a tarball (from), or, when from is empty, of
// the Debian release that name ends in (debian-12), by mmdebstrap. Progress is
// written to w.
func (s *Store) Add(ctx context.Context, name, from string, w io.Writer) error { return errNotBuilt }

// Remove removes an image by name. Contents that used(key) tells of stay until Sweep.
func (s *Store) Remove(name string, used func(key string) bool) error { return errNotBuilt }

// Sweep removes contents that have no name any more and that nobody uses, and
// what an interrupted Add or Find left.
func (s *Store) Sweep(used func(key string) bool) error { return errNotBuilt }
