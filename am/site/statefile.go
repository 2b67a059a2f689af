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

	"patchbay/am/audit"
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

// openRecords opens what a site that is about to serve keeps: its store, the audit,
// and what of both is still to be told to hooks.
func (s *Site) openRecords(context.Context) (err error) {
	c := s.config
	if s.store, err = c.openStore(s.clock.Now, s.tellBroken); err != nil {
		return err
	}
	if s.audit, err = audit.Open(c.Audit, s.store, audit.Options{Log: s.log, Now: s.clock.Now}); err != nil {
		return err
	}
	return s.openHooks()
}
