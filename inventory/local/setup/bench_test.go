package setup

import (
	"bytes"
	"path/filepath"
	"testing"
)

// BenchmarkUnpack unpacks 16 MB in 64 files.
func BenchmarkUnpack(b *testing.B) {
	var entries []entry
	for i := range 64 {
		entries = append(entries, entry{kind: kindFile, name: filepath.Join("d", string(rune('A'+i))), mode: 0o644, size: 256 << 10})
	}
	plain := packed(b, formatTar, entries...)
	for _, c := range []struct {
		name    string
		archive []byte
		as      format
	}{
		{"tar", plain, formatTar}, {"tar.gz", gzipped(b, plain), formatTar}, {"tar.bz2", filtered(b, "bzip2", plain), formatTar},
		{"tar.xz", filtered(b, "xz", plain), formatTar}, {"zip", packed(b, formatZip, entries...), formatZip},
	} {
		b.Run(c.name, func(b *testing.B) {
			dir := b.TempDir()
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				if err := unpackedInto(b, dir, bytes.Clone(c.archive), c.as); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
