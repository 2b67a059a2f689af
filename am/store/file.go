package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"patchbay/am/file"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

func cannotOpen(path string, err error) error {
	return fmt.Errorf("cannot open the store %s: %w", path, err)
}

// readUntrusted calls f, which reads a file that may not be a store. If pages are missing, bbolt
// panics or reads beyond the mapping. readUntrusted returns both as errors.
func readUntrusted(f func() error) error {
	return recoverFault(func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = damaged(fmt.Errorf("%v", p))
			}
		}()
		return f()
	})
}

// sizeOf returns an error that wraps os.ErrNotExist if path does not exist, but not if path is a
// link to a missing file.
func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if _, err := os.Lstat(path); err == nil {
			return 0, errors.New("it is a link to a file that does not exist; put that file back")
		}
		return 0, err
	case err != nil:
		return 0, explain(err)
	case !info.Mode().IsRegular():
		return 0, errors.New("it is a directory, pipe or device; name a file")
	case info.Size() == 0:
		// A store's file is never empty. A new store in place of this file would lose all
		// records.
		return 0, brokenError{errors.New("it is empty; restore a backup")}
	}
	return info.Size(), nil
}

// create gives the new store the name path only when the file is complete, so that a crash leaves
// no partial store.
func create(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	f.Close()
	db, err := bbolt.Open(f.Name(), 0o600, &bbolt.Options{Timeout: lockTimeout})
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(createBuckets), db.Close()); err != nil {
		return err
	}
	return linkNew(f.Name(), path)
}

// linkNew gives a complete file the name path, durably. If another process has created a
// file with that name meanwhile, linkNew keeps that file and succeeds.
func linkNew(temporary, path string) error {
	// Link, unlike Rename, does not replace a file that another process has created meanwhile.
	// Rename is for file systems without hard links.
	if err := os.Link(temporary, path); err != nil && !errors.Is(err, os.ErrExist) {
		if err := os.Rename(temporary, path); err != nil {
			return err
		}
	}
	return file.SyncFolder(filepath.Dir(path))
}

// inspect reads a file without writing to it, and calls f if it is a store. lost is the
// number of pages that are neither used nor free; stale means that the last transaction may
// be missing.
func inspect(path string, size int64, f func(tx *bbolt.Tx, lost int, stale bool) error) error {
	// In read-only mode bbolt locks the file, and reads only the first two pages.
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true})
	if err != nil {
		return explain(err)
	}
	defer db.Close()
	file, err := os.Open(path)
	if err != nil {
		return explain(err)
	}
	defer file.Close()
	p := &pages{r: file, page: int64(db.Info().PageSize)}
	stale, err := p.check(size)
	if err != nil {
		return damaged(err)
	}
	return db.View(func(tx *bbolt.Tx) error {
		if err := checkIsStore(tx); err != nil {
			return err
		}
		return f(tx, p.lost(), stale)
	})
}

func explain(err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return ErrLocked
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("this user may not write it (%w); run the command as the user of the server, or change the file's owner", err)
	}
	if _, ok := errors.AsType[*os.PathError](err); ok {
		return err
	}
	return damaged(err)
}

// ErrLocked is wrapped by the errors of Open and Check if another process has the file open.
var ErrLocked = errors.New("another process has it open; is a server running on it?")

func damaged(err error) error {
	return brokenError{fmt.Errorf("it is damaged or not a store (%w); restore a backup", err)}
}

// checkIsStore fails if the file has no buckets of a store, or those of a schema that this program does not know.
func checkIsStore(tx *bbolt.Tx) error {
	top := tx.Bucket(root)
	if top == nil {
		if k, _ := tx.Cursor().First(); k != nil {
			return errors.New("it is a bbolt file of another program; name another file")
		}
		return damaged(errors.New("it has no buckets"))
	}
	if top.Bucket([]byte(metaBucket)) == nil {
		return damaged(errNoSchema)
	}
	r := reader{top: top}
	schema, err := schemaOf(r)
	switch {
	case errors.Is(err, errNoSchema):
		return damaged(errNoSchema)
	case err != nil:
		return err
	}
	for _, b := range append(slices.Clip(buckets), calendarBucket) {
		if r.bucket(b) == nil && (b != calendarBucket || schema >= calendarSchema) {
			return damaged(fmt.Errorf("the bucket %s is missing", b))
		}
	}
	if v := r.get(metaBucket, []byte(revisionName)); v != nil && len(v) != 8 {
		return damaged(errors.New("its revision is not a number"))
	}
	return nil
}

// createBuckets makes the buckets of an empty store, with the present schema.
func createBuckets(tx *bbolt.Tx) error {
	top, err := tx.CreateBucket(root)
	if err != nil {
		return err
	}
	for _, b := range append(slices.Clip(buckets), calendarBucket) {
		if _, err := top.CreateBucket([]byte(b)); err != nil {
			return err
		}
	}
	return reader{top: top}.apply(schemaOp(schemaVersion))
}
