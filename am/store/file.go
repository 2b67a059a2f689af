package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"patchbay/am/durable"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// cannotOpen names the file of a refusal.
func cannotOpen(path string, err error) error {
	return fmt.Errorf("cannot open the store %s: %w", path, err)
}

// whole calls f to read a file that may be anything. bbolt panics, or touches
// memory behind the end, when pages are missing; both are errors here.
func whole(f func() error) error {
	return guard(func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = damaged(fmt.Errorf("%v", p))
			}
		}()
		return f()
	})
}

// sizeOf is the size of what may be a store. Its error wraps os.ErrNotExist if
// nothing is there, which a link to nothing does not mean.
func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if _, err := os.Lstat(path); err == nil {
			return 0, errors.New("it is a link to a file that is not there; put that back")
		}
		return 0, err
	case err != nil:
		return 0, explain(err)
	case !info.Mode().IsRegular():
		return 0, errors.New("it is a directory, pipe or device; name a file")
	case info.Size() == 0:
		// A store never is. To take it for a new one would forget all promises.
		return 0, spoiled{errors.New("it is empty; restore a backup")}
	}
	return info.Size(), nil
}

// create makes an empty store, which gets its name when it is whole: a crash
// leaves a good file or none.
func create(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	f.Close()
	db, err := bbolt.Open(f.Name(), 0o600, &bbolt.Options{Timeout: patience})
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(prepare), db.Close()); err != nil {
		return err
	}
	return settle(f.Name(), path)
}

// settle gives a whole file a name that nobody has, durably. It is no error if
// somebody else was quicker.
func settle(temporary, path string) error {
	// A link, unlike a new name, does not replace what another process made
	// meanwhile; some file systems know no links.
	if err := os.Link(temporary, path); err != nil && !errors.Is(err, os.ErrExist) {
		if err := os.Rename(temporary, path); err != nil {
			return err
		}
	}
	return durable.SyncFolder(filepath.Dir(path))
}

// inspect reads a file of some size without writing to it; f sees it if it is a
// store, how many of its pages are lost, and whether it
// may be stale.
func inspect(path string, size int64, f func(tx *bbolt.Tx, lost int, stale bool) error) error {
	// This way bbolt reads only the first two pages, and takes the lock.
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: patience, ReadOnly: true})
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
		if err := known(tx); err != nil {
			return err
		}
		return f(tx, p.lost(), stale)
	})
}

// explain says what an error of bbolt.Open means to an operator.
func explain(err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return ErrLocked
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("this user may not write it (%w); be the user that the site is served as, or give it to this one", err)
	}
	if _, ok := errors.AsType[*os.PathError](err); ok {
		return err
	}
	return damaged(err)
}

// ErrLocked is wrapped by Open and Check when another process has the file open.
var ErrLocked = errors.New("another process holds it; is a server running on it?")

func damaged(err error) error {
	return spoiled{fmt.Errorf("it is damaged or no store (%w); restore a backup", err)}
}

// known refuses what is no store of this program.
func known(tx *bbolt.Tx) error {
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
	r := reader{top}
	switch _, err := schemaOf(r); {
	case errors.Is(err, errNoSchema):
		return damaged(errNoSchema)
	case err != nil:
		return err
	}
	for _, b := range buckets {
		if r.bucket(b) == nil {
			return damaged(fmt.Errorf("the bucket %s is missing", b))
		}
	}
	if v := r.get(metaBucket, []byte(revisionName)); v != nil && len(v) != 8 {
		return damaged(errors.New("its revision is no number"))
	}
	return nil
}

// prepare makes the buckets of a new file.
func prepare(tx *bbolt.Tx) error {
	top, err := tx.CreateBucket(root)
	if err != nil {
		return err
	}
	for _, b := range buckets {
		if _, err := top.CreateBucket([]byte(b)); err != nil {
			return err
		}
	}
	return reader{top}.apply(schemaOp(schemaVersion))
}
