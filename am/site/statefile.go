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
	"patchbay/am/audit"
	"patchbay/am/display"
	"patchbay/am/hook"
	"patchbay/am/maintenance"
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

// restoredPatience is how long a restored site takes no new work at its start if
// providers do not tell what they have.
const restoredPatience = 30 * time.Second

// restoredText is what experimenters are told meanwhile.
const restoredText = "it was restored from a backup, and finds out what there is; please try again in a minute"

// restoredMark is a file beside the store that is there after a restore, until all
// providers have told once what they have.
func restoredMark(c *Config) string { return c.State + ".restored" }

func MarkRestored(c *Config) error {
	return ReplaceFile(restoredMark(c), []byte("The store was restored; patchbay serve removes this when it knows what its providers have.\n"), 0o600)
}

// lockRestored has a restored site take no new work at its start.
func (s *Site) lockRestored() error {
	switch _, err := os.Lstat(restoredMark(s.config)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	s.upkeep.hold.lockdown = &maintenance.Lockdown{Text: restoredText}
	s.log.Warn("the store was restored from a backup; nothing new is promised before providers have told what they have", "at_most", restoredPatience)
	return nil
}

// openRestored ends that when it has lasted long enough.
func (s *Site) openRestored(ctx context.Context) {
	if s.upkeep.shown.Load().Lockdown == nil {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(restoredPatience):
	}
	err := s.upkeep.beside(ctx, func(h *holding) {
		if h.lockdown != nil {
			h.lockdown = nil
			s.log.Warn("not all providers have told what they have, so a node that the backup does not know of may be given away; mend them, and see patchbay nodes --unpromised", "waited", restoredPatience)
		}
	})
	if err != nil && ctx.Err() == nil {
		s.log.Error("the restored site takes new work, but it is not sure that all calls know", "error", err)
	}
}

// unmarkRestored forgets the restore: all providers have told what they have.
func (s *Site) unmarkRestored() {
	if err := os.Remove(restoredMark(s.config)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("the mark of a restore cannot be removed, so the next start waits for providers again; remove it", "error", err)
	}
}

const (
	// pruneEvery is how often the journal is looked at for entries that are old.
	pruneEvery = time.Hour
	// pruneBatch is how many of them one change forgets, and pruneRest the time
	// between two, so that calls do not wait for it.
	pruneBatch = 256
	pruneRest  = 100 * time.Millisecond
)

// pruneJournal forgets entries of the journal that are older than journal_keep and
// whose lines the audit has, until ctx ends.
func (s *Site) pruneJournal(ctx context.Context) {
	if s.config.JournalKeep == 0 {
		return
	}
	for {
		s.pruneOnce(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pruneEvery):
		}
	}
}

func (s *Site) pruneOnce(ctx context.Context) {
	forgotten := 0
	for {
		n, err := s.store.PruneJournal(ctx, s.store.Now().Add(-s.config.JournalKeep), s.audit.Settled(), pruneBatch)
		forgotten += n
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
			s.log.Warn("old entries of the journal cannot be removed; they stay until the next hour", "error", err)
		}
		if n < pruneBatch {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(pruneRest):
		}
	}
	if forgotten > 0 {
		s.log.Info("old entries of the journal were removed", "entries", forgotten, "journal_keep", s.config.JournalKeep)
	}
}
