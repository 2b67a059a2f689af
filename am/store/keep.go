package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// keep copies the file to path.schemaN before it is brought to another schema. A
// copy that is there stays if it has the same revision; one that tells
// something else stays, too, and another name is found.
func (e *boltEngine) keep(schema uint64) error {
	var now Rev
	err := e.View(func(r Reader) error { now = (&View{r: r}).Revision(); return nil })
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s.schema%d", e.path, schema)
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
			break
		} else if err != nil {
			return err
		}
		if is, err := fileOf(name); err == nil && is.schema == schema && is.revision == now {
			return nil
		}
		name = fmt.Sprintf("%s.schema%d.%d", e.path, schema, n)
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = guard(func() error {
		return e.db.View(func(tx *bbolt.Tx) error { _, err := tx.WriteTo(f); return err })
	})
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if _, err := fileOf(f.Name()); err != nil {
		return err
	}
	return settle(f.Name(), name)
}

// facts are what a file tells of itself.
type facts struct {
	schema   uint64
	revision Rev
	site     string
}

// fileOf reads what a file tells of itself; nothing is written.
func fileOf(path string) (x facts, err error) {
	err = whole(func() error {
		size, err := sizeOf(path)
		if err != nil {
			return err
		}
		return inspect(path, size, func(tx *bbolt.Tx, _ int, _ bool) error {
			r := boltReader{tx.Bucket(root)}
			x.schema, err = schemaOf(r)
			x.revision, x.site = (&View{r: r}).Revision(), string(r.Get(metaBucket, []byte(siteName)))
			return err
		})
	})
	return x, err
}
