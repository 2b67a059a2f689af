package setup

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
	"patchbay/rspec/step"
)

func silent(string, ...any) {}

func newTestOwners(a step.Archive, ids idRanges) *owners {
	return &owners{archive: &a, userIDs: ids, groupIDs: ids, users: map[uint32]uint32{}, groups: map[uint32]uint32{}}
}

func accountFilesOf(passwd, group, records string) *accountFiles {
	return &accountFiles{passwd: accountFile{text: []byte(passwd)}, group: accountFile{text: []byte(group)}, reserved: reservedIDs([]byte(records))}
}

func TestNumbersOfAccounts(t *testing.T) {
	const passwd, group = "root:x:0:0::/root:/bin/sh\ndb:x:70:71::/:\nbob:x:1001:1001::/:\n", "root:x:0:\ndb:x:71:\nweb:x:1002:\n"
	account := func(name string, id uint32) step.Account { return step.Account{Name: name, ID: id} }
	type list = []step.Account
	all := idRanges{{0, 1 << 32}}
	for _, tt := range []struct {
		rule          string
		users, groups list
		ids           idRanges
		records       string
		want          map[uint32]uint32 // of users
		wantGroups    map[uint32]uint32
		added         string // to passwd and group
	}{
		{"a free number", list{account("a", 2000)}, nil, all, "", map[uint32]uint32{2000: 2000}, nil, "a:*:2000:2000::/home/a:/bin/sh\n" + "a:x:2000:\n"},
		{"a name that exists", list{account("db", 2000)}, list{account("db", 2000)}, all, "", map[uint32]uint32{2000: 70}, map[uint32]uint32{2000: 71}, ""},
		{"a number that is taken", list{account("a", 1001)}, nil, all, "", map[uint32]uint32{1001: 1002}, nil, "a:*:1002:1003::/home/a:/bin/sh\n" + "a:x:1003:\n"},
		{"a number of the system that is taken", list{account("a", 0)}, nil, all, "", map[uint32]uint32{0: 1000}, nil, "a:*:1000:1000::/home/a:/bin/sh\n" + "a:x:1000:\n"},
		{"a number of the system that is free", list{account("a", 71)}, list{account("a", 71)}, all, "", map[uint32]uint32{71: 71}, map[uint32]uint32{71: 1000}, "a:*:71:1000::/home/a:/bin/sh\n" + "a:x:1000:\n"},
		{"the group of the same number", list{account("a", 3000)}, list{account("b", 3000)}, all, "", map[uint32]uint32{3000: 3000}, map[uint32]uint32{3000: 3000}, "a:*:3000:3000::/home/a:/bin/sh\n" + "b:x:3000:\n"},
		{"the group of the same number, which is taken", list{account("a", 1002)}, list{account("b", 1002)}, all, "", map[uint32]uint32{1002: 1002}, map[uint32]uint32{1002: 1003}, "a:*:1002:1003::/home/a:/bin/sh\n" + "b:x:1003:\n"},
		{"a group of the same name", list{account("web", 3000)}, nil, all, "", map[uint32]uint32{3000: 3000}, nil, "web:*:3000:1002::/home/web:/bin/sh\n"},
		{"two numbers of a name", list{account("a", 3000), account("a", 3001)}, nil, all, "", map[uint32]uint32{3000: 3000, 3001: 3000}, nil, "a:*:3000:3000::/home/a:/bin/sh\n" + "a:x:3000:\n"},
		{"two names of neighbouring numbers", list{account("a", 1001), account("b", 1002)}, nil, all, "", map[uint32]uint32{1001: 1002, 1002: 1003}, nil,
			"a:*:1002:1003::/home/a:/bin/sh\nb:*:1003:1004::/home/b:/bin/sh\n" + "a:x:1003:\nb:x:1004:\n"},
		{"a number beyond the id map", list{account("a", 65536)}, nil, idRanges{{0, 65536}}, "", map[uint32]uint32{65536: 1000}, nil, "a:*:1000:1000::/home/a:/bin/sh\n" + "a:x:1000:\n"},
		{"the last number of the id map", list{account("a", 65535)}, nil, idRanges{{0, 65536}}, "", map[uint32]uint32{65535: 65535}, nil, "a:*:65535:65535::/home/a:/bin/sh\n" + "a:x:65535:\n"},
		{"a gap in the id map", list{account("a", 1001)}, nil, idRanges{{0, 1002}, {2000, 10}}, "", map[uint32]uint32{1001: 1000}, nil, "a:*:1000:1000::/home/a:/bin/sh\n" + "a:x:1000:\n"},
		{"a number that the agent gave to another account", list{account("a", 10000)}, nil, all, "carol 10000 gone\n", map[uint32]uint32{10000: 10001}, nil, "a:*:10001:10001::/home/a:/bin/sh\n" + "a:x:10001:\n"},
	} {
		files := accountFilesOf(passwd, group, tt.records)
		files.shadow.isMissing, files.gshadow.isMissing = true, true
		o := newTestOwners(step.Archive{Users: tt.users, Groups: tt.groups}, tt.ids)
		if err := o.addAccounts(files, time.Now(), silent); err != nil {
			t.Errorf("%s: %v", tt.rule, err)
			continue
		}
		if !maps.Equal(o.users, tt.want) || !maps.Equal(o.groups, tt.wantGroups) {
			t.Errorf("%s: users %v, groups %v", tt.rule, o.users, o.groups)
		}
		if got := strings.TrimPrefix(string(files.passwd.text), passwd) + strings.TrimPrefix(string(files.group.text), group); got != tt.added {
			t.Errorf("%s: added %q, want %q", tt.rule, got, tt.added)
		}
	}
	o := newTestOwners(step.Archive{Users: list{account("a", 0)}}, idRanges{{0, 1000}})
	if err := o.addAccounts(accountFilesOf(passwd, group, ""), time.Now(), silent); err == nil || !strings.Contains(err.Error(), "no free number for the account a") {
		t.Errorf("without a free number: %v", err)
	}
}

