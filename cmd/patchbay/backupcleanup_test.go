package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"patchbay/am/testkit/program"
)

// unfinishedBackup begins the names of unfinished backups.
const unfinishedBackup = "patchbay-backup-unfinished-"

// unfinishedBackups returns the unfinished backups in a folder.
func unfinishedBackups(t *testing.T, folder string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, unfinishedBackup+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestBackupRemovesLeftoversOfKilledBackup proves that backup removes unfinished backups
// of killed commands, but no file of a running one and no other file with such a name.
func TestBackupRemovesLeftoversOfKilledBackup(t *testing.T) {
	k := newBackupTest(t)
	site := serve(t, k.dir)
	k.allocate(site, "first")
	folder := t.TempDir()
	place := func(name string) string { return filepath.Join(folder, unfinishedBackup+name) }
	killed, elses := place("1\n\x1b[2J"), filepath.Join(folder, "x"+unfinishedBackup+"1")
	for _, name := range []string{killed, elses} {
		program.Write(t, name, "half")
	}
	if err := os.Mkdir(place("2"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elses, place("3")); err != nil {
		t.Fatal(err)
	}
	other, err := os.Create(place("4"))
	if err == nil {
		err = syscall.Flock(int(other.Fd()), syscall.LOCK_SH) // as a running backup does
	}
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	out := k.runOK([]string{"backup", filepath.Join(folder, "b.db")}, fmt.Sprintf("removed %q", killed)+", left by an interrupted backup", "Backup of testbed.example.org")
	if strings.Count(out, "removed ") != 1 || pathExists(killed) || !pathExists(elses) || !pathExists(place("2")) || !pathExists(place("3")) || !pathExists(other.Name()) {
		t.Errorf("unfinished are %v, the output is\n%s", unfinishedBackups(t, folder), out)
	}
	other.Close()
	k.runOK([]string{"backup", filepath.Join(folder, "c.db")}, fmt.Sprintf("removed %q", other.Name()))
}

func pathExists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
