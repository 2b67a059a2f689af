package store

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"go.etcd.io/bbolt"

	"patchbay/am"
)

// maxProblems limits the problems that a Report lists; Report.More counts the others.
const maxProblems = 100

// Problem is one inconsistency in a store.
type Problem struct {
	Bucket, Key string
	What        string
}

func (p Problem) String() string {
	if p.Key == "" {
		return fmt.Sprintf("%s: %s", p.Bucket, p.What)
	}
	return fmt.Sprintf("%s %q: %s", p.Bucket, p.Key, p.What)
}

// Report is the result of a check of a whole store.
type Report struct {
	Schema   uint64
	Site     string // "" if the store has no site yet
	Copy     string // the reason why the file is a copy of the site's store; "" if it is not a copy
	Inode    uint64 // the recorded inode of the site's store; 0 if none is recorded
	Revision Rev
	// Records are the numbers of records by kind.
	Records map[Kind]int
	// Size is the number of bytes of the file that are in use.
	Size int64
	// Stale means that one of the two meta pages is damaged, so that the last change may
	// be missing.
	Stale bool
	// Problems are the first problems; More counts the others.
	Problems []Problem
	More     int
}

// Err returns the first problems as an error; nil if there is none.
func (r *Report) Err() error {
	var list []error
	for i, p := range r.Problems {
		if i == 3 {
			break
		}
		list = append(list, errors.New(p.String()))
	}
	if n := len(r.Problems) + r.More - len(list); n > 0 {
		list = append(list, fmt.Errorf("and %d more", n))
	}
	return errors.Join(list...)
}

func (r *Report) add(bucket, key, format string, args ...any) {
	if len(r.Problems) == maxProblems {
		r.More++
		return
	}
	r.Problems = append(r.Problems, Problem{bucket, key, fmt.Sprintf(format, args...)})
}

// Check checks the whole store in the file path without changing the file. It fails if the file
// cannot be read or is not a store. The error wraps ErrLocked if a server has the file open.
func Check(path string) (*Report, error) {
	report := &Report{}
	err := readUntrusted(func() error {
		size, err := sizeOf(path)
		if err != nil {
			return err
		}
		return inspect(path, size, func(tx *bbolt.Tx, lost int, stale bool) error {
			report.Size, report.Stale = tx.Size(), stale
			if lost > 0 {
				report.add("file", "", "%d pages are neither used nor free", lost)
			}
			r := reader{top: tx.Bucket(root)}
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if recorded, known := recordedIdentity(r); known {
				report.Inode = recorded.inode
				if differs := identityOf(info).checkCopyOf(recorded); differs != nil {
					report.Copy = differs.Error()
				}
			}
			return report.checkAll(r)
		})
	})
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("there is no store %s", path)
	case err != nil:
		return nil, fmt.Errorf("cannot check the store %s: %w", path, err)
	}
	return report, nil
}

// Check checks all records and indexes of an open store, like the function Check.
func (s *Store) Check() (*Report, error) {
	report := &Report{}
	err := s.Read(func(v *View) error { return report.checkAll(v.r) })
	return report, err
}

// checkAll checks all records, and then the indexes and the calendar, which it compares with the slivers.
func (r *Report) checkAll(rd reader) (err error) {
	if r.Schema, err = schemaOf(rd); err != nil {
		return err
	}
	v := &View{r: rd}
	r.Site, r.Revision = string(rd.get(metaBucket, []byte(siteName))), v.Revision()
	r.Records = map[Kind]int{}
	x := &checker{Report: r, v: v, indexed: map[string]bool{}, entries: map[string]string{}, holders: map[string][]holder{}}
	records(x, Slices, func(id string, s *am.Slice) { x.checkName(Slices, id, s.URN.Key()) })
	records(x, Documents, func(id string, d *am.Document) { x.checkName(Documents, id, d.ID) })
	records(x, Slivers, x.sliver)
	records(x, Tasks, x.task)
	records(x, Journal, x.entry)
	records(x, Components, func(id string, c *am.FoundComponent) { x.checkName(Components, id, c.URN.Key()) })
	records(x, Changes, func(id string, c *Change) {
		if rev, err := strconv.ParseUint(id, 16, 64); err != nil || changeKey(Rev(rev)).ID != id {
			x.add(string(Changes), id, "its key is not a revision")
		}
	})
	records(x, Cursors, func(id string, c *Cursor) { x.checkName(Cursors, id, c.Name) })
	x.indexes()
	return nil
}

// records calls f for each record that it can read. It adds a problem for an unreadable record, and
// for a record with a later revision than the store.
func records[T any](x *checker, k Kind, f func(id string, record *T)) {
	x.v.r.scan(string(k), nil, nil, func(id, b []byte) bool {
		x.Records[k]++
		var t T
		rev, err := decode(b, &t)
		if err != nil {
			x.add(string(k), string(id), "%v", err)
			return true
		}
		if rev > x.Revision {
			x.add(string(k), string(id), "its revision is %d, and the store's last is %d", rev, x.Revision)
		}
		f(string(id), &t)
		return true
	})
}
