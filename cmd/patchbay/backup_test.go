package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/store"
	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
)

// backupTest is a site with a user and two slices for tests of backups.
type backupTest struct {
	t    *testing.T
	dir  string
	site func(args ...string) (int, string)
}

// aliceAndFirst are commands that create the user alice and the slice first.
var aliceAndFirst = [][]string{{"user", "alice"}, {"slice", "first", "--owner", "alice"}}

func newBackupTest(t *testing.T) *backupTest {
	dir := program.NewSite(t, append(aliceAndFirst, []string{"slice", "second", "--owner", "alice"})...)
	return &backupTest{t, dir, func(args ...string) (int, string) { return runCommand(t, append(args, "--config", dir)...) }}
}

func (k *backupTest) path(name string) string { return filepath.Join(k.dir, name) }

// runOK runs a command that must succeed.
func (k *backupTest) runOK(args []string, parts ...string) string {
	k.t.Helper()
	code, out := k.site(args...)
	if code != 0 {
		k.t.Fatalf("%q: exit status %d\n%s", args, code, out)
	}
	program.WantTexts(k.t, out, parts...)
	return out
}

// runRefused runs a command that must fail with exit status 1.
func (k *backupTest) runRefused(args []string, parts ...string) {
	k.t.Helper()
	code, out := k.site(args...)
	if code != 1 {
		k.t.Errorf("%q: exit status %d", args, code)
	}
	program.WantTexts(k.t, out, parts...)
}

// call makes a call as alice, about the slice first unless args name another. The call
// must succeed.
func (k *backupTest) call(s *serverProcess, args ...string) string {
	k.t.Helper()
	code, out := runCommand(k.t, append([]string{"call", "--url", s.url, "--user", k.path("users/alice"), "--slice", "first", "--urns"}, args...)...)
	if code != 0 {
		k.t.Fatal(out)
	}
	return out
}

// allocate reserves the nodes of the sample request in a slice, as alice.
func (k *backupTest) allocate(s *serverProcess, slice string) {
	k.t.Helper()
	k.call(s, "--slice", slice, "Allocate", k.path("request.xml"))
}

// wantNoLeftovers fails if unfinished files are left.
func (k *backupTest) wantNoLeftovers() {
	k.t.Helper()
	for _, pattern := range []string{"*.new-*", "*.restore-*", "*.new", unfinishedBackup + "*"} {
		left, err := filepath.Glob(k.path(pattern))
		if err != nil {
			k.t.Fatal(err)
		}
		for _, name := range left {
			if !strings.Contains(name, ".before-restore-") {
				k.t.Errorf("left behind: %s", name)
			}
		}
	}
}

