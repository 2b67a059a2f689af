package setup

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
)

var when = time.Unix(1_234_567_890, 0)

// packArchive returns an archive of entries.
func packArchive(t testing.TB, as format, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	if as == formatZip {
		w := zip.NewWriter(&b)
		for _, e := range entries {
			addToZip(t, w, e)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: int64(e.mode.Perm()), ModTime: when, Linkname: e.target, Uid: 12345, Gid: 12345, Format: tar.FormatPAX}
		h.Typeflag = map[kind]byte{kindFile: tar.TypeReg, kindFolder: tar.TypeDir, kindLink: tar.TypeSymlink, kindHardLink: tar.TypeLink, 0: byte(e.size)}[e.kind]
		if e.mode&fs.ModeSetuid != 0 {
			h.Mode |= 0o6000
		}
		if e.mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		var text []byte
		if e.kind == kindFile {
			text = content(e)
			h.Size = int64(len(text))
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func content(e entry) []byte {
	if e.size > 0 {
		return bytes.Repeat([]byte("x"), int(e.size))
	}
	return []byte("in " + e.name)
}

func addToZip(t testing.TB, w *zip.Writer, e entry) {
	t.Helper()
	h := &zip.FileHeader{Name: e.name, Modified: when, Method: zip.Deflate}
	mode := e.mode
	text := content(e)
	switch e.kind {
	case kindFolder:
		h.Name, text, mode = strings.TrimSuffix(e.name, "/")+"/", nil, mode|fs.ModeDir
	case kindLink:
		text, mode = []byte(e.target), mode|fs.ModeSymlink
	}
	h.SetMode(mode)
	f, err := w.CreateHeader(h)
	if err == nil && text != nil {
		_, err = f.Write(text)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func runFilter(t testing.TB, tool string, b []byte) []byte {
	t.Helper()
	c := exec.Command(require.Tool(t, tool), "-c")
	c.Stdin = bytes.NewReader(b)
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func newFile(t testing.TB, b []byte) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "archive")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	return f
}

// unpackInto unpacks an archive into a new folder.
func unpackInto(t testing.TB, dir string, b []byte, as format) error {
	t.Helper()
	p, err := openPlace(dir, root, nil)
	if err != nil {
		return err
	}
	defer p.Close()
	_, err = unpack(t.Context(), newFile(t, b), as, p, func(string) {})
	return err
}

// unpackOwned unpacks an archive with its owners into a new folder.
func unpackOwned(t testing.TB, dir string, b []byte, as format, o *owners) error {
	t.Helper()
	f := newFile(t, b)
	room, err := freeSpaceAt(dir)
	if err != nil {
		return err
	}
	sc, err := scanArchive(t.Context(), f, as, dir, room, o)
	if err != nil {
		return err
	}
	p, err := openPlace(dir, root, o)
	if err != nil {
		return err
	}
	defer p.Close()
	_, err = unpackScanned(t.Context(), f, as, p, sc, func(string) {})
	return err
}

// listTree lists the content of a folder, one line for each file.
func listTree(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		st, err := os.Lstat(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		fmt.Fprintf(&b, "%v %s", st.Mode(), name)
		switch {
		case st.Mode().IsRegular():
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %.40q", text)
		case st.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			b.WriteString(" -> " + target)
		}
		if st.ModTime().Equal(when) {
			b.WriteString(" kept")
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var tool = []entry{
	{kind: kindFolder, name: "./", mode: 0o700},
	{kind: kindFolder, name: "tool", mode: 0o555},
	{kind: kindFile, name: "./tool/run", mode: 0o755},
	{kind: kindFile, name: "tool/deep/down/text", mode: 0o640},
	{kind: kindLink, name: "tool/latest", target: "deep/down"},
	{kind: kindLink, name: "tool/deep/up", target: "../run"},
	{kind: kindFile, name: "tool/su", mode: 0o755 | fs.ModeSetuid},
	{kind: kindFolder, name: "empty", mode: 0o777 | fs.ModeSticky},
}

const toolTree = `dtrwxrwxrwx empty kept
dr-xr-xr-x tool kept
drwxr-xr-x tool/deep
drwxr-xr-x tool/deep/down
-rw-r----- tool/deep/down/text "in tool/deep/down/text" kept
Lrwxrwxrwx tool/deep/up -> ../run kept
Lrwxrwxrwx tool/latest -> deep/down kept
-rwxr-xr-x tool/run "in ./tool/run" kept
-rwxr-xr-x tool/su "in tool/su" kept
`

func TestUnpack(t *testing.T) {
	require.Root(t) // some of the files are read-only
	plain := packArchive(t, formatTar, tool...)
	for _, tt := range []struct {
		kind string
		as   format
		make func() []byte
	}{
		{"tar", formatTar, func() []byte { return plain }},
		{"tar.gz", formatTar, func() []byte { return gzipped(t, plain) }},
		{"tar.gz of two parts", formatTar, func() []byte { return append(gzipped(t, plain[:700]), gzipped(t, plain[700:])...) }},
		{"tar.gz with something behind it", formatTar, func() []byte { return append(gzipped(t, plain), "a signature of the archive"...) }},
		{"tar.bz2", formatTar, func() []byte { return runFilter(t, "bzip2", plain) }},
		{"tar.xz", formatTar, func() []byte { return runFilter(t, "xz", plain) }},
		{"zip", formatZip, func() []byte { return packArchive(t, formatZip, tool...) }},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			archive := tt.make()
			dir := filepath.Join(t.TempDir(), "a", "b")
			t.Cleanup(func() { os.Chmod(filepath.Join(dir, "tool"), 0o755) })
			for _, want := range []string{toolTree, strings.Replace(toolTree, "tool kept", "tool", 1)} { // the second time, files are replaced
				if err := unpackInto(t, dir, archive, tt.as); err != nil {
					t.Fatal(err)
				}
				if got := listTree(t, dir); got != want {
					t.Errorf("there is\n%swant\n%s", got, want)
				}
				if got := detectFormat("", "download", newFile(t, archive)); got != tt.as {
					t.Errorf("it seems to be %s", got)
				}
			}
		})
	}
}

func TestUnpackHardLinks(t *testing.T) {
	dir := t.TempDir()
	err := unpackInto(t, dir, packArchive(t, formatTar,
		entry{kind: kindFile, name: "a/first", mode: 0o600},
		entry{kind: kindHardLink, name: "b/second", target: "a/first"},
		entry{kind: kindHardLink, name: "third", target: "./b/second"},
	), formatTar)
	if err != nil {
		t.Fatal(err)
	}
	var st [3]unix.Stat_t
	for i, name := range []string{"a/first", "b/second", "third"} {
		if err := unix.Lstat(filepath.Join(dir, name), &st[i]); err != nil {
			t.Fatal(err)
		}
	}
	if st[0].Ino != st[1].Ino || st[1].Ino != st[2].Ino {
		t.Error("they are several files")
	}
}

// Each archive is refused and leaves nothing; a similar valid one is unpacked.
func TestHostileArchives(t *testing.T) {
	file := func(name string) entry { return entry{kind: kindFile, name: name, mode: 0o644} }
	folder := func(name string) entry { return entry{kind: kindFolder, name: name, mode: 0o755} }
	link := func(name, target string) entry { return entry{kind: kindLink, name: name, target: target} }
	same := func(name, target string) entry { return entry{kind: kindHardLink, name: name, target: target} }
	other := func(name string, flag byte) entry { return entry{name: name, size: int64(flag)} }
	type row struct {
		rule      string
		bad, good []entry
		err       string
	}
	rows := []row{
		{"an absolute name", []entry{file("a"), file("/tmp/x")}, []entry{file("a"), file("tmp/x")}, "absolute name"},
		{"a way up", []entry{file("a"), file("../x")}, []entry{file("a"), file("..x")}, "has .. in its name"},
		{"a way up in the middle", []entry{file("a/b/../../../x")}, []entry{file("a/b/.../x")}, "has .. in its name"},
		{"the place itself", []entry{file(".")}, []entry{folder("."), file("a")}, "the folder itself"},
		{"a part too long", []entry{file(strings.Repeat("x", 256))}, []entry{file(strings.Repeat("x", 255))}, "more than 255"},
		{"a link to an absolute name", []entry{link("l", "/etc/passwd")}, []entry{link("l", "etc/passwd")}, "is outside of"},
		{"a link up", []entry{link("l", "../x")}, []entry{link("a/l", "../x")}, "leads outside"},
		{"a link up behind another name", []entry{link("d", "."), link("l", "d/..")}, []entry{link("d", "."), link("l", "d/x")}, "leads outside"},
		{"a link to nothing", []entry{link("l", "")}, []entry{link("l", ".")}, "empty"},
		{"through a link of its own", []entry{link("l", "a"), file("l/x")}, []entry{link("l", "a"), file("a/x")}, "which is not a folder"},
		{"through a link that was a folder", []entry{folder("l"), link("l", ".."), file("l/x")}, []entry{folder("l"), file("l/x")}, "twice"},
		{"a folder in place of a link", []entry{link("l", "a"), folder("l"), file("l/x")}, []entry{link("l", "a"), link("l", "b")}, "twice"},
		{"below a file", []entry{file("a"), file("a/b")}, []entry{file("a"), file("a.b")}, "which is not a folder"},
	}
	onlyTar := []row{
		{"a second name outside", []entry{same("h", "/etc/passwd")}, []entry{file("f"), same("h", "f")}, "leads outside"},
		{"a second name of what is not there", []entry{same("h", "f"), file("f")}, []entry{file("f"), same("h", "f")}, "not an earlier file"},
		{"a second name of a link", []entry{file("a"), link("l", "a"), same("h", "l")}, []entry{file("a"), link("l", "a"), same("h", "a")}, "not an earlier file"},
		{"a second name of a folder", []entry{folder("d"), same("h", "d")}, []entry{folder("d"), file("d/f"), same("h", "d/f")}, "not an earlier file"},
		{"a device", []entry{file("a"), other("null", tar.TypeChar)}, []entry{file("a"), file("null")}, "another type"},
		{"a pipe", []entry{file("a"), other("p", tar.TypeFifo)}, []entry{file("a"), file("p")}, "another type"},
		{"an unknown type", []entry{file("a"), other("v", 'V')}, []entry{file("a"), file("v")}, "another type"},
	}
	try := func(as format, r row) {
		t.Run(string(as)+", "+r.rule, func(t *testing.T) {
			dir := t.TempDir()
			err := unpackInto(t, dir, packArchive(t, as, r.bad...), as)
			if err == nil || !strings.Contains(err.Error(), r.err) {
				t.Errorf("%v, want %q", err, r.err)
			}
			if got := listTree(t, dir); got != "" {
				t.Errorf("it leaves\n%s", got)
			}
			if err := unpackInto(t, dir, packArchive(t, as, r.good...), as); err != nil {
				t.Errorf("its neighbour: %v", err)
			} else if listTree(t, dir) == "" {
				t.Error("its neighbour leaves nothing")
			}
		})
	}
	for _, r := range rows {
		try(formatTar, r)
		try(formatZip, r)
	}
	for _, r := range onlyTar {
		try(formatTar, r)
	}
}

// Broken archives leave nothing.
func TestBrokenArchives(t *testing.T) {
	file := entry{kind: kindFile, name: "a", mode: 0o644, size: 5000}
	plain, zipped := packArchive(t, formatTar, file, file, file), packArchive(t, formatZip, file, entry{kind: kindFile, name: "b", mode: 0o644})
	spoilt := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 0xff
		return b
	}
	lie := func() []byte { // the size of the second file is given as a petabyte
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		w.WriteHeader(&tar.Header{Name: "a", Mode: 0o644, Size: 3})
		w.Write([]byte("abc"))
		w.WriteHeader(&tar.Header{Name: "b", Mode: 0o644, Size: 1 << 50, Format: tar.FormatPAX})
		return b.Bytes()
	}
	z := gzipped(t, plain)
	for _, tt := range []struct {
		rule string
		b    []byte
		as   format
		err  string
	}{
		{"a tar that is cut", plain[:7000], formatTar, "unexpected EOF"},
		{"a tar.gz that is cut", z[:len(z)-5], formatTar, "unexpected EOF"},
		{"a tar.gz with a wrong sum", spoilt(z, len(z)-6), formatTar, "checksum"},
		{"a tar with a wrong head", spoilt(plain, 100), formatTar, "cannot be read"},
		{"more than the disk", lie(), formatTar, "does not fit"},
		{"a zip with a wrong sum", spoilt(zipped, 40), formatZip, "cannot be read"},
		{"a zip that is cut", zipped[:len(zipped)-1], formatZip, "cannot be read"},
		{"no tar", []byte(strings.Repeat("nothing", 1000)), formatTar, "cannot be read as a tar"},
		{"no zip", []byte(strings.Repeat("nothing", 1000)), formatZip, "cannot be read as a zip"},
		{"no xz", []byte("\xfd7zXZ\x00 nothing of this kind"), formatTar, "cannot be read as a tar"},
		{"no bzip2", []byte("BZh9 nothing of this kind"), formatTar, "cannot be read as a tar"},
	} {
		dir := t.TempDir()
		if err := unpackInto(t, dir, tt.b, tt.as); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", tt.rule, err, tt.err)
		}
		if got := listTree(t, dir); got != "" {
			t.Errorf("%s leaves\n%s", tt.rule, got)
		}
	}
}

// Existing links and folders are neither followed nor replaced.
func TestUnpackOverExistingFiles(t *testing.T) {
	outside := t.TempDir()
	for _, tt := range []struct {
		rule  string
		there func(dir string) error
		err   string
	}{
		{"a link where a folder is to be", func(dir string) error { return os.Symlink(outside, filepath.Join(dir, "tool")) }, "links are not followed"},
		{"a link further down", func(dir string) error {
			return os.Symlink(outside, filepath.Join(dir, "deep"))
		}, "links are not followed"},
		{"a file where a folder is to be", func(dir string) error { return os.WriteFile(filepath.Join(dir, "tool"), nil, 0o600) }, "an existing file"},
		{"a folder where a file is to be", func(dir string) error { return os.Mkdir(filepath.Join(dir, "run"), 0o700) }, "is a directory"},
		{"a link where a file is to be", func(dir string) error { return os.Symlink(filepath.Join(outside, "x"), filepath.Join(dir, "run")) }, ""},
		{"a file where a file is to be", func(dir string) error { return os.WriteFile(filepath.Join(dir, "run"), []byte("old"), 0o600) }, ""},
		{"a folder where a folder is to be", func(dir string) error { return os.Mkdir(filepath.Join(dir, "tool"), 0o711) }, ""},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			dir := t.TempDir()
			if err := tt.there(dir); err != nil {
				t.Fatal(err)
			}
			err := unpackInto(t, dir, packArchive(t, formatTar, entry{kind: kindFolder, name: "tool", mode: 0o755},
				entry{kind: kindFile, name: "tool/x", mode: 0o644}, entry{kind: kindFile, name: "deep/down/x", mode: 0o644}, entry{kind: kindFile, name: "run", mode: 0o755}), formatTar)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v, want %q", err, tt.err)
			}
			after := listTree(t, dir)
			if tt.err == "" && !strings.Contains(after, `-rwxr-xr-x run "in run" kept`) {
				t.Errorf("there is\n%s", after)
			}
			if strings.HasPrefix(tt.rule, "a folder where a folder") && !strings.Contains(after, "drwx--x--x tool") {
				t.Errorf("a folder that was there has another mode\n%s", after)
			}
			if got := listTree(t, outside); got != "" {
				t.Errorf("outside there is\n%s", got)
			}
		})
	}
}

