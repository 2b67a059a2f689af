package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
	"patchbay/rspec/step"
)

// alice returns an account that does not exist on the host.
func alice(t *testing.T) account {
	t.Helper()
	require.Root(t)
	dir := t.TempDir()
	openToAll(t, dir)
	user := account{name: "alice", uid: 0x6f001000, gid: 0x6f001001, home: filepath.Join(dir, "home", "alice")}
	if err := os.MkdirAll(user.home, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(user.home, user.uid, user.gid); err != nil {
		t.Fatal(err)
	}
	return user
}

// openToAll lets other users reach a temporary folder.
func openToAll(t *testing.T, dir string) {
	t.Helper()
	for ; dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// fileOwner returns the user id that owns a file.
func fileOwner(t *testing.T, path string) int {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return int(st.Uid)
}

func TestOwners(t *testing.T) {
	user := alice(t)
	dir := filepath.Dir(filepath.Dir(user.home))
	if err := os.Symlink(user.home, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	archive := packArchive(t, formatTar, tool...)
	for _, tt := range []struct {
		place string
		owner int
	}{
		{"home/alice", user.uid}, {"home/alice/a/b", user.uid}, {"link/c", user.uid},
		{"opt/tool", 0}, {"home", 0}, {"home/alice2", 0},
	} {
		path := filepath.Join(dir, tt.place)
		t.Cleanup(func() { os.Chmod(filepath.Join(path, "tool"), 0o755) })
		f := newFile(t, archive)
		p, err := openPlace(path, user, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = unpack(t.Context(), f, formatTar, p, func(string) {})
		p.Close()
		if err != nil {
			t.Fatalf("%s: %v", tt.place, err)
		}
		if os.Geteuid() != 0 {
			t.Fatal("root has not come back")
		}
		for _, name := range []string{"", "tool", "tool/run", "tool/latest", "tool/deep", "tool/deep/down", "empty"} {
			if tt.place == "home" && name == "" {
				continue
			}
			if got := fileOwner(t, filepath.Join(path, name)); got != tt.owner {
				t.Errorf("%s/%s belongs to %#x, want %#x", tt.place, name, got, tt.owner)
			}
		}
	}
	if got := fileOwner(t, filepath.Join(user.home, "a")); got != user.uid {
		t.Errorf("a folder on the way belongs to %#x", got)
	}
}

// Links of a user in the path must not lead root anywhere.
func TestPathsToPlaces(t *testing.T) {
	user := alice(t)
	dir := filepath.Dir(filepath.Dir(user.home))
	secret := filepath.Join(dir, "secret")
	if err := os.Mkdir(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	users := func(path string) {
		t.Helper()
		if err := os.Lchown(path, user.uid, user.gid); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, path string) string {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	users(link(secret, "users"))
	users(link(secret, "home/alice/users"))
	link(secret, "home/alice/roots")
	link("opt", "local")
	link("loop", "loop")
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ rule, place, err string }{
		{"a link of root's", "local/a", ""},
		{"a symbolic link that a user owns", "users/a", "not followed"},
		{"a symbolic link that a user owns in the home", "home/alice/users/a", "not followed"},
		{"a link of root's in the home, where the user may not go", "home/alice/roots/a", "permission denied"},
		{"a link to itself", "loop/a", "too many levels"},
		{"a file", "file/a", "not a directory"},
	} {
		p, err := openPlace(filepath.Join(dir, tt.place), user, nil)
		if err == nil {
			p.Close()
		}
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", tt.rule, err, tt.err)
		}
		if os.Geteuid() != 0 {
			t.Fatal("root has not come back")
		}
	}
	if got := listTree(t, secret); got != "" {
		t.Errorf("there is\n%s", got)
	}
	if st, err := os.Stat(filepath.Join(dir, "opt", "a")); err != nil || !st.IsDir() {
		t.Errorf("a link of root's is not followed: %v", err)
	}
}

// Files are renamed and linked in the home while an archive is unpacked there: nothing outside
// changes.
func TestRaces(t *testing.T) {
	user := alice(t)
	dir := filepath.Dir(filepath.Dir(user.home))
	secret := filepath.Join(dir, "secret")
	if err := os.MkdirAll(filepath.Join(secret, "down"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(secret, "text"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := listTree(t, dir)
	place := filepath.Join(user.home, "app")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.Rename(filepath.Join(place, "deep"), filepath.Join(place, "was"))
			os.Symlink(secret, filepath.Join(place, "deep"))
			os.Remove(filepath.Join(place, "deep"))
			os.Rename(filepath.Join(place, "was"), filepath.Join(place, "deep"))
		}
	}()
	var entries []entry
	for range 200 {
		entries = append(entries, entry{kind: kindFolder, name: "deep/down", mode: 0o777},
			entry{kind: kindFile, name: "deep/text", mode: 0o644}, entry{kind: kindFile, name: "deep/down/text", mode: 0o644})
	}
	b := packArchive(t, formatTar, entries...)
	o, err := newOwners(&step.Archive{Folders: []step.Folder{{Path: place, User: uint32(user.uid), Group: uint32(user.gid), Mode: "0755"}}}, user.home)
	if err != nil {
		t.Fatal(err)
	}
	f := newFile(t, b)
	for range 5 {
		_ = unpackOwned(t, place, b, formatTar, o)
		if p, err := openPlace(place, user, nil); err == nil {
			_, _ = unpack(t.Context(), f, formatTar, p, func(string) {})
			p.Close()
		}
	}
	close(stop)
	<-stopped
	if err := os.RemoveAll(place); err != nil {
		t.Fatal(err)
	}
	if got := listTree(t, dir); got != before {
		t.Errorf("there is\n%swas\n%s", got, before)
	}
}