// TestBackupAndRestore backs up a served site, restores it after further reservations,
// and over a damaged database.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	k := newBackupTest(t)
	file, state := k.path("b.db"), k.path("state.db")
	k.runRefused([]string{"backup", file}, "the site has no store yet")

	s := serve(t, k.dir)
	k.allocate(s, "first")
	k.runOK([]string{"backup", file}, "Backup of testbed.example.org: 1 slice, 2 slivers, revision ", ", in "+file)
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the backup is %v, %v", info, err)
	}
	first, err := store.Check(file)
	if err != nil || first.Err() != nil || first.Records[store.Slivers] != 2 {
		t.Errorf("the backup is %+v, %v", first, err)
	}
	k.runRefused([]string{"backup", file}, "exists already", "--force")
	k.runRefused([]string{"backup", "--force", state}, "is the database itself")
	k.runOK([]string{"backup", "--force", file}, "1 slice")
	if out := k.runOK([]string{"backup", "-"}, "Backup of testbed.example.org: 1 slice, 2 slivers"); len(out) < int(first.Size) {
		t.Errorf("standard output has %d bytes", len(out))
	}
	k.runRefused([]string{"restore", k.path("nosuch")}, "there is no file "+k.path("nosuch")+"; name the file of a backup")
	k.runRefused([]string{"restore", file}, "another process has it open; is a server running on it?", "Stop it first")
	k.runOK([]string{"check"}, "1 slice, 2 slivers, revision ", "all records and indexes agree")

	k.allocate(s, "second")
	if code := s.stop(); code != 0 {
		t.Fatalf("serve ended with %d:\n%s", code, s.out)
	}
	later := k.path("later.db")
	k.runOK([]string{"backup", later}, "2 slices, 4 slivers")
	before := program.ReadFile(t, state)
	k.runRefused([]string{"restore", file}, "1 slices are not in the backup and would be lost:\n  urn:publicid:IDN+testbed.example.org+slice+second",
		"2 slivers are not in the backup and would be lost:\n  second/", " of urn:publicid:IDN+testbed.example.org+user+alice, until 20", "nothing was changed", "--yes")
	if program.ReadFile(t, state) != before {
		t.Error("a restore that was refused has changed something")
	}
	k.runOK([]string{"restore", "--yes", file}, "1 slice, 2 slivers, revision", "The previous database is in "+state+".before-restore-")
	now, err := store.Check(state)
	was, err2 := store.Check(later)
	if err := errors.Join(err, err2); err != nil || now.Err() != nil || now.Records[store.Slivers] != 2 || now.Revision <= was.Revision {
		t.Errorf("the state is %+v after %+v, %v", now, was, err)
	}
	kept, err := filepath.Glob(state + ".before-restore-*")
	if err != nil || len(kept) != 1 || program.ReadFile(t, kept[0]) != before {
		t.Errorf("kept is %v, %v", kept, err)
	}

	s = serve(t, k.dir)
	wait.Until(t, "providers have told what they have", func() bool {
		_, err := os.Stat(state + ".restored")
		return errors.Is(err, fs.ErrNotExist)
	})
	k.allocate(s, "second") // the nodes are free again
	if strings.Contains(s.out.String(), "the store is older than the audit") {
		t.Errorf("the audit does not take the store for its own:\n%s", s.out)
	}
	s.stop()
	// Restore over a damaged database.
	if err := os.Truncate(state, 5000); err != nil {
		t.Fatal(err)
	}
	k.runRefused([]string{"check"}, "damaged")
	k.runRefused([]string{"serve"}, "it is damaged or not a store", "restore a backup")
	k.runRefused([]string{"backup", "--force", file}, "damaged")
	damaged := program.ReadFile(t, state)
	k.runRefused([]string{"restore", later}, "The present database cannot be read", "the changes since the backup are unknown", "Reservations that were made after 20", " are lost, also those that begin later: there may be some with a start until 20", "nothing was changed; add --yes to restore and discard all changes since the backup")
	if program.ReadFile(t, state) != damaged {
		t.Error("a restore that was refused has changed something")
	}
	k.runOK([]string{"restore", "--yes", later}, "The present database cannot be read", "2 slices, 4 slivers")
	if now, err = store.Check(state); err != nil || now.Err() != nil || now.Records[store.Slices] != 2 {
		t.Errorf("the state is %+v, %v", now, err)
	}
	k.runOK([]string{"check"}, "2 slices, 4 slivers")

	k.wantNoLeftovers()
}

// TestRestoreRefuses proves that anything but a complete backup of this site is refused
// and changes nothing.
func TestRestoreRefuses(t *testing.T) {
	k := newBackupTest(t)
	s := serve(t, k.dir)
	k.allocate(s, "first")
	s.stop()
	file, state := k.path("b.db"), k.path("state.db")
	k.runOK([]string{"backup", file}, "2 slivers")
	good, before := program.ReadFile(t, file), program.ReadFile(t, state)
	other := newBackupTest(t)
	program.Edit(t, other.path("patchbay.yaml"), "authority: testbed.example.org", "authority: other.example.org")
	for _, tt := range []struct {
		rule, text, want string
	}{
		{"cut off", good[:len(good)-4096], "damaged"},
		{"garbage", strings.Repeat("garbage\n", 4096), "; name another backup file"},
		{"empty", "", "it is empty; name another backup file"},
		{"a bit turned over", flipBit(good, `"Generation":`), "sum"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			k := &backupTest{t, k.dir, k.site}
			bad := k.path("bad.db")
			program.Write(t, bad, tt.text)
			k.runRefused([]string{"restore", "--yes", bad}, tt.want, bad)
			if program.ReadFile(t, state) != before {
				t.Error("the state was changed")
			}
			k.wantNoLeftovers()
		})
	}
	k.runRefused([]string{"restore", "--yes", k.path("nothing.db")}, "there is no file "+k.path("nothing.db"))
	other.runRefused([]string{"restore", file}, "is a backup of the site testbed.example.org, not of other.example.org")
	other.wantNoLeftovers()
	k.runOK([]string{"restore", file}, "2 slivers") // nothing is lost
	k.wantNoLeftovers()
}

// flipBit returns text with one bit changed in the byte before the last occurrence of
// what.
func flipBit(text, what string) string {
	b := []byte(text)
	b[strings.LastIndex(text, what)-1] ^= 1
	return string(b)
}
