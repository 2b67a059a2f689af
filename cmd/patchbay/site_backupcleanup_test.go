package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/am/store"
	"patchbay/am/testkit/wait"
)

// unfinishedBackups returns the unfinished backups in a folder.
func unfinishedBackups(t *testing.T, folder string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, unfinished+"*"))
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
	place := func(name string) string { return filepath.Join(folder, unfinished+name) }
	killed, elses := place("1\n\x1b[2J"), filepath.Join(folder, "x"+unfinished+"1")
	for _, name := range []string{killed, elses} {
		write(t, name, "half")
	}
	if err := os.Mkdir(place("2"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elses, place("3")); err != nil {
		t.Fatal(err)
	}
	other, err := newBackup(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	out := k.runOK([]string{"backup", filepath.Join(folder, "b.db")}, fmt.Sprintf("removed %q", killed)+", left by an interrupted backup", "Backup of testbed.example.org")
	if strings.Count(out, "removed ") != 1 || pathExists(killed) || !pathExists(elses) || !pathExists(place("2")) || !pathExists(place("3")) || !pathExists(other.Name()) {
		t.Errorf("there is %v, and it says\n%s", unfinishedBackups(t, folder), out)
	}
	other.Close()
	k.runOK([]string{"backup", filepath.Join(folder, "c.db")}, fmt.Sprintf("removed %q", other.Name()))

	if os.Geteuid() == 0 {
		if err := os.WriteFile(killed, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(killed, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if out := k.runOK([]string{"backup", "--force", filepath.Join(folder, "c.db")}); strings.Contains(out, "removed ") || !pathExists(killed) {
			t.Errorf("what another user has left: %s", out)
		}
	}
}

func pathExists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// TestKilledBackup kills backups of a served site at random moments,
// PATCHBAY_BACKUP_KILLS times or 30, and every other one while its file exists. The named
// file is then missing or complete, and the next backup removes leftovers.
func TestKilledBackup(t *testing.T) {
	rounds := killCount(t, "PATCHBAY_BACKUP_KILLS", 30)
	o := newOperatedSite(t)
	c := o.client(o.user, false)
	slice, cred := o.slice("kept")
	o.awaitReady(c, slice, cred)
	folder := t.TempDir()
	file := filepath.Join(folder, "backup.db")
	whole := func() bool {
		if !pathExists(file) {
			return false
		}
		report, err := store.Check(file)
		if err == nil {
			err = report.Err()
		}
		if err != nil || report.Site != "testbed.example.org" || report.Records[store.Slivers] != 1 {
			t.Fatalf("a killed backup leaves %+v, %v", report, err)
		}
		return true
	}
	began, finished, halves := time.Now(), 0, 0
	o.runOK("backup", file)
	took := time.Since(began)
	for round := range rounds {
		force := round%4 >= 2
		if !force {
			os.Remove(file)
		}
		was := pathExists(file)
		args := []string{"backup", file, "--config", o.dir}
		if force {
			args = append(args, "--force")
		}
		before := unfinishedBackups(t, folder)
		fresh := func() bool {
			return slices.ContainsFunc(unfinishedBackups(t, folder), func(name string) bool { return !slices.Contains(before, name) })
		}
		cmd := exec.Command(filepath.Join(o.bin, "patchbay"), args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { defer close(ended); cmd.Wait() }()
		wait := time.Duration(float64(took) * 1.2 * float64(round+1) / float64(rounds))
		for begun, ends := time.Now(), false; !ends; {
			select {
			case <-ended:
				ends = true
			case <-time.After(100 * time.Microsecond):
				ends = round%2 == 0 && time.Since(begun) > wait || round%2 == 1 && fresh()
			}
		}
		cmd.Process.Signal(syscall.SIGKILL)
		<-ended
		if fresh() {
			halves++
		}
		if there := whole(); there {
			finished++
		} else if was {
			t.Fatal("a killed backup with --force has removed the one before")
		}
	}
	var out, errs string
	wait.Until(t, "a backup is made", func() (done bool) { // the server may still run the last one
		var status int
		out, errs, status = o.patchbay("backup", "--force", file, "--config", o.dir)
		return status == 0
	})
	if !whole() || len(unfinishedBackups(t, folder)) > 0 {
		t.Errorf("after the next backup there is %v beside it: %s%s", unfinishedBackups(t, folder), out, errs)
	}
	t.Logf("%d killed within %v each: %d times a whole one was there, %d had left something", rounds, took.Round(time.Millisecond), finished, halves)
}
