package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, io.EOF }

// compressions are the known compressions of tarballs. A file has a compression if it
// begins with magic; the file's name is ignored. open decompresses the file. If open is nil,
// the program decompresses it; pack is the Debian package of the program.
var compressions = [...]struct {
	magic, program, pack string
	open                 func(io.Reader) (io.Reader, error)
}{
	{magic: "\x1f\x8b", open: func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{magic: "BZh", open: func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
	{magic: "\xfd7zXZ\x00", program: "xz", pack: "xz-utils"},
	{magic: "\x28\xb5\x2f\xfd", program: "zstd", pack: "zstd"},
}

// unpackFile unpacks the tarball at path, which may be compressed.
func (w *writer) unpackFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 6)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for _, c := range compressions {
		if !bytes.HasPrefix(head[:n], []byte(c.magic)) {
			continue
		}
		if c.open == nil {
			return w.unpackThrough(f, c.program, c.pack)
		}
		r, err := c.open(bufio.NewReaderSize(f, 64<<10))
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", path, err)
		}
		return w.unpack(r)
	}
	return w.unpack(bufio.NewReaderSize(f, 64<<10))
}

// unpackThrough unpacks the file f, which the program decompresses. The program runs as the user nobody,
// because the file is not trusted. pack is the Debian package of the program.
func (w *writer) unpackThrough(f *os.File, program, pack string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		return fmt.Errorf("the program %s, which this tarball needs, is not installed; install it: apt install %s", program, pack)
	}
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	cmd := exec.CommandContext(ctx, path, "-dc")
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"}
	cmd.Dir = "/"
	cmd.Stdin = f
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return unpackOutput(w.ctx, cmd, stop, program+" cannot decompress it", io.Discard, w.unpack)
}

// unpackOutput runs cmd, and calls unpack with its output. It copies the standard error to progress. If
// unpack refuses a member, unpackOutput calls stop, which must end the program, and returns the error of
// unpack. If the program fails, the error consists of the text failure and the program's messages.
func unpackOutput(ctx context.Context, cmd *exec.Cmd, stop func(), failure string, progress io.Writer, unpack func(io.Reader) error) error {
	messages := &tail{}
	cmd.Stderr = io.MultiWriter(messages, progress)
	r, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot run %s: %w", filepath.Base(cmd.Path), err)
	}
	err = unpack(r)
	cut := errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !cut {
		stop()
	}
	ended := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case ended != nil && (err == nil || cut):
		return fmt.Errorf("%s (%v): %s", failure, ended, messages)
	}
	return err
}

// unpack reads the tar stream to its end. It fails if the stream is longer than maxStream.
func (w *writer) unpack(r io.Reader) error {
	limited := &io.LimitedReader{R: r, N: w.maxStream + 1}
	err := w.unpackStream(&trailingZeros{r: limited})
	if limited.N == 0 {
		return fmt.Errorf("the tarball is longer than %d bytes", w.maxStream)
	}
	return err
}

// unpackStream writes all members of a tarball into the image. It fails if the stream is empty, damaged or has
// no end mark.
func (w *writer) unpackStream(stream *trailingZeros) error {
	t := tar.NewReader(stream)
	members := 0
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			if members == 0 {
				return fmt.Errorf("it is not a tarball (tar, or compressed by gzip, bzip2, xz or zstd): %w", err)
			}
			return fmt.Errorf("the tarball is damaged after %d members: %w", members, err)
		}
		members++
		if err := w.tarMember(h, t); err != nil {
			return fmt.Errorf("member %.200q: %w", h.Name, err)
		}
	}
	if members == 0 {
		return fmt.Errorf("the tarball is empty: %w", io.ErrUnexpectedEOF)
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, stream, w.buf); err != nil {
		return err
	}
	if stream.zeros < 512 {
		return fmt.Errorf("the tarball ends after %d members: it has no end mark: %w", members, io.ErrUnexpectedEOF)
	}
	return w.finish()
}

// trailingZeros counts the zeros at the end of a stream.
type trailingZeros struct {
	r     io.Reader
	zeros int64
}

// Read reads from the stream, and updates the count.
func (e *trailingZeros) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	i := n
	for i > 0 && p[i-1] == 0 {
		i--
	}
	if i > 0 {
		e.zeros = 0
	}
	e.zeros += int64(n - i)
	return n, err
}

// tarMember writes a member of a tarball into the image. It counts devices and pipes instead of writing them.
func (w *writer) tarMember(h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return w.countFile()
	}
	path, err := cleanPath(h.Name)
	if err != nil {
		return fmt.Errorf("its name cannot be used: %w", err)
	}
	if path == "" && h.Typeflag != tar.TypeDir {
		return errors.New("only a folder can be the root")
	}
	m := meta{mode: uint32(h.Mode) & 0o7777, uid: int64(h.Uid), gid: int64(h.Gid), mtime: h.ModTime}
	switch h.Typeflag {
	case tar.TypeDir:
		m.attrs = memberAttributes(h)
		return w.makeFolder(path, m)
	case tar.TypeReg, '\x00', tar.TypeGNUSparse, tar.TypeCont:
		m.attrs = memberAttributes(h)
		return w.writeFile(path, m, r)
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) >= unix.PathMax || strings.IndexByte(h.Linkname, 0) >= 0 {
			return errors.New("the target of the symbolic link cannot be used: it is empty, too long, or contains a zero byte")
		}
		return w.symlink(path, m, h.Linkname)
	case tar.TypeLink:
		first, err := cleanPath(h.Linkname)
		if err != nil {
			return fmt.Errorf("the target of the hard link, %.200q, cannot be used: %w", h.Linkname, err)
		}
		return w.hardLink(path, first)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		w.omitted.special++
		return w.countFile()
	}
	return fmt.Errorf("its type %q is unknown", h.Typeflag)
}

// memberAttributes returns the extended attributes that the image keeps of a member.
func memberAttributes(h *tar.Header) []attribute {
	var attrs []attribute
	total := 0
	for k, v := range h.PAXRecords {
		name, ok := strings.CutPrefix(k, "SCHILY.xattr.")
		a := attribute{name, v}
		// Tarballs store ACLs as text, under other names.
		if !ok || !isKept(a) || strings.HasPrefix(name, "system.") {
			continue
		}
		if total += len(name) + len(v); total > maxAttributes {
			break
		}
		attrs = append(attrs, a)
	}
	return attrs
}

type tail struct{ b []byte }

// Write keeps the last 2000 bytes.
func (t *tail) Write(p []byte) (int, error) {
	const size = 2000
	t.b = append(t.b, p...)
	if len(t.b) > size {
		t.b = append(t.b[:0], t.b[len(t.b)-size:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.TrimSpace(strings.ToValidUTF8(string(t.b), "?")) }
