package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxDepth bounds the descriptors that are open while a folder is copied.
const maxDepth = 200

// folderCopy copies a folder of this host. Another user may change the folder during the
// copy. So folderCopy opens each entry by its name in an open folder, and follows no links.
type folderCopy struct {
	*writer
	device uint64
	skip   unix.Stat_t       // the folder of images, which is not copied
	links  map[uint64]string // path of the first copy of a file with several names, by inode
}

// copyFolder copies the folder dir into the image, except for the folder images. A folder on which another file
// system is mounted is empty in the copy.
func (w *writer) copyFolder(dir, images string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	c := folderCopy{writer: w, links: map[uint64]string{}}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	c.device = st.Dev
	if err := unix.Stat(images, &c.skip); err != nil {
		return err
	}
	if err := c.copyEntries(f, "", 0); err != nil {
		return err
	}
	return w.finish()
}

// copyEntries copies all entries of a folder. path is the folder's path in the image, and depth the number of
// folders above it.
func (c *folderCopy) copyEntries(dir *os.File, path string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("/%s: folders are nested more than %d deep", path, maxDepth)
	}
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		at := name
		if path != "" {
			at = path + "/" + name
		}
		err := c.copyEntry(int(dir.Fd()), name, at, depth)
		if _, hasPath := errors.AsType[*fs.PathError](err); err != nil && !hasPath {
			err = &fs.PathError{Op: "copy", Path: "/" + at, Err: err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyEntry copies the entry name of the folder dir to path in the image. It counts devices, sockets and pipes
// instead of copying them.
func (c *folderCopy) copyEntry(dir int, name, path string, depth int) error {
	if len(path) > maxPath {
		return fmt.Errorf("the path is longer than %d bytes", maxPath)
	}
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil // the entry was removed meanwhile
	}
	if err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return c.copySubfolder(dir, name, path, depth)
	case unix.S_IFREG:
		return c.copyRegular(dir, name, path)
	case unix.S_IFLNK:
		to := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, name, to)
		if err != nil {
			return err
		}
		return c.symlink(path, metaOf(&st), string(to[:n]))
	}
	c.omitted.special++
	return nil
}

// metaOf leaves out extended attributes.
func metaOf(st *unix.Stat_t) meta {
	return meta{
		mode:  st.Mode & 0o7777,
		uid:   int64(st.Uid),
		gid:   int64(st.Gid),
		mtime: time.Unix(st.Mtim.Unix()),
	}
}

// openEntry opens an entry of the folder dir, and returns its metadata, too.
func (c *folderCopy) openEntry(dir int, name string, flags int) (*os.File, meta, *unix.Stat_t, error) {
	fd, err := unix.Openat(dir, name, flags|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, meta{}, nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		f.Close()
		return nil, meta{}, nil, err
	}
	m := metaOf(&st)
	if m.attrs, err = readAttributes(fd); err != nil {
		f.Close()
		return nil, meta{}, nil, fmt.Errorf("cannot read its extended attributes: %w", err)
	}
	return f, m, &st, nil
}

// copySubfolder copies a folder with its entries. The copy is empty if another file system is mounted on the
// folder. It does not copy the folder of images.
func (c *folderCopy) copySubfolder(dir int, name, path string, depth int) error {
	f, m, st, err := c.openEntry(dir, name, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer f.Close()
	if st.Dev == c.skip.Dev && st.Ino == c.skip.Ino {
		return nil
	}
	if err := c.makeFolder(path, m); err != nil {
		return err
	}
	if st.Dev != c.device {
		c.omitted.mounts++
		return nil
	}
	return c.copyEntries(f, path, depth+1)
}

// copyRegular copies a regular file. It creates a hard link if another name of the same file was copied before.
func (c *folderCopy) copyRegular(dir int, name, path string) error {
	f, m, st, err := c.openEntry(dir, name, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("it changed while it was copied; try again")
	}
	if st.Dev != c.device {
		c.omitted.mounts++
		return c.writeFile(path, m, emptyReader{})
	}
	if st.Nlink > 1 {
		if first, ok := c.links[st.Ino]; ok {
			return c.hardLink(path, first)
		}
		c.links[st.Ino] = path
	}
	return c.writeFile(path, m, f)
}
