package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"patchbay/am/testkit/require"
)

// tree is a folder of root that everybody may enter, with folders of two users.
func tree(t *testing.T) (root string) {
	t.Helper()
	require.Root(t)
	root = t.TempDir()
	must(t, os.Chmod(filepath.Dir(root), 0o755))
	for name, user := range map[string]int{"one": 12345, "two": 23456} {
		must(t, os.Mkdir(filepath.Join(root, name), 0o755))
		must(t, os.Chown(filepath.Join(root, name), user, user+1))
	}
	return root
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// link makes a link that belongs to a user.
func link(t *testing.T, to, name string, user int) {
	t.Helper()
	must(t, os.Symlink(to, name))
	must(t, os.Lchown(name, user, user))
}

func TestOwnerOf(t *testing.T) {
	root := tree(t)
	in := func(name string) string { return filepath.Join(root, name) }
	must(t, os.Mkdir(in("one/roots"), 0o755))
	must(t, os.Mkdir(in("one/twos"), 0o755))
	must(t, os.Chown(in("one/twos"), 23456, 23457))
	link(t, in("two"), in("one/link"), 12345)
	link(t, in("two"), in("one/rootlink"), 0)
	link(t, in("one"), in("link"), 0)
	link(t, in("one"), in("twolink"), 23456)
	link(t, "nowhere", in("dangling"), 0)
	// Sites: of a user, with folders of others in it, and of root in a user's folder.
	for _, dir := range []string{"stray", "stray/site", "site", "site/roots", "site/twos", "one/site", "one/site/new", "one/site/twos"} {
		must(t, os.Mkdir(in(dir), 0o755))
	}
	must(t, os.Chown(in("site"), 12345, 12346))
	must(t, os.Chown(in("stray/site"), 12345, 12346))
	must(t, os.Chown(in("site/twos"), 23456, 23457))
	must(t, os.Chown(in("one/site/twos"), 23456, 23457))
	link(t, in("two"), in("site/link"), 23456)
	link(t, in("two"), in("one/site/link"), 0)
	for _, name := range []string{"stray/patchbay.yaml", "stray/site/patchbay.yaml", "site/patchbay.yaml", "one/site/patchbay.yaml"} {
		must(t, os.WriteFile(in(name), nil, 0o644))
	}
	for _, tt := range []struct {
		name, dir string
		uid       int
	}{
		{"the root folder", "/", 0},
		{"a folder of root", root, 0},
		{"a folder of a user", in("one"), 12345},
		{"one that is not there yet", in("one/new/new"), 12345},
		{"one of root in it", in("one/roots"), 0},
		{"a site", in("site"), 12345},
		{"a site in a site of root", in("stray/site"), 12345},
		{"a folder of root in it", in("site/roots"), 12345},
		{"a folder of another in it", in("site/twos/new"), 12345},
		{"by a link of another in it", in("site/link/new"), 12345},
		{"a site of root in a user's folder", in("one/site"), 0},
		{"a folder of root in that", in("one/site/new/new"), 0},
		{"a user's folder in that", in("one/site/twos/new"), 23456},
		{"by a link of root in that", in("one/site/link/new"), 23456},
		{"one of another in it", in("one/twos/new"), 23456},
		{"by a link of root", in("link"), 12345},
		{"by a link of root in a user's folder", in("one/rootlink"), 12345},
		{"by a user's link", in("one/link"), 12345},
		{"beyond a user's link", in("one/link/new"), 12345},
		{"by a user's link in a folder of root", in("twolink"), 23456},
		{"by a link to nothing", in("dangling/new"), 0},
	} {
		uid, gid, err := OwnerOf(tt.dir)
		if want := tt.uid + min(tt.uid, 1); err != nil || uid != tt.uid || gid != want && gid != tt.uid {
			t.Errorf("%s: %d:%d, %v; want user %d", tt.name, uid, gid, err, tt.uid)
		}
	}
}

func TestAsWritesAsTheOwner(t *testing.T) {
	root := tree(t)
	one := filepath.Join(root, "one")
	must(t, os.WriteFile(filepath.Join(root, "secret"), []byte("root's"), 0o600))
	link(t, filepath.Join(root, "secret"), filepath.Join(one, "secret"), 12345)
	link(t, filepath.Join(root, "two"), filepath.Join(one, "two"), 12345)
	link(t, root, filepath.Join(one, "root"), 12345)
	write := func(name string) error {
		path := filepath.Join(one, name)
		return AsOwner(filepath.Dir(path), func() error {
			return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("new"), 0o600))
		})
	}
	must(t, write("a/b/file"))
	for _, name := range []string{"a", "a/b", "a/b/file"} {
		info, err := os.Lstat(filepath.Join(one, name))
		must(t, err)
		if s := info.Sys().(*syscall.Stat_t); s.Uid != 12345 || s.Gid != 12346 || info.Mode().Perm() != map[bool]fs.FileMode{true: 0o700, false: 0o600}[info.IsDir()] {
			t.Errorf("%s belongs to %d:%d, mode %v", name, s.Uid, s.Gid, info.Mode())
		}
	}
	for _, name := range []string{"secret", "root/new", "two/new"} {
		if err := write(name); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(root, "secret")); err != nil || string(text) != "root's" {
		t.Errorf("the file that the link leads to: %q, %v", text, err)
	}
	must(t, os.WriteFile(filepath.Join(one, "roots"), nil, 0o600)) // we are root still
	if err := AsOwner(root, func() error { return os.WriteFile(filepath.Join(root, "own"), nil, 0o600) }); err != nil {
		t.Error(err)
	}
}

func TestAsReturnsTheErrorOfItsFunction(t *testing.T) {
	bad := errors.New("bad")
	for _, dir := range []string{filepath.Join(tree(t), "one"), t.TempDir()} {
		if err := AsOwner(dir, func() error { return bad }); err != bad {
			t.Errorf("%v", err)
		}
	}
}
