package setup

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
	"patchbay/rspec/step"
)

// ownedEntry is an entry of a tar archive with its owners.
type ownedEntry struct {
	entry
	user, group int
}

func packOwned(t testing.TB, entries ...ownedEntry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: int64(e.mode.Perm()), ModTime: when, Linkname: e.target, Uid: e.user, Gid: e.group, Format: tar.FormatPAX}
		h.Typeflag = map[kind]byte{kindFile: tar.TypeReg, kindFolder: tar.TypeDir, kindLink: tar.TypeSymlink, kindHardLink: tar.TypeLink, 0: tar.TypeChar}[e.kind]
		if e.mode&fs.ModeSetuid != 0 {
			h.Mode |= 0o6000
		}
		var text []byte
		if e.kind == kindFile {
			text = content(e.entry)
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

var database = []ownedEntry{
	{entry{kind: kindFolder, name: "./", mode: 0o700}, 5, 5},
	{entry{kind: kindFolder, name: "data", mode: 0o750}, 1001, 1001},
	{entry{kind: kindFile, name: "data/table", mode: 0o640}, 1001, 7},
	{entry{kind: kindFile, name: "data/tool", mode: 0o755 | fs.ModeSetuid}, 0, 1001},
	{entry{kind: kindLink, name: "data/link", target: "table"}, 1001, 1001},
	{entry{kind: kindHardLink, name: "data/same", target: "data/table"}, 1001, 7},
	{entry{kind: kindFile, name: "other/text", mode: 0o600}, 2002, 3003},
}

// databaseTree is the tree of database for these numbers of 1001.
func databaseTree(user, group int) string {
	return fmt.Sprintf(`drwxr-x--- %[1]d:%[2]d data
Lrwxrwxrwx %[1]d:%[2]d data/link
-rw-r----- %[1]d:7 data/same
-rw-r----- %[1]d:7 data/table
-rwxr-xr-x 0:%[2]d data/tool
drwxr-xr-x 0:0 other
-rw------- 2002:3003 other/text
`, user, group)
}

// listOwners lists the content of a folder, one line for each file.
func listOwners(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		fmt.Fprintf(&b, "%s %s\n", ownerAndMode(t, path), name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func ownerAndMode(t testing.TB, path string) string {
	t.Helper()
	st, err := os.Lstat(path)
	if err != nil {
		return err.Error()
	}
	var s unix.Stat_t
	if err := unix.Lstat(path, &s); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%v %d:%d", st.Mode(), s.Uid, s.Gid)
}

func base64URL(b []byte) string { return "data:;base64," + base64.StdEncoding.EncodeToString(b) }

func ownedStep(to string, b []byte, a *step.Archive) Assignment {
	return Assignment{Step: Step{Kind: Install, URL: base64URL(b), InstallPath: to, Archive: a}}
}

func account1001(user, group string) *step.Archive {
	return &step.Archive{Users: []step.Account{{Name: user, ID: 1001}}, Groups: []step.Account{{Name: group, ID: 1001}}}
}

func folder(path string, id uint32, mode string) step.Folder {
	return step.Folder{Path: path, User: id, Group: id, Mode: mode}
}

func readEtc(t testing.TB, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "etc", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// expectOwners compares folders of the node.
func expectOwners(t testing.TB, dir string, want map[string]string) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if got := ownerAndMode(t, filepath.Join(dir, path)); got != want[path] {
			t.Errorf("%s is %s, want %s", path, got, want[path])
		}
	}
}

func install(t *testing.T, dir string, n int, o Assignment) {
	t.Helper()
	if r := runStep(t, dir, n, o); r.State != Done {
		t.Fatalf("%+v", r)
	}
}

func TestT1SourceLocation(t *testing.T) {
	dir := newNode(t)
	a := account1001("myappadm", "myappgrp")
	a.Folders = []step.Folder{folder(dir+"/myapplication", 1001, "755"), folder(dir+"/myapplication/mydatabase", 1001, "0754")}
	install(t, dir, 1, ownedStep(dir+"/myapplication/mydatabase", packOwned(t, database...), a))
	expectOwners(t, dir, map[string]string{"myapplication": "drwxr-xr-x 1001:1001", "myapplication/mydatabase": "drwxr-xr-- 1001:1001"})
	if got := listOwners(t, dir+"/myapplication/mydatabase"); got != databaseTree(1001, 1001) {
		t.Errorf("there is\n%s", got)
	}
	day := time.Now().Unix() / 86400
	for name, want := range map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/bash\nmyappadm:x:1001:1001::/home/myappadm:/bin/sh\n",
		"group":  "root:x:0:\nmyappgrp:x:1001:\n",
		"shadow": fmt.Sprintf("root:*:19000:0:99999:7:::\nmyappadm:!:%d:0:99999:7:::\n", day), "gshadow": "root:*::\nmyappgrp:!::\n",
	} {
		if got := readEtc(t, dir, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestT2ContextLocation(t *testing.T) {
	dir := newNode(t)
	a := account1001("myappadm", "myappgrp")
	a.Folders = []step.Folder{folder(dir+"/myapp", 1001, "0755"), folder(dir+"/myapp/mydb", 1001, "0754")}
	install(t, dir, 1, ownedStep(dir+"/myapp/mydb", packOwned(t, database...), a))
	if got := listOwners(t, dir+"/myapp"); !strings.HasPrefix(got, "drwxr-xr-- 1001:1001 mydb\n") {
		t.Errorf("there is\n%s", got)
	}
	if _, err := os.Lstat(dir + "/myapplication"); err == nil {
		t.Error("the source's folder exists")
	}
}

func TestT3TakenNumber(t *testing.T) {
	dir := newNode(t)
	writeTestFile(t, dir+"/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nbob:x:1001:1001::/home/bob:/bin/sh\ncarol:x:1002:5::/:/bin/sh\n")
	writeTestFile(t, dir+"/etc/group", "root:x:0:\nbob:x:1001:")
	a := account1001("myappadm", "myappgrp")
	a.Folders = []step.Folder{folder(dir+"/app", 1001, "0750")}
	install(t, dir, 1, ownedStep(dir+"/app/db", packOwned(t, database...), a))
	expectOwners(t, dir, map[string]string{"app": "drwxr-x--- 1003:1002", "app/db": "drwxr-xr-x 0:0"})
	if got := listOwners(t, dir+"/app/db"); got != databaseTree(1003, 1002) {
		t.Errorf("there is\n%s", got)
	}
	if got := readEtc(t, dir, "group"); got != "root:x:0:\nbob:x:1001:\nmyappgrp:x:1002:\n" {
		t.Errorf("the groups are %q", got)
	}
	if got := readEtc(t, dir, "passwd"); !strings.HasSuffix(got, "\nmyappadm:x:1003:1002::/home/myappadm:/bin/sh\n") {
		t.Errorf("the users are %q", got)
	}
}

// The record of the context replaces that of the same number, before the step comes here.
func TestT4OtherName(t *testing.T) {
	dir := newNode(t)
	a := account1001("contextadm", "myappgrp")
	a.Users = append(a.Users, step.Account{Name: "second", ID: 2002})
	install(t, dir, 1, ownedStep(dir+"/db", packOwned(t, database...), a))
	if got := readEtc(t, dir, "passwd"); strings.Contains(got, "myappadm") ||
		!strings.Contains(got, "\ncontextadm:x:1001:1001:") || !strings.Contains(got, "\nsecond:x:2002:2002:") {
		t.Errorf("the users are %q", got)
	}
}

func TestT5MissingSegment(t *testing.T) {
	dir := newNode(t)
	writeTestFile(t, dir+"/there/file", "")
	if err := os.Chmod(dir+"/there", 0o701); err != nil {
		t.Fatal(err)
	}
	a := account1001("db", "db")
	a.Folders = []step.Folder{folder(dir+"/there/a", 1001, "0711"), folder(dir+"/there/a/b/c", 1001, "0700")}
	install(t, dir, 1, ownedStep(dir+"/there/a/b/c", packOwned(t, database...), a))
	expectOwners(t, dir, map[string]string{
		"there": "drwx-----x 0:0", "there/a": "drwx--x--x 1001:1001", "there/a/b": "drwxr-xr-x 0:0", "there/a/b/c": "drwx------ 1001:1001",
	})
	// An existing folder that is listed gets its owner and mode.
	a.Folders = []step.Folder{folder(dir+"/there", 0, "0755")}
	install(t, dir, 2, ownedStep(dir+"/there", packOwned(t, database[0]), a))
	expectOwners(t, dir, map[string]string{"there": "drwxr-xr-x 0:0", "there/a": "drwx--x--x 1001:1001"})
}

func TestT9TwoArchives(t *testing.T) {
	dir := newNode(t)
	first, second := account1001("first", "first"), account1001("second", "second")
	first.Folders = []step.Folder{folder(dir+"/context", 1001, "0750")}
	second.Folders = []step.Folder{folder(dir+"/source", 1001, "0705")}
	install(t, dir, 1, ownedStep(dir+"/context", packOwned(t, database...), first))
	install(t, dir, 2, ownedStep(dir+"/source", packOwned(t, database...), second))
	expectOwners(t, dir, map[string]string{"context": "drwxr-x--- 1001:1001", "source": "drwx---r-x 1002:1002"})
	if got := listOwners(t, dir+"/source"); got != databaseTree(1002, 1002) {
		t.Errorf("there is\n%s", got)
	}
}

// Nothing of a hostile archive is unpacked, and no account is created for it.
func TestT17HostileArchives(t *testing.T) {
	dir := newNode(t)
	before := readEtc(t, dir, "passwd") + readEtc(t, dir, "group")
	file := func(name string) ownedEntry {
		return ownedEntry{entry{kind: kindFile, name: name, mode: 0o644}, 1001, 1001}
	}
	link := func(kind kind, target string) ownedEntry {
		return ownedEntry{entry{kind: kind, name: "link", target: target}, 1001, 1001}
	}
	for i, tt := range []struct {
		rule    string
		entries []ownedEntry
		err     string
	}{
		{"a name in the folder", []ownedEntry{file("a/../b")}, "has .. in its name"},
		{"a name with dots", []ownedEntry{file("a/..b")}, ""},
		{"a name outside", []ownedEntry{file("../../etc/x")}, "has .. in its name"},
		{"an absolute name", []ownedEntry{file("/etc/x")}, "is an absolute name"},
		{"a link to /etc", []ownedEntry{link(kindLink, "/etc"), file("link/x")}, "outside of"},
		{"a link outside", []ownedEntry{link(kindLink, "../x")}, "leads outside"},
		{"a link inside", []ownedEntry{file("etc/x"), link(kindLink, "etc")}, ""},
		{"a file below a link", []ownedEntry{link(kindLink, "etc"), file("link/x")}, "which is not a folder"},
		{"a hard link outside", []ownedEntry{link(kindHardLink, "../../etc/shadow")}, "leads outside"},
		{"a hard link inside", []ownedEntry{file("x"), link(kindHardLink, "x")}, ""},
		{"a device", []ownedEntry{{entry{name: "null", mode: 0o666}, 0, 0}}, "is a device"},
		{"the largest number", []ownedEntry{{file("x").entry, 1<<32 - 2, 1<<32 - 2}}, ""},
		{"the number that means none", []ownedEntry{{file("x").entry, 1<<32 - 1, 0}}, "belongs to user 4294967295"},
		{"a larger number", []ownedEntry{{file("x").entry, 0, 1<<32 + 5}}, "belongs to group 4294967301"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			to := fmt.Sprintf("%s/to%d/x", dir, i)
			r := runStep(t, dir, i+1, ownedStep(to, packOwned(t, append([]ownedEntry{file("first")}, tt.entries...)...), account1001("db", "db")))
			if tt.err == "" {
				if r.State != Done || !strings.Contains(listOwners(t, to), " 1001:1001 first\n") {
					t.Errorf("%+v", r)
				}
				for name, text := range map[string]string{"passwd": "root:x:0:0:root:/root:/bin/bash\n", "group": "root:x:0:\n"} {
					writeTestFile(t, filepath.Join(dir, "etc", name), text)
				}
				return
			}
			if r.State != Failed || !strings.Contains(r.Message, tt.err) {
				t.Errorf("%+v, want %q", r, tt.err)
			}
			if _, err := os.Lstat(filepath.Dir(to)); err == nil {
				t.Errorf("there is\n%s", listOwners(t, filepath.Dir(to)))
			}
			if got := readEtc(t, dir, "passwd") + readEtc(t, dir, "group"); got != before {
				t.Errorf("the accounts are %q", got)
			}
		})
	}
}

// listChanges lists everything that shows whether files were changed.
func listChanges(t testing.TB, dirs ...string) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var st unix.Stat_t
			if err := unix.Lstat(path, &st); err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s %d %o %d:%d %d %v %v\n", path, st.Ino, st.Mode, st.Uid, st.Gid, st.Size, st.Mtim, st.Ctim)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestT18SecondRunChangesNothing(t *testing.T) {
	dir := newNode(t)
	plan := func(attempt int) {
		for n, o := range []Assignment{
			ownedStep(dir+"/to/db", packOwned(t, database...), &step.Archive{Users: []step.Account{{Name: "db", ID: 0}}, Folders: []step.Folder{folder(dir+"/to", 0, "0750")}}),
			ownedStep(dir+"/to/db", packOwned(t, database[1], database[2]), account1001("db", "db")),
			ownedStep(dir+"/to/zip", packArchive(t, formatZip, tool...), account1001("zip", "zip")),
			ownedStep(dir+"/to/file", []byte("no archive"), account1001("zip", "zip")),
		} {
			o.Attempt = attempt
			install(t, dir, n+1, o)
		}
	}
	plan(0)
	before := listChanges(t, dir+"/to", dir+"/etc", dir+"/lib/artifacts")
	plan(1)
	if after := listChanges(t, dir+"/to", dir+"/etc", dir+"/lib/artifacts"); after != before {
		t.Errorf("there is\n%s\nwas\n%s", after, before)
	}
	if err := os.RemoveAll(dir + "/to/db"); err != nil {
		t.Fatal(err)
	}
	plan(2)
	if got := listOwners(t, dir+"/to/db"); !strings.Contains(got, "2002:3003 other/text") {
		t.Errorf("a removed folder is not installed again:\n%s", got)
	}
}

// After a kill at any moment, the next attempt leaves what an attempt without a kill leaves.
func TestT18Kills(t *testing.T) {
	var entries []ownedEntry
	for i := range 60 {
		entries = append(entries, ownedEntry{entry{kind: kindFolder, name: fmt.Sprintf("d%d", i), mode: 0o555}, 1001, 1001},
			ownedEntry{entry{kind: kindFile, name: fmt.Sprintf("d%d/x", i), mode: 0o400}, 1001, 5})
	}
	b := packOwned(t, entries...)
	state := func(dir string) string {
		return listOwners(t, dir+"/to") + readEtc(t, dir, "passwd") + readEtc(t, dir, "group") + readEtc(t, dir, "shadow") + readEtc(t, dir, "gshadow")
	}
	order := func(dir string) Assignment {
		a := account1001("db", "dbs")
		a.Users = append(a.Users, step.Account{Name: "web", ID: 1002})
		a.Folders = []step.Folder{folder(dir+"/to/a", 1002, "0750")}
		return ownedStep(dir+"/to/a/b", b, a)
	}
	dir := newNode(t)
	began := time.Now()
	install(t, dir, 1, order(dir))
	took, want := time.Since(began), state(dir)
	rounds := require.Rounds(5, 15)
	for i := range rounds {
		dir := newNode(t)
		_, c := startAttempt(t, dir, 1, order(dir))
		timer := time.AfterFunc(took*time.Duration(i)/time.Duration(rounds), func() { c.Process.Kill() })
		waitForStep(t, dir, 1)
		timer.Stop()
		o := order(dir)
		o.Attempt = 1
		install(t, dir, 1, o)
		if got := state(dir); got != want {
			t.Fatalf("after kill %d there is\n%s\nwant\n%s", i, got, want)
		}
		if left, _ := filepath.Glob(dir + "/etc/.*.setup"); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
	}
}

func TestT19PathWithoutSegments(t *testing.T) {
	dir := newNode(t)
	install(t, dir, 1, ownedStep(dir+"/context/path", packOwned(t, database...), account1001("db", "db")))
	expectOwners(t, dir, map[string]string{"context": "drwxr-xr-x 0:0", "context/path": "drwxr-xr-x 0:0"})
	if got := listOwners(t, dir+"/context/path"); got != databaseTree(1001, 1001) {
		t.Errorf("there is\n%s", got)
	}
}

// All compressions keep owners. A zip and a file that is no archive belong to the owner of the last
// folder.
func TestFormatsWithOwners(t *testing.T) {
	dir := newNode(t)
	plain := packOwned(t, database...)
	zipTree := strings.NewReplacer("0:0", "1001:1001").Replace(`drwxrwxrwx 0:0 empty
dr-xr-xr-x 0:0 tool
drwxr-xr-x 0:0 tool/deep
drwxr-xr-x 0:0 tool/deep/down
-rw-r----- 0:0 tool/deep/down/text
Lrwxrwxrwx 0:0 tool/deep/up
Lrwxrwxrwx 0:0 tool/latest
-rwxr-xr-x 0:0 tool/run
-rwxr-xr-x 0:0 tool/su
`)
	for i, tt := range []struct {
		rule string
		b    []byte
		want string
	}{
		{"tar", plain, databaseTree(1001, 1001)},
		{"gz", gzipped(t, plain), databaseTree(1001, 1001)},
		{"bz2", runFilter(t, "bzip2", plain), databaseTree(1001, 1001)},
		{"xz", runFilter(t, "xz", plain), databaseTree(1001, 1001)},
		{"zip", packArchive(t, formatZip, tool...), zipTree},
		{"a script", []byte("#!/bin/sh\n"), "-rwxr-xr-x 1001:1001 install-6\n"},
	} {
		a := account1001("db", "db")
		to := filepath.Join(dir, tt.rule)
		a.Folders = []step.Folder{folder(to+"/in", 1001, "0750"), folder(to, 0, "0755")}
		install(t, dir, i+1, ownedStep(to+"/in", tt.b, a))
		if got := strings.ReplaceAll(listOwners(t, to+"/in"), "dtrwx", "drwx"); got != tt.want {
			t.Errorf("%s: there is\n%s", tt.rule, got)
		}
		expectOwners(t, to, map[string]string{".": "drwxr-xr-x 0:0", "in": "drwxr-x--- 1001:1001"})
	}
}
