package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
)

// capability is that of ping: cap_net_raw, effective and permitted.
const capability = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// fileState returns everything of a file that images keep.
func fileState(t testing.TB, path string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err.Error()
	}
	s := fmt.Sprintf("%o %d:%d %d", st.Mode, st.Uid, st.Gid, st.Mtim.Sec)
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		to, _ := os.Readlink(path)
		return s + " -> " + to
	}
	var value [100]byte
	for _, name := range []string{"security.capability", "user.kept", "user.overlay.redirect", "trusted.overlay.opaque"} {
		if n, err := unix.Lgetxattr(path, name, value[:]); err == nil {
			s += fmt.Sprintf(" %s=%q", name, value[:n])
		}
	}
	return s
}

func addImage(t testing.TB, s *Store, from string) (root, said string) {
	t.Helper()
	var b bytes.Buffer
	if err := s.Add(t.Context(), "tiny", from, &b); err != nil {
		t.Fatal(err)
	}
	_, i, err := s.Find(t.Context(), "tiny")
	if err != nil {
		t.Fatal(err)
	}
	return i.Root, b.String()
}

// newFullFolder creates a folder with all kinds of files that images keep or leave out.
func newFullFolder(t testing.TB) string {
	t.Helper()
	dir := newSmallFolder(t, map[string]string{"bin/ping": "ping", "bin/su": "su", "d/deep/file": "x", "etc/shadow": "root:*"})
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	must(
		unix.Setxattr(dir+"/bin/ping", "security.capability", []byte(capability), 0),
		unix.Setxattr(dir+"/bin/ping", "user.kept", []byte("1"), 0),
		unix.Setxattr(dir+"/bin/su", "trusted.overlay.opaque", []byte("y"), 0),
		unix.Setxattr(dir+"/d", "user.overlay.redirect", []byte("/etc"), 0),
		os.Chown(dir+"/bin/su", 0, 50), unix.Chmod(dir+"/bin/su", 0o6755),
		os.Chown(dir+"/etc/shadow", 0, 42), os.Chmod(dir+"/etc/shadow", 0o640),
		os.Chown(dir+"/d", 1000, 1000), unix.Chmod(dir+"/d", 0o3775),
		os.Link(dir+"/bin/ping", dir+"/d/same"),
		os.Symlink("/etc/shadow", dir+"/d/out"), os.Lchown(dir+"/d/out", 7, 8),
		os.Symlink("/", dir+"/d/up"),
		unix.Mknod(dir+"/d/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))),
		unix.Mknod(dir+"/d/whiteout", unix.S_IFCHR, 0),
		unix.Mkfifo(dir+"/d/pipe", 0o644),
		os.Truncate(dir+"/d/deep/file", 8<<20),
	)
	for _, p := range []string{"bin/ping", "bin/su", "d/deep/file", "etc/shadow", "d/deep", "d", "bin", "etc"} {
		must(os.Chtimes(filepath.Join(dir, p), time.Unix(1e9, 0), time.Unix(1e9, 0)))
	}
	return dir
}

// checkFull compares an image with the full folder it was made of.
func checkFull(t *testing.T, root, dir, said string) {
	t.Helper()
	for _, p := range []string{"bin", "bin/sh", "bin/ping", "etc", "etc/shadow", "d/deep", "d/deep/file", "d/same"} {
		if got, want := fileState(t, filepath.Join(root, p)), fileState(t, filepath.Join(dir, p)); got != want {
			t.Errorf("%s\n got %s\nwant %s", p, got, want)
		}
	}
	for p, want := range map[string]string{
		"bin/su": "106755 0:50 1000000000",
		"d":      "43775 1000:1000 1000000000",
	} {
		if got := fileState(t, filepath.Join(root, p)); got != want {
			t.Errorf("%s\n got %s\nwant %s", p, got, want)
		}
	}
	if got := fileState(t, root+"/d/out"); !strings.HasPrefix(got, "120777 7:8 ") || !strings.HasSuffix(got, " -> /etc/shadow") {
		t.Errorf("the link is %s", got)
	}
	a, _ := os.Stat(root + "/bin/ping")
	b, _ := os.Stat(root + "/d/same")
	if !os.SameFile(a, b) {
		t.Error("a hard link became a copy")
	}
	for _, p := range []string{"d/null", "d/whiteout", "d/pipe"} {
		if _, err := os.Lstat(filepath.Join(root, p)); err == nil {
			t.Errorf("%s was copied", p)
		}
	}
	if !strings.Contains(said, "left out: 3 devices, sockets or pipes") {
		t.Errorf("Add says\n%s", said)
	}
	for p, want := range map[string]string{"proc": "40555", "tmp": "41777", "root": "40700", "usr/local/bin": "40755", ".": "40755"} {
		if got := fileState(t, filepath.Join(root, p)); !strings.HasPrefix(got, want+" 0:0 ") {
			t.Errorf("%s is %s, want %s", p, got, want)
		}
	}
	var st unix.Stat_t
	if unix.Stat(root+"/d/deep/file", &st); st.Size != 8<<20 || st.Blocks > 400 {
		t.Errorf("a file of %d bytes takes %d blocks", st.Size, st.Blocks)
	}
}

func TestFolderIsCopiedCompletely(t *testing.T) {
	require.Root(t)
	dir := newFullFolder(t)
	root, said := addImage(t, openStore(t), dir)
	checkFull(t, root, dir, said)
}

func TestFolderWithForeignIDs(t *testing.T) {
	require.Root(t)
	dir := newSmallFolder(t, map[string]string{"bin/su": "x"})
	if err := os.Chown(dir+"/bin/su", 100000, 0); err != nil {
		t.Fatal(err)
	}
	unix.Chmod(dir+"/bin/su", 0o6755)
	unix.Setxattr(dir+"/bin/su", "security.capability", []byte(capability), 0)
	root, said := addImage(t, openStore(t), dir)
	if got := fileState(t, root+"/bin/su"); !strings.HasPrefix(got, "100755 65534:0 ") || strings.Contains(got, "capability") {
		t.Errorf("the file is %s", got)
	}
	if !strings.Contains(said, "1 files belonged to users or groups that nodes do not have") {
		t.Errorf("Add says\n%s", said)
	}
}

func TestFolderThatContainsTheImages(t *testing.T) {
	require.Root(t)
	dir := newSmallFolder(t, nil)
	s, err := Open(dir + "/var/images")
	if err != nil {
		t.Fatal(err)
	}
	root, _ := addImage(t, s, dir)
	if es, err := os.ReadDir(root + "/var"); err != nil || len(es) != 1 || es[0].Name() != "tmp" {
		t.Errorf("the images were copied into themselves: %v, %v", es, err)
	}
}

func TestMountsAreNotCopied(t *testing.T) {
	require.Root(t)
	dir := newSmallFolder(t, map[string]string{"mnt/x": ""})
	if err := unix.Mount("none", dir+"/mnt", "tmpfs", 0, "size=64k,mode=700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir+"/mnt", unix.MNT_DETACH) })
	os.WriteFile(dir+"/mnt/secret", nil, 0o600)
	root, said := addImage(t, openStore(t), dir)
	if es, err := os.ReadDir(root + "/mnt"); err != nil || len(es) != 0 || !strings.Contains(said, "the file systems mounted on 1 folders") {
		t.Errorf("copied %v, %v\n%s", es, err, said)
	}
}

func TestTarballIsUnpackedCompletely(t *testing.T) {
	require.Root(t)
	gnutar := require.Tool(t, "tar")
	dir := newFullFolder(t)
	plain := t.TempDir() + "/image.tar"
	// Members begin with ./, as in tarballs of mmdebstrap and docker export.
	if out, err := exec.Command(gnutar, "--format=pax", "--xattrs", "--xattrs-include=*", "--numeric-owner", "--sparse", "-C", dir, "-cf", plain, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range []struct{ name, program string }{{"Plain", ""}, {"Gzip", "gzip"}, {"Bzip2", "bzip2"}, {"XZ", "xz"}, {"Zstd", "zstd"}} {
		t.Run(c.name, func(t *testing.T) {
			from := plain
			if c.program != "" {
				out, err := exec.Command(require.Tool(t, c.program), "-c", plain).Output()
				if err != nil {
					t.Fatal(err)
				}
				from = t.TempDir() + "/image" // the name does not matter
				if err := os.WriteFile(from, out, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			root, said := addImage(t, openStore(t), from)
			checkFull(t, root, dir, said)
			if c.program == "" {
				return
			}
			whole, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			s := openStore(t)
			cut := t.TempDir() + "/cut"
			if err := os.WriteFile(cut, whole[:len(whole)/2], 0o600); err != nil {
				t.Fatal(err)
			}
			if err := s.Add(t.Context(), "tiny", cut, &bytes.Buffer{}); err == nil || len(imageEntries(t, s)) != 0 {
				t.Errorf("half of it: got %v, left %q", err, imageEntries(t, s))
			}
		})
	}
}

func TestMissingDecompressor(t *testing.T) {
	require.Root(t)
	t.Setenv("PATH", t.TempDir())
	from := t.TempDir() + "/image"
	os.WriteFile(from, []byte("\x28\xb5\x2f\xfdxxxx"), 0o600)
	if err := openStore(t).Add(t.Context(), "tiny", from, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "apt install zstd") {
		t.Errorf("got %v", err)
	}
	if err := openStore(t).Add(t.Context(), "debian-12", "", &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "apt install mmdebstrap") {
		t.Errorf("got %v", err)
	}
}

// newTarball returns a tarball with the members, after those of a small image.
func newTarball(t testing.TB, members ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range append([]tar.Header{
		{Name: "bin/sh", Mode: 0o755, Size: 4, Typeflag: tar.TypeReg},
		{Name: "etc/passwd", Mode: 0o644, Size: 4, Typeflag: tar.TypeReg},
	}, members...) {
		h.Format = tar.FormatPAX
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		text := []byte("text")
		if h.Name == "etc/passwd" {
			text = nil
		}
		if h.Typeflag == tar.TypeReg {
			w.Write(append(text, bytes.Repeat([]byte{'x'}, int(h.Size)-len(text))...))
		}
	}
	w.Close()
	return b.Bytes()
}

func fileHeader(name string) tar.Header {
	return tar.Header{Name: name, Mode: 0o644, Size: 4, Typeflag: tar.TypeReg}
}

func linkHeader(name, to string) tar.Header {
	return tar.Header{Name: name, Linkname: to, Mode: 0o777, Typeflag: tar.TypeSymlink}
}

func hardLinkHeader(name, to string) tar.Header {
	return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeLink}
}

func folderHeader(name string) tar.Header {
	return tar.Header{Name: name, Mode: 0o755, Typeflag: tar.TypeDir}
}

func TestHostileTarballs(t *testing.T) {
	require.Root(t)
	outside := t.TempDir()
	if err := os.WriteFile(outside+"/victim", []byte("victim"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		members []tar.Header
		want    string // part of the error; empty: accepted
	}{
		{"Absolute", []tar.Header{fileHeader(outside + "/victim")}, "it is absolute"},
		{"Upwards", []tar.Header{fileHeader("../victim")}, "it leads upwards"},
		{"UpwardsInside", []tar.Header{fileHeader("etc/../victim")}, "it leads upwards"},
		{"UpwardsFolder", []tar.Header{folderHeader("a/..")}, "it leads upwards"},
		{"ThroughLinkOut", []tar.Header{linkHeader("a", outside), fileHeader("a/victim")}, "through a link"},
		{"ThroughLinkInside", []tar.Header{linkHeader("a", "etc"), fileHeader("a/passwd")}, "through a link"},
		{"ThroughLinkUp", []tar.Header{linkHeader("a", "../../../.."), fileHeader("a/tmp/x")}, "through a link"},
		{"ThroughDeepLink", []tar.Header{folderHeader("a"), linkHeader("a/b", outside), fileHeader("a/b/c/victim")}, "through a link"},
		{"FolderThroughLink", []tar.Header{linkHeader("a", outside), folderHeader("a/new")}, "through a link"},
		{"LinkThroughLink", []tar.Header{linkHeader("a", outside), linkHeader("a/new", "x")}, "through a link"},
		{"ThroughFile", []tar.Header{fileHeader("a"), fileHeader("a/b")}, "through a link"},
		{"HardLinkAbsolute", []tar.Header{hardLinkHeader("a", outside+"/victim")}, "it is absolute"},
		{"HardLinkUpwards", []tar.Header{hardLinkHeader("a", "../../victim")}, "it leads upwards"},
		{"HardLinkThroughLink", []tar.Header{linkHeader("l", outside), hardLinkHeader("a", "l/victim")}, "through a link"},
		{"HardLinkToLink", []tar.Header{linkHeader("l", outside+"/victim"), hardLinkHeader("a", "l"), fileHeader("a")}, ""},
		{"HardLinkToFolder", []tar.Header{hardLinkHeader("a", "etc")}, "is a folder"},
		{"HardLinkToNothing", []tar.Header{hardLinkHeader("a", "nothing")}, "no such file"},
		{"LinkIsReplacedNotFollowed", []tar.Header{linkHeader("a", outside+"/victim"), fileHeader("a")}, ""},
		{"LinkToFolderIsReplaced", []tar.Header{linkHeader("a", outside), folderHeader("a"), fileHeader("a/victim")}, ""},
		{"HardLinkIsReplacedNotWritten", []tar.Header{fileHeader("a"), hardLinkHeader("b", "a"), {Name: "b", Mode: 0o644, Size: 9, Typeflag: tar.TypeReg}}, ""},
		{"HardLinkToItself", []tar.Header{fileHeader("a"), hardLinkHeader("a", "a")}, ""},
		{"FullFolderReplaced", []tar.Header{fileHeader("etc")}, "directory not empty"},
		{"FileAsRoot", []tar.Header{hardLinkHeader(".", "bin/sh")}, "only a folder"},
		{"RootKeepsItsMode", []tar.Header{{Name: "./", Mode: 0o4777, Uid: 1000, Typeflag: tar.TypeDir}}, ""},
		{"Devices", []tar.Header{{Name: "dev/sda", Typeflag: tar.TypeBlock, Devmajor: 8, Mode: 0o666}, {Name: "dev/mem", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 1, Mode: 0o666}}, ""},
		{"LongPath", []tar.Header{fileHeader(strings.Repeat("a/", 1501) + "a")}, "longer than 3000"},
		{"LongName", []tar.Header{fileHeader(strings.Repeat("a", 256))}, "longer than 255"},
		{"SetUIDOfOtherID", []tar.Header{{Name: "bin/su", Mode: 0o6755, Uid: 70000, Size: 4, Typeflag: tar.TypeReg, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": capability}}}, ""},
		{"AttributesOfOverlays", []tar.Header{{Name: "a", Mode: 0o755, Typeflag: tar.TypeDir, PAXRecords: map[string]string{
			"SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.user.overlay.redirect": "/etc", "SCHILY.xattr.user.kept": "1"}}}, ""},
		{"CapabilityOfAnotherNameSpace", []tar.Header{{Name: "a", Mode: 0o755, Size: 4, Typeflag: tar.TypeReg, PAXRecords: map[string]string{
			"SCHILY.xattr.security.capability": strings.Replace(capability, "\x02", "\x03", 1) + "\x00\x00\x00\x01"}}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openStore(t)
			from := t.TempDir() + "/image.tar"
			// The account is in a folder of its own, so that etc is not empty.
			body := bytes.Replace(newTarball(t, c.members...), []byte("xxxx"), []byte("root"), 1)
			if err := os.WriteFile(from, body, 0o600); err != nil {
				t.Fatal(err)
			}
			b, err := s.startBuild(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer b.discard()
			var said bytes.Buffer
			err = b.copyFrom(t.Context(), from, &said)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			es, _ := os.ReadDir(outside)
			if text, _ := os.ReadFile(outside + "/victim"); len(es) != 1 || string(text) != "victim" {
				t.Fatalf("the tarball wrote outside: %v, %q", es, text)
			}
			filepath.WalkDir(b.root, func(path string, e fs.DirEntry, err error) error {
				var st unix.Stat_t
				unix.Lstat(path, &st)
				if st.Uid > maxID || st.Gid > maxID || st.Uid == nobody && st.Mode&0o6000 != 0 {
					t.Errorf("%s is %s", path, fileState(t, path))
				}
				if k := st.Mode & unix.S_IFMT; k != unix.S_IFREG && k != unix.S_IFDIR && k != unix.S_IFLNK {
					t.Errorf("%s is %s", path, fileState(t, path))
				}
				if got := fileState(t, path); strings.Contains(got, "overlay") || strings.Contains(got, "capability") {
					t.Errorf("%s is %s", path, got)
				}
				return nil
			})
			if got := fileState(t, b.root); !strings.HasPrefix(got, "40755 0:0 ") {
				t.Errorf("the root is %s", got)
			}
			switch c.name {
			case "HardLinkIsReplacedNotWritten":
				if text, _ := os.ReadFile(b.root + "/a"); string(text) != "text" {
					t.Errorf("the other name of the file holds %q", text)
				}
			case "Devices":
				if !strings.Contains(said.String(), "left out: 2 devices") {
					t.Errorf("Add says %s", said.String())
				}
			case "AttributesOfOverlays":
				if !strings.Contains(fileState(t, b.root+"/a"), `user.kept="1"`) {
					t.Errorf("the folder is %s", fileState(t, b.root+"/a"))
				}
			}
		})
	}
}

func TestInvalidTarballs(t *testing.T) {
	require.Root(t)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(bytes.Repeat([]byte{0xff}, 1<<20))
	z.Close()
	for _, c := range []struct{ name, text, want string }{
		{"Empty", "", "the tarball is empty"},
		{"Text", "this is no tarball at all" + strings.Repeat("\n", 2000), "it is not a tarball"},
		{"NothingButZeros", strings.Repeat("\x00", 10240), "the tarball is empty"},
		{"Compressed", bomb.String(), "it is not a tarball"},
		{"CutInAMember", string(newTarball(t, fileHeader("a"))[:2562]), `member "a": unexpected EOF`},
		{"CutBetweenMembers", string(newTarball(t, fileHeader("a"))[:2048]), "ends after 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := t.TempDir() + "/x"
			os.WriteFile(from, []byte(c.text), 0o600)
			s := openStore(t)
			if err := s.Add(t.Context(), "tiny", from, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if got := imageEntries(t, s); len(got) != 0 {
				t.Errorf("left: %q", got)
			}
		})
	}
}

// No tarball can write anything outside the root. Inside, it can create only files, folders
// and links with ids that nodes have.
func FuzzUnpack(f *testing.F) {
	for _, members := range [][]tar.Header{
		{fileHeader("a"), hardLinkHeader("b", "a"), linkHeader("c", "/"), folderHeader("d")},
		{linkHeader("a", ".."), fileHeader("a/b")},
		{folderHeader("a"), linkHeader("a", "x"), fileHeader("../y")},
		{{Name: "p", Mode: 0o6755, Uid: 1 << 30, Size: 4, Typeflag: tar.TypeReg, PAXRecords: map[string]string{"SCHILY.xattr.user.x": "y"}}},
	} {
		f.Add(newTarball(f, members...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		require.Root(t)
		top := t.TempDir()
		root := top + "/a/b/c"
		if err := os.MkdirAll(root, 0o755); err != nil {
			t.Fatal(err)
		}
		w, err := newWriter(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		defer w.close()
		w.maxTotal = 4 << 20 // a sparse file can have any size
		w.unpack(bytes.NewReader(b))
		filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				t.Fatal(err)
			}
			if rel, _ := filepath.Rel(root, path); strings.HasPrefix(rel, "..") && rel != "../../.." && rel != "../.." && rel != ".." {
				t.Fatalf("%s was made outside", path)
			}
			var st unix.Stat_t
			if err := unix.Lstat(path, &st); err != nil {
				t.Fatal(err)
			}
			if k := st.Mode & unix.S_IFMT; k != unix.S_IFREG && k != unix.S_IFDIR && k != unix.S_IFLNK || st.Uid > maxID || st.Gid > maxID {
				t.Fatalf("%s is %o of %d:%d", path, st.Mode, st.Uid, st.Gid)
			}
			return nil
		})
	})
}

// A program that still writes after enough was read must not be waited for.
func TestDecompressorOfAnEndlessStream(t *testing.T) {
	require.Root(t)
	require.Tool(t, "xz")
	dir := t.TempDir()
	// Only headers, and far more of them than a pipe holds.
	var headers []tar.Header
	for range 3000 {
		headers = append(headers, folderHeader("d"))
	}
	if err := os.WriteFile(dir+"/x", newTarball(t, headers...), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("xz", dir+"/x").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w, err := newWriter(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	w.maxStream = 64 << 10
	ended := make(chan error, 1)
	go func() { ended <- w.unpackFile(dir + "/x.xz") }()
	select {
	case err := <-ended:
		if err == nil || err.Error() != "the tarball is longer than 65536 bytes" {
			t.Errorf("got %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for the program for ever")
	}
}

// A sparse member takes no space in the tarball, but time for its full length.
func TestHolesAreBounded(t *testing.T) {
	require.Root(t)
	dir := newSmallFolder(t, map[string]string{"hole": ""})
	if err := os.Truncate(dir+"/hole", 8<<20); err != nil {
		t.Fatal(err)
	}
	plain := t.TempDir() + "/image.tar"
	if out, err := exec.Command(require.Tool(t, "tar"), "--sparse", "-C", dir, "-cf", plain, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if i, err := os.Stat(plain); err != nil || i.Size() > 1<<20 {
		t.Fatalf("the tarball is no small one: %v, %v", i, err)
	}
	w, err := newWriter(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	w.maxTotal = 4 << 20
	if err := w.unpackFile(plain); err == nil || !strings.Contains(err.Error(), "more than 4 MiB") {
		t.Errorf("got %v", err)
	}
}

func TestDebianSuite(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"debian-12", "bookworm"}, {"debian-trixie", "trixie"}, {"my-debian-11", "bullseye"}, {"debian-unstable", "sid"}, {"debian-stable", "stable"},
	} {
		if got, err := debianSuite(c.name); got != c.want || err != nil {
			t.Errorf("%s: got %q, %v", c.name, got, err)
		}
	}
	for name, want := range map[string]string{"debian-99": "11 to 15", "debian-": "not a known Debian release", "ubuntu": "name a folder or a tarball", "mydebian-12": "name a folder or a tarball", "debian-12x": "not a known Debian release"} {
		if _, err := debianSuite(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestDebian downloads a release: set PATCHBAY_MMDEBSTRAP to its name, such as debian-12.
func TestDebian(t *testing.T) {
	name := os.Getenv("PATCHBAY_MMDEBSTRAP")
	if name == "" {
		t.Skip("PATCHBAY_MMDEBSTRAP does not name a release to download, such as debian-12")
	}
	require.Root(t)
	require.Tool(t, "mmdebstrap")
	s := openStore(t)
	var said bytes.Buffer
	began := time.Now()
	if err := s.Add(t.Context(), name, "", &said); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	t.Logf("made in %v, saying\n%s", time.Since(began), said.String())
	_, i, err := s.Find(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if left := imageEntries(t, s); len(left) != 2 {
		t.Errorf("the folder holds %q", left)
	}
	cmd := exec.Command("/bin/sh", "-ec", `
		mount --bind /dev "$I/dev"
		exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin /usr/sbin/chroot "$I" /bin/bash -ec '
			id -un; visudo -c; python3 -c "import ssl, json; print(2)"; ssh -V; rsync --version | head -1; getcap /usr/bin/ping; ip -V
			find /etc/apt -type f'`)
	cmd.Env = append(os.Environ(), "I="+i.Root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("inside:\n%s", out)
	host, _ := os.Hostname()
	if _, err := os.Lstat(i.Root + "/etc/hostname"); err == nil {
		t.Errorf("the image contains the name of this host, %s", host)
	}
	if b, _ := os.ReadFile(i.Root + "/etc/resolv.conf"); string(b) != resolvConf {
		t.Errorf("the image contains this host's name servers")
	}
}
