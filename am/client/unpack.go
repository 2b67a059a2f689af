package client

import (
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
)

// maxRSpec limits an unpacked document, in bytes.
const maxRSpec = 64 << 20

// Unpack returns the text of a compressed document (base64 of a zlib stream, AM API v3,
// geni_compressed). It returns an uncompressed document unchanged, and fails for more than
// 64 MiB of text.
func Unpack(s string) (string, error) { return unpack(s, maxRSpec) }

// unpack does what Unpack does; the unpacked text may have at most limit bytes.
func unpack(s string, limit int64) (string, error) {
	if t := strings.TrimLeft(s, "\ufeff \t\r\n"); t == "" || t[0] == '<' {
		return s, nil
	}
	z, err := zlib.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(s)))
	if err != nil {
		return "", fmt.Errorf("the document is neither XML nor compressed XML: %w", err)
	}
	defer z.Close()
	var text strings.Builder
	if _, err := io.Copy(&text, io.LimitReader(z, limit+1)); err != nil {
		return "", fmt.Errorf("cannot unpack the document: %w", err)
	}
	if int64(text.Len()) > limit {
		return "", fmt.Errorf("the document is larger than %d MiB", limit>>20)
	}
	return text.String(), nil
}
