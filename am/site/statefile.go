package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/follow/audit"
	"patchbay/am/follow/hook"
	"patchbay/am/store"
)

// copyMarks are parts of the names of files with a previous store, which a restore or a migration
// keeps. The name of such a file is the store's name, a mark, and more text.
var copyMarks = []string{".before-restore-", ".schema"}

// LeftMarks are the marks in the names of unfinished files of an interrupted program.
var LeftMarks = []string{".new-", ".restore-"}

// FilesBesideState returns the files in the store's folder whose names begin with the name of
// the store and one of the marks.
func (c *Config) FilesBesideState(marks []string) (names []string, err error) {
	dir := filepath.Dir(c.State)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), filepath.Base(c.State))
		for _, mark := range marks {
			if ok && strings.HasPrefix(rest, mark) {
				names = append(names, filepath.Join(dir, e.Name()))
			}
		}
	}
	return names, err
}

// HasState reports whether the site has a store. It fails if there is no store, but the audit
// or the file of a previous store shows that there was one. A new store would forget all
// reservations.
func (c *Config) HasState() (bool, error) {
	_, err := os.Lstat(c.State)
	if !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	signs, err := c.FilesBesideState(copyMarks)
	if err != nil {
		return false, err
	}
	seen, err := audit.Seen(c.Audit)
	if err != nil {
		return false, fmt.Errorf("there is no store %s, and whether there was one cannot be read from the audit: %w", c.State, err)
	}
	if seen > 0 {
		signs = append([]string{c.Audit}, signs...)
	}
	if len(signs) == 0 {
		return false, nil
	}
	return false, &lostStateError{c.State, signs}
}

type lostStateError struct {
	state    string
	evidence []string // files that show that there was a store
}

func (e *lostStateError) Error() string {
	more := ""
	if n := len(e.evidence) - 3; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	files := strings.Join(e.evidence[:min(3, len(e.evidence))], ", ") + more
	return fmt.Sprintf("there is no store %s, and the site had one, as %s shows; restore a backup with patchbay restore FILE; to begin with an empty store and lose all reservations, move away: %s", e.state, e.evidence[0], files)
}

// storeAhead is the number of bytes of disk space that the store of a served site allocates in
// advance.
const storeAhead = 64 << 20

// openStore creates the store for a new site. The store calls broken when it finds damage; broken
// is nil if the site is not served.
func (c *Config) openStore(now func() time.Time, broken func(error)) (*store.Store, error) {
	if _, err := c.HasState(); err != nil {
		return nil, err
	}
	o := c.storeOptions(now)
	o.Broken = broken
	if broken != nil { // the site is served
		o.Ahead = storeAhead
	}
	s, err := store.Open(c.State, o)
	if errors.Is(err, store.ErrCopy) {
		err = c.ExplainCopy(err)
	}
	if err == nil && !c.readOnly {
		if err = hook.Follow(context.Background(), s, c.hooks()); err != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return s, err
}

func (c *Config) hooks() []hook.Hook {
	var list []hook.Hook
	for _, h := range c.Hooks {
		x := hook.Hook{
			Name: h.Name, Command: h.Command, URL: h.URL, Dir: filepath.Dir(c.Origin.File), Secret: h.Secret, CA: h.CA,
			Before: h.Before, Timeout: h.Timeout,
		}
		for _, w := range h.Events {
			x.Events = append(x.Events, hook.Kind(w))
		}
		if x.Before == 0 {
			x.Before = hook.DefaultBefore
		}
		if x.Timeout == 0 {
			x.Timeout = hook.DefaultTimeout
		}
		list = append(list, x)
	}
	return list
}

func (c *Config) storeOptions(now func() time.Time) store.Options {
	o := store.Options{Site: c.Authority, Now: now}
	if c.readOnly {
		o.ReadOnly = errReadOnly
	}
	return o
}

var errReadOnly = am.Errorf(am.Unavailable, "this server is read-only, so nothing was changed")

// ExplainCopy adds remedies to the error about a copied store.
func (c *Config) ExplainCopy(err error) error {
	return fmt.Errorf("%w; two servers must not act on the same nodes: if the other copy is not served any more, type: %s; to only read this one, type: %s",
		err, display.CommandAt(c.Origin.File, "move"), display.CommandAt(c.Origin.File, "serve", "--read-only"))
}

// restoredMark returns the path of a file that exists from a restore until all providers have
// listed their resources.
func restoredMark(c *Config) string { return c.State + ".restored" }

// MarkRestored creates the file at restoredMark(c).
func MarkRestored(c *Config) error {
	return ReplaceFile(restoredMark(c), []byte("The store was restored; patchbay serve removes this file when all providers have listed their resources.\n"), 0o600)
}

// backupMark returns the path of a file whose modification time is the time of the last backup.
func backupMark(c *Config) string { return c.State + ".backup" }

// MarkBackup records that a backup was made now, for the metric last_backup.
func MarkBackup(c *Config) error {
	return ReplaceFile(backupMark(c), []byte("The last backup of this site was made when this file was written.\n"), 0o600)
}

// ReadOnlyCopy returns the configuration of a read-only server with a copy of the store. The copy
// and the server's other files are in a temporary folder, which remove deletes.
func (c *Config) ReadOnlyCopy() (_ *Config, remove func(), err error) {
	if has, err := c.HasState(); err != nil {
		return nil, nil, err
	} else if !has {
		return nil, nil, fmt.Errorf("there is no %s: %w", c.State, ErrNeverServed)
	}
	dir, err := os.MkdirTemp("", "patchbay-read-only-")
	if err != nil {
		return nil, nil, fmt.Errorf("%w; set TMPDIR to another folder", err)
	}
	readOnly := *c
	readOnly.readOnly = true
	readOnly.Metrics = MetricsConfig{} // the server of the site may use the metrics address
	readOnly.State, readOnly.Audit = filepath.Join(dir, "state.db"), filepath.Join(dir, "audit.log")
	f, err := os.OpenFile(readOnly.State, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(store.Backup(c.State, f), f.Close())
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("cannot copy the store to %s, to read it there: %w", dir, err), os.RemoveAll(dir))
	}
	return &readOnly, func() { os.RemoveAll(dir) }, nil
}

// ErrNeverServed says that the site has no store.
var ErrNeverServed = errors.New("the site has no store yet; it is created when the site is first served")
