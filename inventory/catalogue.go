package inventory

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"patchbay/rspec/step"
)

// CatalogueFolder is the folder of the site's catalogue, beside the inventory.
const CatalogueFolder = "catalogue"

// MaxCatalogueFile is the maximum size of a file of the catalogue, in bytes. Nodes get a file within
// minutes.
const MaxCatalogueFile = 1 << 30

// OpenCatalogue opens a file of the catalogue in the folder. It follows no link, since root may call
// it for a folder of another user.
func OpenCatalogue(folder, name string) (*os.File, error) {
	if !step.IsCatalogueName(name) {
		return nil, fmt.Errorf("%.80q cannot be the name of a file of the catalogue", name)
	}
	dir, err := os.OpenFile(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) {
		err = &fs.PathError{Op: "open", Path: folder, Err: errors.New("it is no folder, or a symbolic link")}
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	path := filepath.Join(folder, name)
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == unix.ELOOP {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("it is a symbolic link; copy the file itself there")}
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("it is not a regular file")}
	case info.Size() > MaxCatalogueFile:
		err = &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("it has %d bytes; at most %d MiB are possible", info.Size(), MaxCatalogueFile>>20)}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// SumOf returns the SHA-256 of a file of the catalogue, in hexadecimal.
func SumOf(f *os.File) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, io.NewSectionReader(f, 0, MaxCatalogueFile))
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

// catalogued returns the URL of a file in the catalogue. It computes the file's digest once, and records a mistake if
// that is not possible.
func (s *site) catalogued(n *yaml.Node, key, name string) string {
	url := step.CatalogueScheme + name
	if s.Catalogue[name] != "" {
		return url
	}
	f, err := OpenCatalogue(s.catalogue, name)
	if err == nil {
		var sum string
		if sum, err = SumOf(f); err == nil {
			s.Catalogue[name] = sum
		}
		f.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		s.Wrong(n, "%s is %s, and there is no such file in the folder %s; copy it there, or write an http or https URL", key, name, s.catalogue)
	} else if err != nil {
		s.Wrong(n, "%s: %v", key, err)
	}
	return url
}

// changedFiles returns the names of the files of both catalogues with different contents.
func changedFiles(a, b *Inventory) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(b.Catalogue)) {
		if was := a.Catalogue[name]; was != "" && was != b.Catalogue[name] {
			list = append(list, name)
		}
	}
	return list
}

// IsDelivered reports whether a URL of Software or Galaxy is that of a file which the site delivers.
func IsDelivered(url string) bool { return strings.HasPrefix(url, step.CatalogueScheme) }
