package store

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/rspec/step"
)

var update = flag.Bool("update", false, "write testdata/schemaN.db.gz, of the schema of today only, if it is not there")

func oldFile(schema int) string {
	return filepath.Join("testdata", fmt.Sprintf("schema%d.db.gz", schema))
}

// TestWriteSchema writes a file of the current schema for the tests of later versions.
// It never overwrites an existing file.
func TestWriteSchema(t *testing.T) {
	if !*update {
		t.Skip("only with -update")
	}
	name := oldFile(schemaVersion)
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is there and stays", name)
	}
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := Open(path, Options{Now: at, Site: sampleSite})
	if err != nil {
		t.Fatal(err)
	}
	sampleRecords().fill(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sampleOf returns the records of the file of a schema. Until schema 3 the sample had an empty step, and before startSchema
// it had no slivers that begin later.
func sampleOf(schema int) sample {
	x := sampleRecords()
	if schema < startSchema {
		x.slivers = x.slivers[:8]
	}
	for i := range x.slivers {
		if y := &x.slivers[i]; schema == 4 { // all fields that had other names
			hour := func(n int) time.Time { return noon.Add(time.Duration(i*10+n) * time.Hour) }
			y.NotifiedEnd, y.NotifiedBefore, y.RequestedEnd, y.ProbedUntil = hour(1), time.Duration(i+1)*time.Hour, hour(2), hour(3)
		}
		if schema < 3 && x.slivers[i].Setup != nil {
			x.slivers[i].Setup = []step.Step{{}}
		}
	}
	return x
}

// old unpacks a file of an old schema to path.
func old(t *testing.T, schema int, path string) []byte {
	t.Helper()
	z, err := os.ReadFile(oldFile(schema))
	if err != nil {
		t.Fatalf("%v; check out the last program that writes schema %d and run its tests with -update", err, schema)
	}
	b, err := unpack(z)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

func unpack(text []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// TestMigrates checks that a file of each older schema is migrated with all its records, and that
// the old file is kept.
func TestMigrates(t *testing.T) {
	for schema := 1; schema < schemaVersion; schema++ {
		t.Run(fmt.Sprint("schema ", schema), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			before := old(t, schema, path)
			s, err := Open(path, Options{Now: at, Site: sampleSite, Move: true}) // it was copied
			if err != nil {
				t.Fatal(err)
			}
			consistent(t, s)
			sampleOf(schema).compare(t, s)
			list, next := due(t, s, 1)
			if len(list) != 0 || !next.Equal(noon.Add(19*time.Hour)) {
				t.Errorf("due are %v, next %v", list, next)
			}
			commit(t, s, put(sliver("new", "alpha", 1)))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			is, err := Check(path)
			if err != nil || is.Schema != schemaVersion || is.Site != sampleSite {
				t.Errorf("the file is %+v, %v", is, err)
			}
			name := fmt.Sprintf("%s.schema%d", path, schema)
			kept, err := Check(name)
			if err != nil || kept.Schema != uint64(schema) || kept.Revision != is.Revision-1 {
				t.Errorf("kept is %+v, %v", kept, err)
			}
			// The earlier version continues with the old file.
			if err := os.WriteFile(path, before, 0o600); err != nil {
				t.Fatal(err)
			}
			if s, err = Open(path, Options{Now: at}); err != nil {
				t.Fatal(err)
			}
			s.Close()
			if files := folder(t, path); len(files) != 2 {
				t.Errorf("one revision is kept more than once: %v", files)
			}
		})
	}
}

// folder lists the files beside path, itself included.
func folder(t *testing.T, path string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestMigrationKeepsEachRevision checks that a migration does not overwrite an existing file with
// the name of its backup.
func TestMigrationKeepsEachRevision(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	old(t, 1, path)
	if err := os.WriteFile(path+".schema1", []byte("somebody's notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if notes, _ := os.ReadFile(path + ".schema1"); string(notes) != "somebody's notes" {
		t.Error("a file was overwritten")
	}
	if is, err := Check(path + ".schema1.2"); err != nil || is.Schema != 1 {
		t.Errorf("kept is %+v, %v", is, err)
	}
}

// TestRefusedIsNotMigrated checks that the store of another site is not changed.
func TestRefusedIsNotMigrated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	before := old(t, 1, path)
	if _, err := Open(path, Options{Site: "other.example.org"}); err == nil || !strings.Contains(err.Error(), "of site "+sampleSite) {
		t.Fatalf("another site's store: %v", err)
	}
	after, _ := os.ReadFile(path)
	if files := folder(t, path); !bytes.Equal(before, after) || len(files) != 1 {
		t.Errorf("it was changed, or kept: %v", files)
	}
}

// TestFailedMigrationChangesNothing fails each write of a migration. Then Open refuses the store,
// whose file stays as it was. The next Open migrates it.
func TestFailedMigrationChangesNothing(t *testing.T) {
	for schema := 1; schema < schemaVersion; schema++ {
		path := filepath.Join(t.TempDir(), "store.db")
		old(t, schema, path)
		for writes := 0; ; writes++ {
			n := 0
			s, err := Open(path, Options{Now: at, Site: sampleSite, Move: true, Write: commitAfter(func() error {
				if n++; n > writes {
					return errNo
				}
				return nil
			})})
			if err == nil {
				consistent(t, s)
				sampleOf(schema).compare(t, s)
				s.Close()
				if writes != 1 {
					t.Errorf("schema %d: it took %d writes", schema, writes)
				}
				break
			}
			if !errors.Is(err, errNo) || !strings.Contains(err.Error(), path) {
				t.Errorf("schema %d, after %d writes: %v", schema, writes, err)
			}
			if is, err := Check(path); err != nil || is.Err() != nil || is.Schema != uint64(schema) {
				t.Errorf("schema %d: after %d writes it is %+v, %v", schema, writes, is, err)
			}
		}
	}
}

// TestMigrationWithoutSlivers migrates a store that has no entry for the calendar.
func TestMigrationWithoutSlivers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = s.db.update(func(r reader) error {
		return errors.Join(r.top.DeleteBucket([]byte(calendarBucket)), r.apply(schemaOp(calendarSchema-1)))
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := opened(path, Options{}); err != nil {
			t.Fatal(err)
		}
	}
}
