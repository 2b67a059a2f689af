package image

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// hashTree returns the hash of everything that a node can see of a tree, except times: names,
// types, modes, owners, extended attributes, contents, and hard links.
func hashTree(ctx context.Context, root string) (string, error) {
	h := treeHash{sum: sha256.New(), buf: make([]byte, 128<<10), links: map[uint64]string{}}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return h.add(path, rel)
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(h.sum.Sum(nil))[:hashDigits], nil
}

type treeHash struct {
	sum   hash.Hash
	buf   []byte
	links map[uint64]string // first name, by inode
}

// addText hashes the length before the text, so that different lists of texts never give
// the same input to the hash.
func (h *treeHash) addText(s string) {
	h.addNumber(uint64(len(s)))
	io.WriteString(h.sum, s)
}

func (h *treeHash) addNumber(n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	h.sum.Write(b[:])
}

// add adds a file to the hash: its name, mode, owner, attributes and content. The content of each inode is
// added once. rel is the file's path relative to the tree's root.
func (h *treeHash) add(path, rel string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	h.addText(rel)
	h.addNumber(uint64(st.Mode))
	h.addNumber(uint64(st.Uid))
	h.addNumber(uint64(st.Gid))
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		to, err := os.Readlink(path)
		h.addText(to)
		return err
	case unix.S_IFREG:
		first, seen := h.links[st.Ino]
		h.addText(first) // the inode's first name, or empty if rel is the first
		if seen {
			return nil
		}
		if st.Nlink > 1 {
			h.links[st.Ino] = rel
		}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	attrs, err := readAttributes(int(f.Fd()))
	if err != nil {
		return &fs.PathError{Op: "read attributes of", Path: path, Err: err}
	}
	h.addNumber(uint64(len(attrs)))
	for _, a := range attrs {
		h.addText(a.name)
		h.addText(a.value)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	h.addNumber(uint64(st.Size))
	_, err = io.CopyBuffer(struct{ io.Writer }{h.sum}, struct{ io.Reader }{f}, h.buf)
	return err
}
