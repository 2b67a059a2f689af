package main

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"
)

// TestRestoreKeepsUndamagedDatabase proves that restore keeps a database that cannot be
// opened but is not damaged, even with --yes.
func TestRestoreKeepsUndamagedDatabase(t *testing.T) {
	k := newBackupTest(t)
	file, state := k.path("b.db"), k.path("state.db")
	s := serve(t, k.dir)
	k.allocate(s, "first")
	s.stop()
	k.runOK([]string{"backup", file}, "2 slivers")
	good := readFile(t, state)
	for _, tt := range []struct {
		rule string
		make func() error
		want string
	}{
		{"of a later program", func() error {
			return writeMeta(state, "schema", binary.BigEndian.AppendUint64(nil, 99))
		}, "it has schema 99"},
		{"of another site", func() error { return writeMeta(state, "site", []byte("other.example.org")) }, "other.example.org"},
		{"a pipe", func() error { return errors.Join(os.Remove(state), syscall.Mkfifo(state, 0o600)) }, "it is a directory, pipe or device"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			k := &backupTest{t, k.dir, k.site}
			if err := errors.Join(os.RemoveAll(state), os.WriteFile(state, []byte(good), 0o600), tt.make()); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(state)
			if err != nil {
				t.Fatal(err)
			}
			k.runRefused([]string{"restore", "--yes", file}, "the present database is not damaged, so it is not replaced", tt.want, "move it away")
			if now, err := os.Lstat(state); err != nil || !os.SameFile(before, now) {
				t.Errorf("there is %v now, %v", now, err)
			}
			k.wantNoLeftovers()
		})
	}
}

// TestRestoreOverADamagedRecord proves that restore replaces a database that opens but
// has a damaged record.
func TestRestoreOverADamagedRecord(t *testing.T) {
	k := newBackupTest(t)
	file, state := k.path("b.db"), k.path("state.db")
	s := serve(t, k.dir)
	k.allocate(s, "first")
	s.stop()
	k.runOK([]string{"backup", file}, "2 slivers")
	write(t, state, flipBit(readFile(t, state), `"Generation":`))
	k.runRefused([]string{"serve"}, "a stored record is damaged", "restore a backup")
	k.runRefused([]string{"restore", file}, "The present database cannot be read", "a stored record is damaged", "add --yes")
	k.runOK([]string{"restore", "--yes", file}, "1 slice, 2 slivers", "The previous database is in ")
	k.runOK([]string{"check"}, "all records and indexes agree")
	k.wantNoLeftovers()
}

// writeMeta sets a key in the meta bucket of a database.
func writeMeta(path, key string, value []byte) error {
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	return errors.Join(db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("v1")).Bucket([]byte("meta")).Put([]byte(key), value)
	}), db.Close())
}

// TestServedStoreIsDamaged overwrites pages of a served database: the server keeps
// running, is not ready, reports why, and accepts no reservations.
func TestServedStoreIsDamaged(t *testing.T) {
	for _, tt := range []struct {
		rule     string
		from, to int // the pages to overwrite
	}{
		{"its first pages", 0, 2}, {"all but its first pages", 2, 1000},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			k := newBackupTest(t)
			state := k.path("state.db")
			s := serve(t, k.dir)
			k.allocate(s, "first")
			if status, text := get(t, s.admin+"/readyz"); status != http.StatusOK {
				t.Fatalf("before, it is %d %s", status, text)
			}
			if err := overwritePages(state, tt.from, tt.to); err != nil {
				t.Fatal(err)
			}
			code, out := runCommand(t, "call", "--url", s.url, "--user", k.path("users/alice"), "--slice", "second", "Allocate", k.path("request.xml"))
			if code == 0 || !regexp.MustCompile(`DBERROR|SERVERERROR`).MatchString(out) {
				t.Errorf("a call ended with %d:\n%s", code, out)
			}
			if status, text := get(t, s.admin+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "damaged") || !strings.Contains(text, "restore a backup") {
				t.Errorf("it is %d %s", status, text)
			}
			if _, text := get(t, s.admin+"/metrics"); !regexp.MustCompile(`(?m)^\S*store_broken 1$`).MatchString(text) {
				t.Errorf("no number tells of it:\n%s", text)
			}
			k.runRefused([]string{"check"}, "damaged")
			k.runRefused([]string{"backup", k.path("b.db")}, "damaged")
			s.stop()
			if log := s.out.String(); !strings.Contains(log, "the store accepts no more changes") || strings.Contains(log, "panic:") {
				t.Errorf("the log is:\n%s", log)
			}
		})
	}
}

// overwritePages overwrites some pages of a file, up to its end.
func overwritePages(path string, from, to int) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	b := make([]byte, min(int64(to)*4096, info.Size())-int64(from)*4096)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	_, err = f.WriteAt(b, int64(from)*4096)
	return errors.Join(err, f.Close())
}
