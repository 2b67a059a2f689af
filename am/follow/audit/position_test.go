package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"patchbay/am"
	"patchbay/am/store"
)

// TestLastRevisionInTheFile checks the last revision of the store that the audit file has, also after the file was
// moved away.
func TestLastRevisionInTheFile(t *testing.T) {
	s := newSite(t)
	seen := func(want store.Rev) {
		t.Helper()
		if got, err := Seen(s.path); err != nil || got != want {
			t.Errorf("seen is %d, %v; want %d", got, err, want)
		}
	}
	seen(0)
	for range 5 {
		s.commit()
	}
	s.follow()
	seen(6) // the first is the cursor
	if err := os.Rename(s.path, s.path+".1"); err != nil {
		t.Fatal(err)
	}
	seen(0) // Seen does not read the moved file
	s.commit()
	s.follow()
	seen(7)
	if got, err := Seen(filepath.Join(s.dir, "nothing")); err != nil || got != 0 {
		t.Errorf("without an audit: %d, %v", got, err)
	}
}

// TestAuditOfSchema4 continues the file of a program of schema 4, which has written some of the
// lines out of order. It is killed at many places while it writes the missing ones.
func TestAuditOfSchema4(t *testing.T) {
	s := newSite(t)
	if err := s.store.Commit(t.Context(), func(*store.View) (cs store.ChangeSet, err error) {
		cs.Remove(store.CursorKey(cursorName))
		return cs, nil
	}); err != nil {
		t.Fatal(err)
	}
	for range 4 { // revisions 3 to 6
		s.commit(am.JournalEntry{At: noon, Event: "also"})
	}
	old := `{"at":"2026-11-20T11:00:00.000Z","event":"open","settled":2,"seen":2}
{"at":"2026-11-20T11:00:01.000Z","event":"work","what":"also","journal":["0000000000000003-0001"],"settled":2,"seen":3}
{"at":"2026-11-20T11:00:01.000Z","event":"call","id":"call1","journal":["0000000000000003-0000"],"settled":3,"seen":4}
{"at":"2026-11-20T11:00:02.000Z","event":"call","id":"call3","journal":["0000000000000005-0000"],"settled":3,"seen":6}
`
	if err := os.WriteFile(s.path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	if seen, err := Seen(s.path); err != nil || seen != 6 {
		t.Errorf("seen %d, %v", seen, err)
	}
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(filepath.Join(s.dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"open", "work also", "call call1", "call call3", "change geni_start call2", "work also", "work also", "change geni_start call4", "work also"}
	begin := func(file []byte) []byte {
		if err := errors.Join(os.WriteFile(s.path, file, 0o600), os.WriteFile(filepath.Join(s.dir, "state.db"), image, 0o600)); err != nil {
			t.Fatal(err)
		}
		s.open()
		s.commit()
		s.follow()
		if s.wants(append(want, fmt.Sprint("change geni_start call", s.calls))...); t.Failed() {
			t.Fatalf("with a file of %d bytes:\n%s", len(file), file[len(old):])
		}
		s.log.file.Close()
		if err := s.store.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	whole := begin([]byte(old))
	taken := whole[:bytes.LastIndexByte(whole[:len(whole)-1], '\n')+1] // without the line of the later change
	for cut := len(old); cut <= len(taken); cut += 13 {
		begin(taken[:cut])
	}
	s.open()
}
