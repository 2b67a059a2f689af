package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am"
)

// slowReader reads a backup a piece at a time, and calls between before each.
type slowReader struct {
	all     bytes.Buffer
	between func() error
}

func (r *slowReader) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		if err = r.between(); err == nil {
			m := min(len(b), 4096)
			r.all.Write(b[:m])
			n, b = n+m, b[m:]
		}
	}
	return n, err
}

// TestBackupWhileChanging commits changes between the writes of a backup. The backup has the state
// at its start, and the commits do not wait for its reader.
func TestBackupWhileChanging(t *testing.T) {
	s := open(t, Options{Site: sampleSite})
	x := sampleRecords()
	x.fill(t, s)
	promised := int64(0)
	n := 0
	out := &slowReader{between: func() error {
		n++ // changes of all sizes, which make the file grow, are done in between
		var cs ChangeSet
		cs.PutSliver(sliver(fmt.Sprint("new-", n), "new", n))
		cs.PutDocument(am.Document{ID: fmt.Sprint(n), Slice: sliceURN("new"), Text: make([]byte, 100<<10)})
		return s.Commit(t.Context(), func(*View) (ChangeSet, error) { return cs, nil })
	}}
	if err := s.Backup(out, func(size int64) { promised = size }); err != nil {
		t.Fatal(err)
	}
	if n < 10 || promised != int64(out.all.Len()) {
		t.Errorf("%d changes; %d of %d bytes", n, out.all.Len(), promised)
	}
	path := filepath.Join(t.TempDir(), "backup.db")
	if err := os.WriteFile(path, out.all.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Check(path); err != nil || r.Err() != nil || r.Site != sampleSite {
		t.Errorf("%+v, %v", r, err)
	}
	b, err := Open(path, Options{Now: at})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	x.compare(t, b)
	if all, err := s.Slivers(); err != nil || len(all) != len(x.slivers)+n {
		t.Errorf("there are %d slivers, %v", len(all), err)
	}
}

func TestFailedReaderEndsABackup(t *testing.T) {
	s := open(t, Options{})
	commit(t, s, put(sliver("a", "s", 1)))
	if err := s.Backup(&slowReader{between: func() error { return errNo }}, func(int64) {}); err == nil || !strings.Contains(err.Error(), errNo.Error()) {
		t.Errorf("the error is %v", err)
	}
	commit(t, s, put(sliver("b", "s", 1)))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(io.Discard, func(int64) {}); !errors.Is(err, ErrClosed) {
		t.Errorf("of a closed store: %v", err)
	}
}

// TestRestore restores backups of this and an earlier schema over an existing, a missing and a
// damaged store. The revision grows, the journal has an entry, and the replaced file is kept.
func TestRestore(t *testing.T) {
	entry := am.JournalEntry{At: noon, Event: "restore", Operator: "root"}
	for _, tt := range []struct {
		rule    string
		backup  func(path string)
		present func(t *testing.T, path string)
		kept    bool
	}{
		{"over nothing", func(string) {}, func(*testing.T, string) {}, false},
		{"over a store", func(string) {}, func(t *testing.T, path string) { good(t, path) }, true},
		{"over a damaged one", func(string) {}, func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("what was there"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"by a link", func(string) {}, func(t *testing.T, path string) {
			real := filepath.Join(t.TempDir(), "real.db")
			good(t, real)
			if err := os.Symlink(real, path); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"of an older schema", func(path string) { old(t, 3, path) }, func(*testing.T, string) {}, false},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			path, from := filepath.Join(t.TempDir(), "store.db"), filled(t)
			tt.backup(from)
			tt.present(t, path)
			before, _ := os.ReadFile(path)
			backup, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Restore(path, from, sampleSite)
			if err != nil {
				t.Fatal(err)
			}
			const after = 12345
			kept, err := r.Finish(after, entry, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tt.kept {
				if now, err := os.ReadFile(kept); err != nil || !bytes.Equal(now, before) {
					t.Errorf("kept is %q, %v", kept, err)
				}
			} else if kept != "" {
				t.Errorf("kept is %q", kept)
			}
			if now, _ := os.ReadFile(from); !bytes.Equal(now, backup) {
				t.Error("the backup was changed")
			}
			if left, _ := filepath.Glob(path + ".restore*"); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if report, err := Check(path); err != nil || report.Err() != nil || report.Revision != after+1 || report.Schema != schemaVersion {
				t.Errorf("%+v, %v", report, err)
			}
			s, err := Open(path, Options{Now: at, Site: sampleSite})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			was, err := Check(from)
			if err != nil {
				t.Fatal(err)
			}
			x := sampleOf(int(was.Schema))
			x.journal = append(x.journal, entry)
			for i := range x.slivers { // what is reserved may have been made since the backup
				x.slivers[i].Restored = x.slivers[i].Status.Allocation == am.Allocated
			}
			x.compare(t, s)
			commit(t, s, func(*View) (cs ChangeSet, err error) { cs.Log(entry); return cs, nil })
		})
	}
}

// TestRestoreOfAServedStore checks that only the process that has the store open can replace it.
func TestRestoreOfAServedStore(t *testing.T) {
	path, from := filepath.Join(t.TempDir(), "store.db"), filled(t)
	s, err := Open(path, Options{Site: sampleSite})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Restore(path, from, sampleSite)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Finish(0, am.JournalEntry{At: noon}, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("while another has it: %v", err)
	}
	commit(t, s, func(*View) (cs ChangeSet, err error) { cs.PutSlice(am.Slice{URN: sliceURN("s")}); return cs, nil })
	if r, err = Restore(path, from, sampleSite); err != nil {
		t.Fatal(err)
	}
	if err := r.Discard(); err != nil {
		t.Error(err)
	}
	if r, err = Restore(path, from, sampleSite); err != nil {
		t.Fatal(err)
	}
	kept, err := r.Finish(0, am.JournalEntry{At: noon}, s) // by the process that has it open
	if err != nil {
		t.Fatal(err)
	}
	again, err := Restore(path, kept, sampleSite) // and back
	if err != nil {
		t.Fatal(err)
	}
	second, err := again.Finish(0, am.JournalEntry{At: noon}, nil)
	if err != nil || second == kept {
		t.Errorf("kept is %s, and then %s, %v", kept, second, err)
	}
	if files := folder(t, path); len(files) != 3 {
		t.Errorf("there are %v", files)
	}
}

// TestRestoreIntoAFolderThatCannotBeWritten checks that a restore that fails before its end says
// "nothing was changed".
func TestRestoreIntoAFolderThatCannotBeWritten(t *testing.T) {
	from := filled(t)
	_, err := Restore(filepath.Join(t.TempDir(), "nowhere", "store.db"), from, sampleSite)
	if err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("the error is %v", err)
	}
}