func TestIDRanges(t *testing.T) {
	for _, tt := range []struct {
		text   string
		has    []uint32
		hasNot []uint32
		fails  bool
	}{
		{"         0          0 4294967295\n", []uint32{0, 1000, noID - 1}, []uint32{noID}, false},
		{"0 100000 10\n20 200000 1\n", []uint32{0, 9, 20}, []uint32{10, 19, 21}, false},
		{"", nil, []uint32{0}, false},
		{"0 1\n", nil, nil, true},
		{"0 1 x\n", nil, nil, true},
	} {
		r, err := parseIDRanges([]byte(tt.text))
		if (err != nil) != tt.fails {
			t.Errorf("%q: %v", tt.text, err)
		}
		for _, id := range tt.has {
			if !r.has(id) {
				t.Errorf("%q has no %d", tt.text, id)
			}
		}
		for _, id := range tt.hasNot {
			if r.has(id) {
				t.Errorf("%q has %d", tt.text, id)
			}
		}
	}
}

// An owner that the node cannot have is refused unless the archive lists it.
func TestOwnersBeyondTheIDMap(t *testing.T) {
	o := newTestOwners(*account1001("db", "db"), idRanges{{0, 1000}})
	for _, tt := range []struct {
		user, group int64
		err         string
	}{
		{999, 999, ""}, {1001, 1001, ""}, {1000, 0, "belongs to user 1000"}, {0, 1002, "belongs to group 1002"}, {-1, 0, "belongs to user -1"}, {0, 1 << 40, "belongs to group"},
	} {
		err := o.check("x", tt.user, tt.group)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%d:%d: %v, want %q", tt.user, tt.group, err, tt.err)
		}
	}
}

// The files keep their modes and owners. A file that the image does not have stays missing.
func TestAccountFilesKeepModes(t *testing.T) {
	require.Root(t)
	dir := newNode(t)
	etc := testFolders(dir).etc
	shadow := filepath.Join(etc, "shadow")
	if err := os.Chmod(shadow, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(shadow, 0, 42); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(etc, "gshadow")); err != nil {
		t.Fatal(err)
	}
	writeTestFile(t, filepath.Join(etc, ".passwd.setup"), "left by a killed process")
	before := listChanges(t, filepath.Join(etc, "group"))
	a := step.Archive{Users: []step.Account{{Name: "db", ID: 1001}}, Groups: []step.Account{{Name: "root", ID: 1001}}}
	f := testFolders(dir)
	o, err := newOwners(&a, "/root")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.createAccounts(&f, silent); err != nil {
		t.Fatal(err)
	}
	expectOwners(t, etc, map[string]string{"passwd": "-rw-r--r-- 0:0", "shadow": "-rw-r----- 0:42"})
	if got := readEtc(t, dir, "passwd"); !strings.Contains(got, "\ndb:x:1001:0:") {
		t.Errorf("the users are %q", got)
	}
	if after := listChanges(t, filepath.Join(etc, "group")); after != before {
		t.Errorf("a file without a new account is changed: %s, was %s", after, before)
	}
	entries, _ := os.ReadDir(etc)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{".pwd.lock", "group", "passwd", "shadow"}; !slices.Equal(names, want) {
		t.Errorf("there are %v, want %v", names, want)
	}
}

