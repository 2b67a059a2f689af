package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Add makes an image of a folder or a tarball (from), or, when from is empty, of
// the Debian release that name ends in (debian-12), by mmdebstrap. Progress is
// written to w, line by line. A name that is taken is fs.ErrExist. What an
// interrupted Add left goes with the next Sweep.
func (s *Store) Add(ctx context.Context, name, from string, w io.Writer) error {
	if err := checkName(name); err != nil {
		return err
	}
	if name == Host {
		return errors.New(`the image "host" is made of this host; choose another name`)
	}
	if _, err := os.Lstat(filepath.Join(s.dir, name)); err == nil {
		return taken(name)
	}
	b, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer b.end()
	switch {
	case from == "":
		err = b.debian(ctx, name, w)
	default:
		err = b.copied(ctx, from, w)
	}
	if err == nil {
		err = complete(b.root)
	}
	if err != nil {
		return fmt.Errorf("cannot add the image %q: %w", name, err)
	}
	fmt.Fprintln(w, "writing it to the disk")
	key, err := b.publish(ctx, name, false)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "added the image %s (%s)\n", name, key)
	return nil
}

// copied copies a folder or unpacks a tarball.
func (b *build) copied(ctx context.Context, from string, w io.Writer) error {
	i, err := os.Stat(from)
	if err != nil {
		return err
	}
	out, err := newWriter(ctx, b.root)
	if err != nil {
		return err
	}
	defer out.close()
	switch {
	case i.IsDir():
		fmt.Fprintf(w, "copying the folder %s\n", from)
		err = out.copyFolder(from, b.store.dir)
	case i.Mode().IsRegular():
		fmt.Fprintf(w, "unpacking %s\n", from)
		err = out.unpackFile(from)
	default:
		return fmt.Errorf("%s is neither a folder nor a tarball", from)
	}
	if err != nil {
		return err
	}
	out.tell(w)
	return nil
}

// tell says what was written, and what was not as it came.
func (w *writer) tell(to io.Writer) {
	fmt.Fprintf(to, "%d files, %d MB\n", w.files, w.bytes/1_000_000)
	var left []string
	if n := w.left.special; n > 0 {
		left = append(left, fmt.Sprintf("%d devices, sockets or pipes", n))
	}
	if n := w.left.mounts; n > 0 {
		left = append(left, fmt.Sprintf("what is mounted on %d folders", n))
	}
	if len(left) > 0 {
		fmt.Fprintf(to, "left out: %s\n", strings.Join(left, ", "))
	}
	if n := w.left.ids; n > 0 {
		fmt.Fprintf(to, "%d files belonged to users or groups that nodes do not have (above %d); they belong to nobody now\n", n, maxID)
	}
}
