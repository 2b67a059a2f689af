package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
)

func openStore(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "images"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newSmallFolder creates the smallest folder that can be an image.
func newSmallFolder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{"bin/sh": "#!/bin/busybox sh\n", "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"}
	for k, v := range files {
		all[k] = v
	}
	for path, text := range all {
		os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755)
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(path, "bin/") {
			mode = 0o755
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// imageEntries returns the entries of the folder of images, except the lock.
func imageEntries(t testing.TB, s *Store) []string {
	t.Helper()
	es, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range es {
		if e.Name() != lockFile {
			names = append(names, e.Name())
		}
	}
	return names
}

func neverUsed(string) bool { return false }

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"host": true, "debian-12": true, "a": true, "0.1": true, strings.Repeat("a", 63): true,
		"": false, ".": false, "..": false, ".a": false, "-a": false, "A": false, "a/b": false, "a@b": false, "a b": false, "ä": false,
		"a\x00": false, strings.Repeat("a", 64): false, "a_b": false, "a\n": false,
	} {
		if got := checkName(name) == nil; got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
	s := openStore(t)
	for _, key := range []string{"", "host", "../x@000000000000000000000000000000", "a@00000000000000000000000000000", "a@00000000000000000000000000000G", "@000000000000000000000000000000", "a@000000000000000000000000000000/.."} {
		if _, err := s.Key(key); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("key %q: got %v", key, err)
		}
	}
	if _, err := s.Key("a@000000000000000000000000000000"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a key that is gone: got %v", err)
	}
	if _, _, err := s.Find(t.Context(), "a"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "image add SETTINGS a") {
		t.Errorf("an unknown image: got %v", err)
	}
}

func TestImageLifecycle(t *testing.T) {
	require.Root(t)
	s := openStore(t)
	from := newSmallFolder(t, map[string]string{"usr/lib/x": "one"})
	var said bytes.Buffer
	if err := s.Add(t.Context(), "tiny", from, &said); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "added the image tiny") {
		t.Errorf("Add says %q", said.String())
	}
	key, i, err := s.Find(t.Context(), "tiny")
	if err != nil {
		t.Fatal(err)
	}
	if i.Usr != "" || i.Root != filepath.Join(s.dir, key) {
		t.Errorf("the image is %+v", i)
	}
	if again, err := s.Key(key); err != nil || again != i {
		t.Errorf("Key gives %+v, %v", again, err)
	}
	if names, err := s.Names(); err != nil || !slices.Equal(names, []string{"host", "tiny"}) {
		t.Errorf("the images are %q, %v", names, err)
	}
	if err := s.Add(t.Context(), "tiny", from, &said); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second Add of the name: got %v", err)
	}
	if st, _ := os.Stat(s.dir); st.Mode().Perm() != 0o700 {
		t.Errorf("the folder of images has mode %v", st.Mode())
	}

	// Contents in use survive their name, and equal contents are used again.
	used := func(k string) bool { return k == key }
	if err := s.Remove("tiny", used); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Find(t.Context(), "tiny"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a removed image: got %v", err)
	}
	if err := s.Sweep(used); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(i.Root)
	if err != nil {
		t.Fatalf("contents in use went: %v", err)
	}
	if err := s.Add(t.Context(), "tiny", from, &said); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(i.Root); err != nil || !os.SameFile(before, after) {
		t.Errorf("equal contents were not taken again (%v)", err)
	}
	if err := s.Remove("tiny", neverUsed); err != nil {
		t.Fatal(err)
	}
	if left := imageEntries(t, s); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
	if err := s.Remove("tiny", neverUsed); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "add it") {
		t.Errorf("Remove of a missing image: got %v", err)
	}
	for _, err := range []error{s.Remove(Host, neverUsed), s.Add(t.Context(), Host, from, &said), s.Add(t.Context(), "../x", from, &said), s.Remove("../x", neverUsed)} {
		if err == nil {
			t.Error("host or a path was added or removed")
		}
	}
}

