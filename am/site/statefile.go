package site

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/audit"
	"patchbay/am/display"
	"patchbay/am/hook"
	"patchbay/am/store"
)

// copyMarks are what the names of older states, which a restore or a later program
// has kept beside the one of today, have after its name.
var copyMarks = []string{".before-restore-", ".schema"}

// LeftMarks are what the names of files have that were not finished.
var LeftMarks = []string{".new-", ".restore-"}

// Beside lists the files beside the state whose names go on with one of the marks.
func (c *Config) Beside(marks []string) (names []string, err error) {
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

// HasState tells whether the site has a state. Of a site that has none yet the audit
// knows no change, and no older states are there; one that has these and no state has
// lost it, which is the error: to begin anew would forget all promises.
func (c *Config) HasState() (bool, error) {
	_, err := os.Lstat(c.State)
	if !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	signs, err := c.Beside(copyMarks)
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

// lostStateError says that a site has promised something, and its state is gone.
type lostStateError struct {
	state string
	signs []string // files that show it
}

func (e *lostStateError) Error() string {
	more := ""
	if n := len(e.signs) - 3; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	files := strings.Join(e.signs[:min(3, len(e.signs))], ", ") + more
	return fmt.Sprintf("there is no store %s, and the site had one, as %s shows; bring a backup back with patchbay restore FILE; to begin anew and forget all promises, move away: %s", e.state, e.signs[0], files)
}

// storeAhead is how much disk the store of a served site keeps for itself, in bytes.
const storeAhead = 64 << 20

// openStore opens the store, or makes that of a new site. now is the site's clock.
func (c *Config) openStore(now func() time.Time, broken func(error)) (*store.Store, error) {
	if _, err := c.HasState(); err != nil {
		return nil, err
	}
	o := c.storeOptions(now)
	o.Broken = broken
	if broken != nil { // it is served, and not only looked at
		o.Ahead = storeAhead
	}
	s, err := store.Open(c.State, o)
	if errors.Is(err, store.ErrCopy) {
		err = c.Copied(err)
	}
	return s, err
}

// hooks are those of the site, defaults put in.
func (c *Config) hooks() []hook.Hook {
	var list []hook.Hook
	for _, h := range c.Hooks {
		x := hook.Hook{
			Name: h.Name, Command: h.Command, URL: h.URL, Dir: filepath.Dir(c.Origin.File), Secret: h.Secret, CA: h.CA,
			Before: h.Before, Timeout: h.Timeout,
		}
		for _, w := range h.Events {
			x.Events = append(x.Events, hook.Word(w))
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

// storeOptions are what every program opens the site's store with, so that hooks
// hear of what any of them changes; now is the site's clock.
func (c *Config) storeOptions(now func() time.Time) store.Options {
	o := store.Options{Site: c.Authority, Now: now, Outbox: hook.Outbox(c.Authority, c.hooks())}
	if c.readOnly {
		o.ReadOnly = errReadOnly
	}
	return o
}

// errReadOnly refuses what would change a site that is only looked at.
var errReadOnly = am.Errorf(am.Unavailable, "this server is read-only, so nothing was changed")

// Copied adds to the refusal of a copy what its operator can do.
func (c *Config) Copied(err error) error {
	return fmt.Errorf("%w; two servers must not act on the same nodes: if the other one is not served any more, type: %s; to look only, type: %s",
		err, display.CommandAt(c.Origin.File, "move"), display.CommandAt(c.Origin.File, "serve", "--read-only"))
}

// restoredMark is a file beside the store that is there after a restore, until all
// providers have told once what they have.
func restoredMark(c *Config) string { return c.State + ".restored" }

func MarkRestored(c *Config) error {
	return ReplaceFile(restoredMark(c), []byte("The store was restored; patchbay serve removes this when it knows what its providers have.\n"), 0o600)
}

// backupMark is a file beside the store that was written at the last backup.
func backupMark(c *Config) string { return c.State + ".backup" }

// MarkBackup notes that a backup was made now, for the metric of the last one.
func MarkBackup(c *Config) error {
	return ReplaceFile(backupMark(c), []byte("The last backup of this site was made when this file was written.\n"), 0o600)
}

// ReadOnlyCopy is the configuration of a server that shows a site and changes nothing:
// its store, and all that it writes, is in a temporary folder. done removes that.
func (c *Config) ReadOnlyCopy() (_ *Config, done func(), err error) {
	if has, err := c.HasState(); err != nil {
		return nil, nil, err
	} else if !has {
		return nil, nil, fmt.Errorf("there is no %s: %w", c.State, ErrNeverServed)
	}
	dir, err := os.MkdirTemp("", "patchbay-read-only-")
	if err != nil {
		return nil, nil, err
	}
	look := *c
	look.readOnly = true
	look.State, look.Audit = filepath.Join(dir, "state.db"), filepath.Join(dir, "audit.log")
	f, err := os.OpenFile(look.State, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(store.Backup(c.State, f), f.Close())
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("cannot copy the store to look into it: %w; TMPDIR names another folder for that", err), os.RemoveAll(dir))
	}
	return &look, func() { os.RemoveAll(dir) }, nil
}

// ErrNeverServed says that a site has no store.
var ErrNeverServed = errors.New("the site has no store yet; it gets one when it is served first")