func TestUnpackHasATimeLimit(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := openPlace(t.TempDir(), root, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for as, b := range map[format][]byte{formatTar: packArchive(t, formatTar, tool...), formatZip: packArchive(t, formatZip, tool...)} {
		if _, err := unpack(ctx, newFile(t, b), as, p, func(string) {}); err == nil || !strings.Contains(err.Error(), "not unpacked within") {
			t.Errorf("%s: %v", as, err)
		}
	}
}

func TestFormats(t *testing.T) {
	plain := packArchive(t, formatTar, tool...)
	zipped := packArchive(t, formatZip, tool...)
	for _, tt := range []struct {
		fileType, name string
		content        []byte
		want           format
	}{
		{"tar.gz", "x", nil, formatTar},
		{"TGZ", "x", nil, formatTar},
		{"zip", "x.tar", plain, formatZip},
		{"", "x.tar.xz", nil, formatTar},
		{"", "x.zip", plain, formatZip},
		{"", "x.jar", zipped, formatFile},
		{"tar", "x.gem", plain, formatTar},
		{"", "main", zipped, formatZip},
		{"", "main", plain, formatTar},
		{"", "v1.0", gzipped(t, plain), formatTar},
		{"", "x.gz", gzipped(t, []byte("no archive")), formatFile},
		{"", "run.sh", []byte("#!/bin/sh\n"), formatFile},
		{"", "x", []byte("\xfd7zXZ\x00"), formatFile},
	} {
		if got := detectFormat(tt.fileType, tt.name, newFile(t, tt.content)); got != tt.want {
			t.Errorf("type %q, name %q: %s, want %s", tt.fileType, tt.name, got, tt.want)
		}
	}
}

// No archive can write anything outside of the target folder.
func FuzzArchive(f *testing.F) {
	for _, as := range []format{formatTar, formatZip} {
		f.Add(packArchive(f, as, tool...), as == formatZip)
		f.Add(packArchive(f, as, entry{kind: kindFile, name: "../x", mode: 0o644}, entry{kind: kindLink, name: "l", target: "../.."}, entry{kind: kindFile, name: "l/x", mode: 0o644}), as == formatZip)
	}
	f.Fuzz(func(t *testing.T, b []byte, zipped bool) {
		if len(b) > 1<<16 {
			return
		}
		as := formatTar
		if zipped {
			as = formatZip
		}
		dir := t.TempDir()
		place := filepath.Join(dir, "place")
		if os.Geteuid() == 0 {
			o, err := newOwners(account1001("db", "db"), "/root")
			if err != nil {
				t.Fatal(err)
			}
			_ = unpackOwned(t, place, b, as, o)
		}
		_ = unpackInto(t, place, b, as)
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Fatalf("there is more than the place: %v", entries)
		}
		_ = filepath.WalkDir(place, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			os.Chmod(path, 0o700) // so that it can be removed
			target, err := os.Readlink(path)
			if err != nil {
				return nil
			}
			if err := checkTarget(strings.TrimPrefix(path, place+"/"), target, place); err != nil {
				t.Errorf("%v", err)
			}
			return nil
		})
	})
}
