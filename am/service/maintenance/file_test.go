package maintenance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
)

func TestChangeKeepsOtherEntries(t *testing.T) {
	file := filepath.Join(t.TempDir(), "maintenance.yaml")
	const before = `# Ask the office before you lift this.
lockdown: {text: "power cut", since: 2030-01-31T08:00:00Z} # noon
planned:
  # the old rack
  - components: [pc1..pc4] # not pc5
    from: 2030-02-01T08:00:00Z
    until: 2030-02-01T12:00:00Z
    text: new disks
  - {from: 2031-01-01T00:00:00Z, until: 2031-01-02T00:00:00Z, text: move}
`
	if err := os.WriteFile(file, []byte(before), 0o640); err != nil {
		t.Fatal(err)
	}
	p, err := Change(file, func(d *Draft) error {
		d.LiftLockdown()
		d.Add(Window{Components: []string{"h1", "h2..h4"}, From: minute(0), Until: minute(1), Text: `a "quoted" #text: {x}`})
		d.Remove(func(w *Window) bool { return w.Text == "move" })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(file)
	const after = `# Ask the office before you lift this.
planned:
  # the old rack
  - components: [pc1..pc4] # not pc5
    from: 2030-02-01T08:00:00Z
    until: 2030-02-01T12:00:00Z
    text: new disks
  - components: [h1, h2..h4]
    from: 2030-01-01T00:00:00Z
    until: 2030-01-01T00:01:00Z
    text: "a \"quoted\" #text: {x}"
`
	if string(text) != after {
		t.Errorf("the file is\n%s", text)
	}
	if q, err := Read(file); err != nil || q.Fingerprint != p.Fingerprint || len(p.Planned) != 2 || p.Planned[1].Text != `a "quoted" #text: {x}` {
		t.Errorf("%+v, %v", q, err)
	}
	if info, _ := os.Stat(file); info.Mode().Perm() != 0o640 {
		t.Errorf("its mode has become %v", info.Mode())
	}
}

func TestChangeMakesTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "maintenance.yaml")
	for _, step := range []struct {
		edit func(*Draft)
		want string
	}{
		{func(d *Draft) { d.Remove(func(*Window) bool { return true }) }, "{}\n"},
		{func(d *Draft) { d.SetLockdown(Lockdown{Text: "no", Since: minute(0)}) }, "lockdown:\n  text: \"no\"\n  since: 2030-01-01T00:00:00Z\n"},
		{func(d *Draft) { d.SetLockdown(Lockdown{Text: "1e3", Since: minute(1)}) }, "lockdown:\n  text: \"1e3\"\n  since: 2030-01-01T00:01:00Z\n"},
		{func(d *Draft) { d.Add(Window{From: minute(0), Until: minute(1), Text: "x"}); d.LiftLockdown() }, "planned:\n  - from: 2030-01-01T00:00:00Z\n    until: 2030-01-01T00:01:00Z\n    text: \"x\"\n"},
		{func(d *Draft) { d.Remove(func(*Window) bool { return true }) }, "{}\n"},
	} {
		if _, err := Change(file, func(d *Draft) error { step.edit(d); return nil }); err != nil {
			t.Fatal(err)
		}
		text, _ := os.ReadFile(file)
		if got, _ := strings.CutPrefix(string(text), "# "+strings.ReplaceAll(header, "\n", "\n# ")+"\n"); strings.TrimLeft(got, "\n") != step.want {
			t.Errorf("the file is\n%swant\n%s", text, step.want)
		}
	}
}

func TestChangeTouchesNoFileWithMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "maintenance.yaml")
	no := errors.New("no")
	for _, tt := range []struct {
		rule, text, want string
		edit             func(*Draft) error
	}{
		{"broken before", "lokdown: x\n", "nothing was changed", func(d *Draft) error { d.LiftLockdown(); return nil }},
		{"broken after", "lockdown: {text: x}\n", "nothing was changed", func(d *Draft) error { d.SetLockdown(Lockdown{Text: "two\nlines", Since: epoch}); return nil }},
		{"refused", "lockdown: {text: x}\n", "no", func(d *Draft) error { d.LiftLockdown(); return no }},
	} {
		if err := os.WriteFile(file, []byte(tt.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Change(file, tt.edit); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.rule, err)
		}
		if text, _ := os.ReadFile(file); string(text) != tt.text {
			t.Errorf("%s: the file is %s", tt.rule, text)
		}
		if all, _ := os.ReadDir(filepath.Dir(file)); len(all) != 1 {
			t.Errorf("%s: %d files", tt.rule, len(all))
		}
	}
}

func TestChangesAtTheSameTimeAllCount(t *testing.T) {
	file := filepath.Join(t.TempDir(), "maintenance.yaml")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, err := Change(file, func(d *Draft) error {
				d.Add(Window{Components: []string{fmt.Sprint("pc", i)}, From: minute(0), Until: minute(1), Text: "x"})
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if p, err := Read(file); err != nil || len(p.Planned) != 8 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestChangeBelongsToItsFolder checks that a site that runs as its own user can read a file that
// root has changed. It proves most when root runs it.
func TestChangeBelongsToItsFolder(t *testing.T) {
	owner := func(file string) [2]uint32 {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		s := info.Sys().(*syscall.Stat_t)
		return [2]uint32{s.Uid, s.Gid}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "maintenance.yaml")
	give := func(name string, id int) {
		if os.Geteuid() == 0 {
			if err := os.Chown(name, id, id+1); err != nil {
				t.Fatal(err)
			}
		}
	}
	change := func() {
		t.Helper()
		if _, err := Change(file, func(d *Draft) error { d.SetLockdown(Lockdown{Text: "x", Since: epoch}); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // so that its owner gets there
		t.Fatal(err)
	}
	give(dir, 4000)
	change()
	if owner(file) != owner(dir) {
		t.Errorf("a new file belongs to %v, its folder to %v", owner(file), owner(dir))
	}
	give(file, 5000)
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	change()
	if owner(file) != owner(dir) {
		t.Errorf("a file that was another's belongs to %v, its folder to %v", owner(file), owner(dir))
	}
}

// TestNothingIsWrittenThatIsNotReadAgain lets a file grow beyond the size limit of the reader.
func TestNothingIsWrittenThatIsNotReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "maintenance.yaml")
	long := "# " + strings.Repeat("x", maxFile-100) + "\nlockdown: {text: x}\n"
	if err := os.WriteFile(file, []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Change(file, func(d *Draft) error {
		d.SetLockdown(Lockdown{Text: strings.Repeat("y", 200), Since: minute(0)})
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "would be larger than 1 MiB; remove entries that have ended first") {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != long {
		t.Errorf("it was changed: %d bytes, %v", len(text), err)
	}
	if err := os.Truncate(file, maxFile+1); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file); err == nil || !strings.Contains(err.Error(), "it is larger than 1 MiB") {
		t.Errorf("one that is too large is read: %v", err)
	}
}

// TestChangeDoesNotWaitForEver holds the lock, as any user can who may read the folder.
func TestChangeDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, err := os.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		if _, err := Change(filepath.Join(dir.Name(), "maintenance.yaml"), func(*Draft) error { return nil }); err == nil || !strings.Contains(err.Error(), "another program holds the lock") {
			t.Errorf("changed in spite of the lock: %v", err)
		}
	})
}
