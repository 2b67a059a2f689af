package site

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"patchbay/am/maintenance"
)

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