// The accounts are written only with the lock that useradd takes.
func TestAccountsAreLocked(t *testing.T) {
	require.Root(t)
	dir := newNode(t)
	lock := filepath.Join(dir, "etc", ".pwd.lock")
	script := "import fcntl,sys,time\nf=open(sys.argv[1],'w')\nfcntl.lockf(f,fcntl.LOCK_EX)\nprint('locked',flush=True)\nsys.stdin.read()\n"
	c := exec.Command(require.Tool(t, "python3"), "-c", script, lock)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { c.Process.Kill(); c.Wait() }()
	if _, err := out.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	locked := make(chan error, 1)
	go func() {
		unlock, err := lockAccounts(filepath.Join(dir, "etc"))
		if err == nil {
			unlock()
		}
		locked <- err
	}()
	select {
	case err := <-locked:
		t.Fatalf("the lock of another process is no obstacle: %v", err)
	case <-time.After(50 * lockPause):
	}
	in.Close()
	if err := <-locked; err != nil {
		t.Error(err)
	}
}

// Links of root lead to folders that are listed by their own path. The root of the file system
// never changes.
func TestListedFoldersBehindLinks(t *testing.T) {
	dir := newNode(t)
	if err := os.Mkdir(dir+"/real", 0o755); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"link": "real", "root": "/", "up": strings.Repeat("../", 20)} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	a := account1001("db", "db")
	a.Folders = []step.Folder{folder(dir+"/link", 1001, "0750"), folder(dir+"/link/in", 1001, "0700")}
	install(t, dir, 1, ownedStep(dir+"/link/in", packOwned(t, database...), a))
	expectOwners(t, dir, map[string]string{"link": "Lrwxrwxrwx 0:0", "real": "drwxr-x--- 1001:1001", "real/in": "drwx------ 1001:1001"})
	var before, after unix.Stat_t
	if err := unix.Stat("/", &before); err != nil {
		t.Fatal(err)
	}
	for i, link := range []string{"/root", "/up"} {
		a.Folders = []step.Folder{folder(dir+link, 1001, "0711"), folder(dir+link+dir+"/x", 1001, "0711")}
		install(t, dir, 2+i, ownedStep(dir+link+dir+"/x", packOwned(t, database...), a))
		expectOwners(t, dir, map[string]string{"x": "drwx--x--x 1001:1001"})
		if err := os.RemoveAll(dir + "/x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Stat("/", &after); err != nil || after.Mode != before.Mode || after.Uid != before.Uid || after.Ctim != before.Ctim {
		t.Errorf("/ is %+v, was %+v, %v", after, before, err)
	}
}

// In files with any content, existing lines stay, and an account that is added twice is added once.
func FuzzAccountFiles(f *testing.F) {
	f.Add([]byte("root:x:0:0::/root:/bin/sh\nbob:x:1001:1001::/:"), []byte("root:x:0:\n"), []byte("carol 1002\n"), "db", uint32(1001), uint32(65536))
	f.Add([]byte(":::\nx:x:4294967295:0:::\n+::::::\n"), []byte("db:x:5:\ndb:x:6:\n"), []byte("x -1\n"), "db", uint32(0), uint32(2000))
	f.Fuzz(func(t *testing.T, passwd, group, records []byte, name string, id, count uint32) {
		a := step.Archive{Users: []step.Account{{Name: name, ID: id}}}
		if checkAccounts("user", a.Users) != nil {
			return
		}
		files := accountFilesOf(string(passwd), string(group), string(records))
		ids := idRanges{{0, uint64(count)}}
		existing, exists := files.passwd.numbers(7, files.reserved, ids).byName[name]
		o := newTestOwners(a, ids)
		if err := o.addAccounts(files, time.Now(), silent); err != nil {
			return
		}
		got := o.users[id]
		users := files.passwd.numbers(7, map[uint32]bool{}, ids)
		switch {
		case users.byName[name] != got:
			t.Errorf("%s has the number %d, not %d", name, users.byName[name], got)
		case exists && got != existing:
			t.Errorf("%s had the number %d, now %d", name, existing, got)
		case !exists && (!ids.has(got) || files.reserved[got] || bytes.Contains(passwd, fmt.Appendf(nil, "x:%d:0:::\n", got))):
			t.Errorf("the new number %d is in use", got)
		case !bytes.HasPrefix(files.passwd.text, passwd) || !bytes.HasPrefix(files.group.text, group):
			t.Errorf("lines of others changed: %q, %q", files.passwd.text, files.group.text)
		case bytes.Count(files.passwd.text, []byte("\n")) > bytes.Count(passwd, []byte("\n"))+2:
			t.Errorf("more than one line is added: %q", files.passwd.text)
		}
		before := string(files.passwd.text) + string(files.group.text) + string(files.shadow.text) + string(files.gshadow.text)
		again := newTestOwners(a, ids)
		if err := again.addAccounts(files, time.Now(), silent); err != nil || again.users[id] != got ||
			string(files.passwd.text)+string(files.group.text)+string(files.shadow.text)+string(files.gshadow.text) != before {
			t.Errorf("added again: %v, %v, %q", err, again.users, files.passwd.text)
		}
	})
}
