package main

import (
	"encoding/binary"
	"errors"
	"os"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"

	"patchbay/am/testkit/program"
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
	good := program.ReadFile(t, state)
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
