package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"patchbay/am"
)

// schemaVersion is the schema that this program writes. Schema 1 had no bucket for events
// and no checksums of records, schema 2 had no calendar, and schema 3 had other names of the fields
// of setup steps. Schema 4 had messages for hooks in place of changes and cursors, and other names of some
// fields of slivers. Schema 5 had no reservations that begin later. Files of each schema are in testdata.
const schemaVersion = 6

const (
	calendarSchema = 3 // the first schema with a calendar
	changeSchema   = 5 // the first schema with changes and cursors, and with plain names of fields
	startSchema    = 6 // the first schema with ends of reservations, and with an index of starts
)

// migrations lead from each schema to the next. Each reads what those before it have written.
var migrations = []struct {
	to  uint64
	run func(*View) ([]op, error)
}{
	{calendarSchema, addCalendar},
	{changeSchema, renameFields},
	{changeSchema, convertMessages},
	{startSchema, addEnds},
}

func addCalendar(v *View) ([]op, error) {
	if _, err := v.r.top.CreateBucket([]byte(calendarBucket)); err != nil { // also without slivers
		return nil, err
	}
	return fillCalendar(v)
}

// NewestSchema is the schema to which Open migrates a store.
const NewestSchema uint64 = schemaVersion

func schemaOf(r reader) (uint64, error) {
	v := r.get(metaBucket, []byte(schemaName))
	if len(v) != 8 {
		return 0, errNoSchema
	}
	n := binary.BigEndian.Uint64(v)
	if n == 0 {
		return 0, errNoSchema
	}
	if n > schemaVersion {
		return 0, newerError(n)
	}
	return n, nil
}

var errNoSchema = errors.New("its schema number is missing")

func newerError(schema uint64) error {
	return fmt.Errorf("it has schema %d and this program knows %d; use the program that wrote it, or a later one", schema, schemaVersion)
}

func schemaOp(n uint64) op {
	return op{metaBucket, []byte(schemaName), binary.BigEndian.AppendUint64(nil, n)}
}

func revisionOp(r Rev) op {
	return op{metaBucket, []byte(revisionName), binary.BigEndian.AppendUint64(nil, uint64(r))}
}

// migrate applies the operations in extra in the same transaction. Before it changes a file of an
// earlier schema, it calls backup with that schema. It fails if backup fails.
func (d *database) migrate(backup func(schema uint64) error, extra []op) error {
	var from uint64
	err := d.read(func(r reader) (err error) { from, err = schemaOf(r); return err })
	if err != nil || from == schemaVersion && len(extra) == 0 {
		return err
	}
	if from < schemaVersion {
		if err := backup(from); err != nil {
			return fmt.Errorf("it has schema %d, and must be copied before it is migrated to schema %d, but it cannot be copied: %w; nothing was changed", from, schemaVersion, err)
		}
	}
	err = d.update(func(r reader) error {
		for _, m := range migrations {
			if from >= m.to {
				continue
			}
			ops, err := m.run(&View{r: r})
			if err == nil {
				err = r.apply(ops...)
			}
			if err != nil {
				return err
			}
		}
		return r.apply(append(extra, schemaOp(schemaVersion))...)
	})
	if err != nil && from < schemaVersion {
		err = fmt.Errorf("it cannot be migrated from schema %d to %d: %w; it still has schema %d", from, schemaVersion, err, from)
	}
	return err
}

// keepCopy copies the file to path.schemaN before a migration, unless a copy of the same
// revision exists. If another file has that name, it adds a number to the name of the copy.
func (d *database) keepCopy(schema uint64) error {
	var now Rev
	err := d.read(func(r reader) error { now = r.revision(); return nil })
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s.schema%d", d.path, schema)
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
			break
		} else if err != nil {
			return err
		}
		if is, err := Check(name); err == nil && is.Schema == schema && is.Revision == now {
			return nil
		}
		name = fmt.Sprintf("%s.schema%d.%d", d.path, schema, n)
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = d.view(func(tx *bbolt.Tx) error { _, err := tx.WriteTo(f); return err })
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if _, err := Check(f.Name()); err != nil {
		return err
	}
	return linkNew(f.Name(), name)
}

// olderSliver has the fields of a sliver under their names in earlier schemas: those of setup steps until
// schema 3, the others until schema 4.
type olderSliver struct {
	Setup            []struct{ Path, FileType string }
	Told             time.Time
	ToldBefore       time.Duration
	Wish, AskedUntil time.Time
}

// addEnds returns the operations that give each sliver the end of its reservation: that of its lease.
func addEnds(v *View) (ops []op, failed error) {
	err := v.Slivers(func(s am.Sliver) bool {
		k := SliverKey(s.URN)
		s.Ends = s.Expires
		b, err := encode(v.Rev(k), s)
		ops, failed = append(ops, op{string(k.Kind), []byte(k.ID), b}), err
		return err == nil
	})
	return ops, cmp.Or(failed, err)
}

// renameFields returns the operations that write the slivers with the present names of their fields.
func renameFields(v *View) (ops []op, failed error) {
	v.r.scan(string(Slivers), nil, nil, func(k, b []byte) bool {
		var s am.Sliver
		var old olderSliver
		rev, err := decode(b, &s)
		if err == nil {
			_, err = decode(b, &old)
		}
		if err == nil {
			for i, x := range old.Setup {
				s.Setup[i].InstallPath, s.Setup[i].FileType = cmp.Or(s.Setup[i].InstallPath, x.Path), cmp.Or(s.Setup[i].FileType, x.FileType)
			}
			s.NotifiedEnd, s.NotifiedBefore, s.RequestedEnd, s.ProbedUntil = old.Told, old.ToldBefore, old.Wish, old.AskedUntil
			b, err = encode(rev, s)
		}
		if err != nil {
			failed = fmt.Errorf("cannot convert a sliver: %w", err)
			return false
		}
		ops = append(ops, op{string(Slivers), bytes.Clone(k), b})
		return true
	})
	return ops, failed
}
