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

// Add creates an image from the folder or tarball at path. If path is empty, mmdebstrap
// builds the Debian release at the end of name, such as debian-12. Add writes progress lines
// to w, and fails with fs.ErrExist if the name is taken. Sweep removes the unfinished image
// of an interrupted Add.
func (s *Store) Add(ctx context.Context, name, path string, w io.Writer) error {
	if err := checkName(name); err != nil {
		return err
	}
	if name == Host {
		return errors.New(`the name "host" is reserved for the image that is made of this host; choose another name`)
	}
	if _, err := os.Lstat(filepath.Join(s.dir, name)); err == nil {
		return nameTaken(name)
	}
	b, err := s.startBuild(ctx)
	if err != nil {
		return err
	}
	defer b.discard()
	switch {
	case path == "":
		err = b.debian(ctx, name, w)
	default:
		err = b.copyFrom(ctx, path, w)
	}
	if err == nil {
		err = completeRoot(b.root)
	}
	if err != nil {
		return fmt.Errorf("cannot add the image %q: %w", name, err)
	}
	fmt.Fprintln(w, "writing the image to the disk")
	key, err := b.publish(ctx, name, false)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "added the image %s (%s)\n", name, key)
	return nil
}

func (b *build) copyFrom(ctx context.Context, path string, w io.Writer) error {
	i, err := os.Stat(path)
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
		fmt.Fprintf(w, "copying the folder %s\n", path)
		err = out.copyFolder(path, b.store.dir)
	case i.Mode().IsRegular():
		fmt.Fprintf(w, "unpacking %s\n", path)
		err = out.unpackFile(path)
	default:
		return fmt.Errorf("%s is neither a folder nor a tarball", path)
	}
	if err != nil {
		return err
	}
	out.printSummary(w)
	return nil
}

func (w *writer) printSummary(to io.Writer) {
	fmt.Fprintf(to, "%d files, %d MB\n", w.files, w.bytes/1_000_000)
	var left []string
	if n := w.omitted.special; n > 0 {
		left = append(left, fmt.Sprintf("%d devices, sockets or pipes", n))
	}
	if n := w.omitted.mounts; n > 0 {
		left = append(left, fmt.Sprintf("the file systems mounted on %d folders", n))
	}
	if len(left) > 0 {
		fmt.Fprintf(to, "left out: %s\n", strings.Join(left, ", "))
	}
	if n := w.omitted.ids; n > 0 {
		fmt.Fprintf(to, "%d files belonged to users or groups that nodes do not have (above %d); their owner is now the user nobody\n", n, maxID)
	}
}