func TestKeyIdentifiesContent(t *testing.T) {
	require.Root(t)
	root := t.TempDir()
	hash := func() string {
		h, err := hashTree(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	os.WriteFile(root+"/a", []byte("text"), 0o644)
	os.WriteFile(root+"/b", []byte("text"), 0o644)
	os.Mkdir(root+"/d", 0o755)
	os.Symlink("a", root+"/l")
	last := hash()
	if hash() != last {
		t.Fatal("the hash of one tree changes")
	}
	os.Chtimes(root+"/a", time.Unix(1, 0), time.Unix(1, 0))
	if hash() != last {
		t.Error("times change the hash")
	}
	seen := map[string]string{last: "the beginning"}
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"Contents", func() error { return os.WriteFile(root+"/a", []byte("texu"), 0o644) }},
		{"Mode", func() error { return os.Chmod(root+"/a", 0o600) }},
		{"SetUID", func() error { return unix.Chmod(root+"/a", 0o4600) }},
		{"Owner", func() error { return os.Chown(root+"/b", 5, 0) }},
		{"Group", func() error { return os.Chown(root+"/b", 5, 5) }},
		{"Link", func() error { return errors.Join(os.Remove(root+"/l"), os.Symlink("b", root+"/l")) }},
		{"Name", func() error { return os.Rename(root+"/d", root+"/e") }},
		{"FolderForFile", func() error { return errors.Join(os.Remove(root+"/e"), os.WriteFile(root+"/e", nil, 0o755)) }},
		{"HardLink", func() error { return errors.Join(os.Link(root+"/b", root+"/c")) }},
		{"OneHardLinkLess", func() error {
			return errors.Join(os.Remove(root+"/c"), os.WriteFile(root+"/c", []byte("text"), 0o644), os.Chown(root+"/c", 5, 5))
		}},
		{"Attribute", func() error { return unix.Setxattr(root+"/c", "user.x", []byte("1"), 0) }},
	} {
		if err := c.do(); err != nil {
			t.Fatal(c.name, err)
		}
		h := hash()
		if was, ok := seen[h]; ok {
			t.Errorf("%s: the hash is that of %s", c.name, was)
		}
		seen[h] = c.name
	}
}

