package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// tarball writes the archive for other Linux distributions. Its programs are linked
// statically, so they need no library of the host.
func tarball(r release) error {
	entries, err := tree(r, "static", false)
	if err != nil {
		return err
	}
	top := strings.TrimSuffix(path.Base(r.file("")), "/")
	for i, e := range entries {
		entries[i].path = path.Join("/", top, strings.TrimPrefix(e.path, "/usr"))
	}
	f, err := os.Create(r.file(".tar.gz"))
	if err != nil {
		return err
	}
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression)
	return cmp.Or(archive(r, z, entries), z.Close(), f.Close())
}

// archive writes entries and their folders as a tar archive, sorted by path. Folders in
// stateFolder belong to the user of the server in the container.
func archive(r release, w io.Writer, entries []entry) error {
	entries = slices.Clone(entries)
	seen := make(map[string]bool)
	for _, e := range entries {
		seen[e.path] = true
	}
	for _, e := range slices.Clone(entries) {
		for dir := path.Dir(e.path); dir != "/" && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			entries = append(entries, entry{dir + "/", nil, 0o755})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	t := tar.NewWriter(w)
	for _, e := range entries {
		h := &tar.Header{Name: e.path[1:], Mode: int64(e.mode), Size: int64(len(e.data)), ModTime: r.date, Format: tar.FormatPAX}
		if strings.HasSuffix(e.path, "/") {
			h.Typeflag = tar.TypeDir
			if strings.HasPrefix(e.path, stateFolder+"/") {
				h.Uid, h.Gid, h.Mode = containerUser, containerUser, 0o700
			}
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(t, bytes.NewReader(e.data)); err != nil {
			return err
		}
	}
	return t.Close()
}
