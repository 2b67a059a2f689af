package setup

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ulikunitz/xz"
)

type format string

const (
	formatTar  format = "tar"
	formatZip  format = "zip"
	formatFile format = "file"
)

// formatByName returns "" for an unknown type or extension. The compression of a tar archive is
// detected from its content.
func formatByName(text string) format {
	for _, end := range []string{"tar", "tgz", "tbz", "tbz2", "txz", "tar.gz", "tar.bz2", "tar.xz", "tar.gzip", "tar.bzip2"} {
		if text == end || strings.HasSuffix(text, "."+end) {
			return formatTar
		}
	}
	if text == "zip" || strings.HasSuffix(text, ".zip") {
		return formatZip
	}
	return ""
}

// isPackage reports whether a name has the extension of a package format, such as .jar. Such
// files are archives, but are not unpacked.
func isPackage(name string) bool {
	ends := []string{".apk", ".ear", ".egg", ".gem", ".jar", ".ova", ".war", ".whl"}
	return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(name, end) })
}

// detectFormat detects the format of a file by the requested file type, else by the name, else
// by the content. An unknown format is formatFile.
func detectFormat(fileType, name string, f io.ReaderAt) format {
	fileType, name = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(fileType)), "."), strings.ToLower(name)
	if known := formatByName(fileType); known != "" {
		return known
	}
	if known := formatByName(name); known != "" {
		return known
	}
	if isPackage(name) {
		return formatFile
	}
	head := make([]byte, 4)
	n, _ := f.ReadAt(head, 0)
	if bytes.HasPrefix(head[:n], []byte("PK\x03\x04")) || bytes.HasPrefix(head[:n], []byte("PK\x05\x06")) {
		return formatZip
	}
	r, err := decompress(io.NewSectionReader(f, 0, 1<<62))
	if err != nil {
		return formatFile
	}
	const magicAt, magic = 257, "ustar"
	block := make([]byte, 512)
	if _, err := io.ReadFull(r, block); err == nil && string(block[magicAt:magicAt+len(magic)]) == magic {
		return formatTar
	}
	return formatFile
}

// decompress returns the content of a stream in gzip, bzip2 or xz. It returns any other stream unchanged.
func decompress(r io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	head, err := b.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return gzip.NewReader(b)
	case bytes.HasPrefix(head, []byte("BZh")):
		return bzip2.NewReader(b), nil
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		x, err := xz.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("the xz compression cannot be read: %w", err)
		}
		return x, nil
	}
	return b, nil
}
