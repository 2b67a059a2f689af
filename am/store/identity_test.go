package store

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am"
)

// onMachine runs this test with another machine-id; "-" is a machine without the file.
func onMachine(t *testing.T, id string) {
	t.Helper()
	was := machineFile
	t.Cleanup(func() { machineFile = was })
	machineFile = filepath.Join(t.TempDir(), "machine-id")
	if id != "-" {
		if err := os.WriteFile(machineFile, []byte(id+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// command runs a program of the host.
func command(t *testing.T, words ...string) {
	t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", words, err, out)
	}
}

// opened opens the store of the sample site and closes it.
func opened(path string, o Options) error {
	o.Site = sampleSite
	s, err := Open(path, o)
	if err == nil {
		err = s.Close()
	}
	return err
}

// TestCopiesAreRefused copies or moves a store in each way that operators use. Only the
// same file on the same machine is opened for changes.
func TestCopiesAreRefused(t *testing.T) {
	const here, there = "aaaa", "bbbb"
	for _, tt := range []struct {
		rule string
		// first is the machine that serves the store first. make turns the file path into
		// the file that is opened on the machine second.
		first, second string
		make          func(t *testing.T, path, name string)
		want          string // in the refusal; "" if it is opened
	}{
		{"nothing happens", here, here, func(t *testing.T, path, name string) { command(t, "ln", path, name) }, ""},
		{"mv", here, here, func(t *testing.T, path, name string) { command(t, "mv", path, name) }, ""},
		{"cp", here, here, func(t *testing.T, path, name string) { command(t, "cp", path, name) }, "it is a copy: the site was served with a file that had inode "},
		{"cp -a, and the first is removed", here, here, func(t *testing.T, path, name string) { command(t, "cp", "-a", path, name); command(t, "rm", path) }, "it is a copy"},
		{"rsync writes a new file and renames it", here, here, func(t *testing.T, path, name string) {
			command(t, "cp", path, name+".part")
			command(t, "mv", name+".part", name)
		}, "it is a copy"},
		{"a backup, put there by hand", here, here, func(t *testing.T, path, name string) {
			f, err := os.Create(name)
			if err := errors.Join(err, Backup(path, f), f.Close()); err != nil {
				t.Fatal(err)
			}
		}, "it is a copy"},
		{"the disk goes to another machine", here, there, func(t *testing.T, path, name string) { command(t, "mv", path, name) },
			"it is a copy: the site was served on the machine aaaa, and this is bbbb"},
		{"the machine had no id", "-", here, func(t *testing.T, path, name string) { command(t, "mv", path, name) }, ""},
		{"the machine has no id", here, "-", func(t *testing.T, path, name string) { command(t, "mv", path, name) }, ""},
		{"the machine has no id yet", here, "uninitialized", func(t *testing.T, path, name string) { command(t, "mv", path, name) }, ""},
		{"cp, without ids", "-", "-", func(t *testing.T, path, name string) { command(t, "cp", path, name) }, "it is a copy"},
		{"restore into a new place on another machine", here, there, func(t *testing.T, path, name string) {
			onMachine(t, there)
			command(t, "cp", path, name+".backup")
			finish(t, name, name+".backup")
		}, ""},
		{"what a restore has kept, put back", here, here, func(t *testing.T, path, name string) {
			command(t, "cp", path, path+".backup")
			command(t, "mv", finish(t, path, path+".backup"), name)
		}, ""},
		{"move", here, there, func(t *testing.T, path, name string) {
			command(t, "cp", path, name)
			onMachine(t, there)
			if err := opened(name, Options{Move: true}); err != nil {
				t.Fatal(err)
			}
		}, ""},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			dir := t.TempDir()
			path, name := filepath.Join(dir, "state.db"), filepath.Join(dir, "other.db")
			onMachine(t, tt.first)
			if err := opened(path, Options{}); err != nil {
				t.Fatal(err)
			}
			tt.make(t, path, name)
			onMachine(t, tt.second)
			report, err := Check(name)
			if err != nil || (report.Copy == "") != (tt.want == "") || !strings.Contains(report.Copy, tt.want) {
				t.Errorf("the check says %q, %v", report.Copy, err)
			}
			before, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			err = opened(name, Options{})
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (!errors.Is(err, ErrCopy) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("the error is %v, want %s", err, tt.want)
			}
			if after, err := os.ReadFile(name); err != nil || tt.want != "" && string(after) != string(before) {
				t.Errorf("a file that was refused has changed, %v", err)
			}
		})
	}
}

// finish restores a backup over the store in a file, and returns the name of the replaced
// file.
func finish(t *testing.T, path, backup string) (kept string) {
	t.Helper()
	r, err := Restore(path, backup, sampleSite)
	if err != nil {
		t.Fatal(err)
	}
	if kept, err = r.Finish(0, am.JournalEntry{At: noon, Event: "restore"}, nil); err != nil {
		t.Fatal(err)
	}
	return kept
}

// TestOldStoresAreBoundOnFirstUse opens stores of earlier versions, which recorded no
// identity. Any copy is accepted until one is opened for changes.
func TestOldStoresAreBoundOnFirstUse(t *testing.T) {
	for _, schema := range []int{1, schemaVersion} { // the file of schema 2 has an identity
		dir := t.TempDir()
		path, name := filepath.Join(dir, "state.db"), filepath.Join(dir, "copy.db")
		if schema < schemaVersion {
			old(t, schema, path)
		} else {
			good(t, path)
		}
		for _, o := range []Options{{ReadOnly: errNo}, {}, {}} {
			if err := opened(path, o); err != nil {
				t.Fatal(schema, err)
			}
			if o.ReadOnly != nil { // it records nothing
				command(t, "mv", path, name)
				command(t, "cp", name, path)
			}
		}
		command(t, "cp", path, name)
		if err := opened(name, Options{}); !errors.Is(err, ErrCopy) {
			t.Errorf("schema %d: a copy of a store that was opened: %v", schema, err)
		}
	}
}

// TestReadOnly opens a copy read-only. All records can be read, each change fails with the
// error of Options.ReadOnly, and a decision's own refusal is returned unchanged.
func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, err := Open(path, Options{Site: sampleSite, Now: at})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, put(sliver("a", "s", 1)))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	command(t, "cp", path, path+".copy")
	if s, err = Open(path+".copy", Options{Site: sampleSite, Now: at, ReadOnly: errNo}); err != nil {
		t.Fatal(err)
	}
	refusal := errors.New("refused for itself")
	nothing := func(*View) (ChangeSet, error) { return ChangeSet{}, nil }
	refused := func(*View) (ChangeSet, error) { return ChangeSet{}, refusal }
	for i, want := range []error{errNo, nil, refusal, errNo} {
		err := s.Commit(t.Context(), []Decision{put(sliver("b", "s", 1)), nothing, refused, put(sliver("c", "s", 1))}[i])
		if !errors.Is(err, want) {
			t.Errorf("decision %d has the answer %v, want %v", i, err, want)
		}
	}
	if got := strings.Join(names(t, s), " "); got != "a" {
		t.Errorf("there are %s", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
