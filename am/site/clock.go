package site

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"patchbay/am/clock"
	"patchbay/am/display"
	"patchbay/am/store"
)

// clockName is the file, beside the store, that keeps what is known of the time.
const clockName = "clock.json"

func (c *Config) ClockFile() string { return filepath.Join(filepath.Dir(c.State), clockName) }

// OpenClock opens the clock by which the site's leases count. A nil log is none: what
// is wrong is in its State, too.
func (c *Config) OpenClock(log *slog.Logger) (*clock.Clock, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return clock.Open(clock.Options{File: c.ClockFile(), Jump: c.ClockJump, Log: log})
}

// LookAtState opens the store of a site that is not served, or a copy of it, to look
// at it only.
func (c *Config) LookAtState() (*store.Store, error) {
	look := *c
	look.readOnly = true
	return look.OpenState()
}

// OpenState opens the store of a site that is not served, at the site's time.
func (c *Config) OpenState() (*store.Store, error) {
	t, err := c.OpenClock(nil)
	if err != nil {
		return nil, err
	}
	return c.openStore(t.Now, nil)
}

// ClockAnswer is what a served site tells of its clock, and what it was before that
// was changed.
type ClockAnswer struct {
	Before, Now clock.State
	// Over counts the leases that are over by the host's clock and not by the site's.
	Over int
}

// ClockBelieved is what the journal calls it.
const ClockBelieved = "clock believed"

// Doubted tells whether there was a doubt before, or nothing to compare with.
func (a *ClockAnswer) Doubted() bool { return a.Before.Doubt != clock.NoDoubt || a.Before.Lost != "" }

// Summary is one line for the journal.
func (a *ClockAnswer) Summary() string {
	return fmt.Sprintf("%s instead of %s", display.Time(a.Now.Host), display.Time(a.Before.Site))
}

// Count counts the leases that end, or ended, by believing the host's clock.
func (a *ClockAnswer) Count(s *store.Store) error {
	from, to := a.Now.Site, a.Now.Host
	if !a.Before.Site.IsZero() {
		from = a.Before.Site
	}
	slivers, err := s.Slivers()
	for _, x := range slivers {
		if x.Live(from) && !x.Live(to) {
			a.Over++
		}
	}
	return err
}
