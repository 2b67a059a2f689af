package store

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// schemaVersion is the bucket tree this program writes.
const schemaVersion = 2

// migration brings a store from the schema before to one. run says what is to
// change; all of it happens in one Apply, together with the new number. A bucket
// that it adds is made with its first key.
type migration struct {
	to   uint64
	what string
	run  func(Reader) ([]Op, error)
}

// migrations are in order, without a gap, up to schemaVersion. One that has been
// released is never changed: files of its time are in testdata.
var migrations = []migration{
	{2, "a bucket for events that are yet to be told, and sums of records", func(Reader) ([]Op, error) { return nil, nil }},
}

// schemaOf is the schema that a reader has; 0 for an engine that is new.
func schemaOf(r Reader) (uint64, error) {
	v := r.Get(metaBucket, []byte(schemaName))
	switch {
	case v == nil && r.Get(metaBucket, []byte(revisionName)) == nil:
		return 0, nil
	case len(v) != 8:
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

// newerError is the refusal of a store that a later program has written.
func newerError(schema uint64) error {
	return fmt.Errorf("it has schema %d and this program knows %d; use the program that wrote it, or a later one", schema, schemaVersion)
}

// schemaOp sets the number of the schema.
func schemaOp(n uint64) Op {
	return Op{metaBucket, []byte(schemaName), binary.BigEndian.AppendUint64(nil, n)}
}

// migrate brings an engine to the schema of today, step by step. keep is called
// once before the first step changes what an earlier program has written.
func migrate(e Engine, keep func(schema uint64) error) error {
	var from uint64
	err := e.View(func(r Reader) (err error) { from, err = schemaOf(r); return err })
	if err != nil {
		return err
	}
	if from == 0 {
		return e.Apply([]Op{schemaOp(schemaVersion)})
	}
	if from < schemaVersion && keep != nil {
		if err := keep(from); err != nil {
			return fmt.Errorf("it has the older schema %d, and cannot be kept before it is brought to schema %d: %w; nothing was changed", from, schemaVersion, err)
		}
	}
	for _, m := range migrations {
		if m.to <= from {
			continue
		}
		var ops []Op
		err := e.View(func(r Reader) (err error) { ops, err = m.run(r); return err })
		if err == nil {
			err = e.Apply(append(ops, schemaOp(m.to)))
		}
		if err != nil {
			return fmt.Errorf("it cannot be brought from schema %d to %d (%s): %w; it has schema %d as before", m.to-1, m.to, m.what, err, m.to-1)
		}
	}
	return nil
}
