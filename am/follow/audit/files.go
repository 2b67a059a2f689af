package audit

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Files returns the audit file at path and the files that it was moved to, such as
// path.1 or path-20261120.gz, oldest first by their first lines. It skips files without
// a line of an audit, and files that are not regular. A missing file is not an error.
func Files(path string) ([]string, error) {
	dir, base := filepath.Split(path)
	all, err := os.ReadDir(filepath.Clean(dir + "."))
	if err != nil {
		return nil, fmt.Errorf("cannot list the files of the audit: %w", err)
	}
	var files []string
	for _, e := range all {
		rest, ok := strings.CutPrefix(e.Name(), base)
		if !ok || rest != "" && rest[0] != '.' && rest[0] != '-' {
			continue
		}
		if info, err := os.Stat(dir + e.Name()); err == nil && !info.Mode().IsRegular() {
			continue
		}
		files = append(files, dir+e.Name())
	}
	return InOrder(files)
}

// Since returns the time of the first line in files, which must be ordered by InOrder. It
// returns zero if there is no line.
func Since(files []string) (from time.Time, err error) {
	if len(files) == 0 {
		return from, nil
	}
	err = readLines(files[0], func(text []byte) bool {
		if at, _, ok := peek(text); ok {
			from, _ = time.Parse(timeLayout, at)
		}
		return from.IsZero()
	})
	return from, err
}

// InOrder returns the files sorted by the times of their first lines, oldest first, without
// files that have no line of an audit. Its error names a file that cannot be read.
func InOrder(files []string) ([]string, error) {
	type aged struct {
		file string
		from time.Time
	}
	var list []aged
	for _, f := range files {
		from, err := Since([]string{f})
		if err != nil {
			return nil, err
		}
		if !from.IsZero() {
			list = append(list, aged{f, from})
		}
	}
	slices.Reverse(list) // of two that begin at the same moment, x.1 comes before x
	slices.SortStableFunc(list, func(a, b aged) int { return a.from.Compare(b.from) })
	files = make([]string, len(list))
	for i, x := range list {
		files[i] = x.file
	}
	return files, nil
}

// open opens a file for reading, whether it is compressed by gzip or not. It does not
// block on a pipe.
func open(file string) (io.ReadCloser, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%s is not a regular file", file)
	}
	b := bufio.NewReader(f)
	switch magic, _ := b.Peek(6); {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("%s cannot be unpacked: %w", file, err)
		}
		return fileReader{z, f}, nil
	case bytes.HasPrefix(magic, []byte("\xfd7zXZ\x00")), bytes.HasPrefix(magic, []byte("BZh")), bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		f.Close()
		return nil, fmt.Errorf("%s is compressed by another program than gzip; unpack it and name the file", file)
	}
	return fileReader{b, f}, nil
}

type fileReader struct {
	io.Reader
	io.Closer
}

// readLines calls f with each line of a file until f returns false. The last line may
// be incomplete: it is being written, or was cut off.
func readLines(file string, f func([]byte) bool) error {
	r, err := open(file)
	if err != nil {
		return err
	}
	defer r.Close()
	b := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := b.ReadBytes('\n')
		switch {
		case err == nil && !f(line[:len(line)-1]):
			return nil
		case errors.Is(err, io.EOF):
			f(line)
			return nil
		case err != nil:
			return fmt.Errorf("cannot read %s: %w", file, err)
		}
	}
}