func TestHostIsRebuiltWhenItChanges(t *testing.T) {
	require.Root(t)
	root := fakeHost(t, nil)
	s := openStore(t)
	s.host = root
	var built []string // the calls of Building, and their results
	s.Building = func(anew bool) func(error) {
		return func(err error) { built = append(built, fmt.Sprint(anew, " ", err)) }
	}
	find := func() string {
		key, i, err := s.Find(t.Context(), Host)
		if err != nil {
			t.Fatal(err)
		}
		if i.Usr != root+"/usr" {
			t.Errorf("usr is %s", i.Usr)
		}
		return key
	}
	one := find()
	if find() != one {
		t.Error("the same host has two keys")
	}
	other, err := Open(s.dir) // as in another process
	if err != nil {
		t.Fatal(err)
	}
	other.host = root
	if key, _, err := other.Find(t.Context(), Host); err != nil || key != one {
		t.Errorf("another process finds %s, %v; want %s", key, err, one)
	}
	time.Sleep(10 * time.Millisecond) // the resolution of the file system's clock
	if err := os.WriteFile(root+"/etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\nnew:x:999:999::/:/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	two := find()
	if two == one {
		t.Error("a new account changed nothing")
	}
	if want := []string{"false <nil>", "true <nil>"}; !slices.Equal(built, want) {
		t.Errorf("it was made %q, want %q", built, want)
	}
	if err := s.Sweep(func(key string) bool { return key == one }); err != nil {
		t.Fatal(err)
	}
	if got := imageEntries(t, s); !slices.Contains(got, one) || !slices.Contains(got, two) || len(got) != 3 {
		t.Errorf("while both are used there are %q", got)
	}
	if err := s.Sweep(neverUsed); err != nil {
		t.Fatal(err)
	}
	if got := imageEntries(t, s); !slices.Equal(got, []string{"host", two}) {
		t.Errorf("in the end there are %q", got)
	}
}

func TestSweepRemovesTheRestOfACrash(t *testing.T) {
	require.Root(t)
	s := openStore(t)
	b, err := s.startBuild(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.root+"/a", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".new-1/root/bin", ".gone-2/root/bin", "x@000000000000000000000000000000/bin"} {
		if err := os.MkdirAll(filepath.Join(s.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Sweep(neverUsed); err != nil {
		t.Fatal(err)
	}
	if got := imageEntries(t, s); !slices.Equal(got, []string{filepath.Base(b.dir)}) {
		t.Errorf("while one is in the making there are %q", got)
	}
	b.folder.Close() // its process dies
	if err := s.Sweep(neverUsed); err != nil {
		t.Fatal(err)
	}
	if got := imageEntries(t, s); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

func TestMountsPreventRemoval(t *testing.T) {
	require.Root(t)
	dir := t.TempDir()
	at := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", at, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
	os.WriteFile(at+"/file", nil, 0o600)
	if err := removeTree(dir + "/a"); err == nil || !strings.Contains(err.Error(), "umount") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(at + "/file"); err != nil {
		t.Errorf("a mounted file was removed: %v", err)
	}
}

func TestConcurrentAdds(t *testing.T) {
	require.Root(t)
	s := openStore(t)
	from := newSmallFolder(t, nil)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			own, err := Open(s.dir)
			if err == nil {
				name := "same"
				if i%2 == 1 {
					name = "other-" + string(rune('a'+i))
				}
				err = own.Add(t.Context(), name, from, &bytes.Buffer{})
			}
			errs[i] = err
		})
	}
	wg.Wait()
	added := 0
	for i, err := range errs {
		if i%2 == 1 && err != nil {
			t.Error(err)
		}
		if i%2 == 0 && err == nil {
			added++
		} else if i%2 == 0 && !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
	}
	if added != 1 {
		t.Errorf("%d of 4 added the same name", added)
	}
	if names, _ := s.Names(); len(names) != 6 {
		t.Errorf("the images are %q", names)
	}
	if n := len(imageEntries(t, s)); n != 10 {
		t.Errorf("the folder holds %q", imageEntries(t, s))
	}
}

func TestInterruptedAddLeavesNothing(t *testing.T) {
	require.Root(t)
	s := openStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Add(ctx, "tiny", newSmallFolder(t, nil), &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := imageEntries(t, s); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

func TestInvalidImages(t *testing.T) {
	require.Root(t)
	for _, c := range []struct {
		name string
		edit func(dir string)
		want string
	}{
		{"NoShell", func(d string) { os.Remove(d + "/bin/sh") }, "no /bin/sh"},
		{"ShellNotExecutable", func(d string) { os.Chmod(d+"/bin/sh", 0o644) }, "mode 0644"},
		{"ShellOutside", func(d string) { os.Remove(d + "/bin/sh"); os.Symlink("../../../../../../../bin/nothere", d+"/bin/sh") }, "no /bin/sh"},
		{"OtherProcessor", func(d string) {
			os.WriteFile(d+"/bin/sh", []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x15\x00"), 0o755)
		}, "another processor (EM_PPC64)"},
		{"NoPasswd", func(d string) { os.Remove(d + "/etc/passwd") }, "no /etc/passwd"},
		{"NoRoot", func(d string) { os.WriteFile(d+"/etc/passwd", []byte("root:x:1:0::/:/bin/sh\n"), 0o644) }, "no account root"},
		{"DevIsALink", func(d string) { os.Symlink("/dev", d+"/dev") }, "its /dev is not a folder"},
		{"RunIsALink", func(d string) { os.Symlink("etc", d+"/run") }, "its /run is not a folder"},
		{"UsrLocalIsALink", func(d string) { os.Mkdir(d+"/usr", 0o755); os.Symlink("/etc", d+"/usr/local") }, "its /usr/local is not a folder"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openStore(t)
			dir := newSmallFolder(t, nil)
			c.edit(dir)
			err := s.Add(t.Context(), "tiny", dir, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if got := imageEntries(t, s); len(got) != 0 {
				t.Errorf("left: %q", got)
			}
		})
	}
	s := openStore(t)
	if err := s.Add(t.Context(), "tiny", "/nonexistent/x", &bytes.Buffer{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := s.Add(t.Context(), "tiny", "/dev/null", &bytes.Buffer{}); err == nil {
		t.Error("a device was added")
	}
}
