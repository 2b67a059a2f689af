package site

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"patchbay/am/clock"
	"patchbay/am/display"
	"patchbay/am/store"
)

// clockName is the name of a file in the folder of the store.
const clockName = "clock.json"

// ClockFile returns the path of the clock's file.
func (c *Config) ClockFile() string { return filepath.Join(filepath.Dir(c.State), clockName) }

// OpenClock opens the clock that leases of the site follow. If log is nil, messages are
// discarded. The clock's State also shows problems.
func (c *Config) OpenClock(log *slog.Logger) (*clock.Clock, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return clock.Open(clock.Options{File: c.ClockFile(), Jump: c.ClockJump, Log: log})
}

// OpenStateReadOnly opens a store for reading only: the store of a site that is not served, or a
// copy of a store.
func (c *Config) OpenStateReadOnly() (*store.Store, error) {
	readOnly := *c
	readOnly.readOnly = true
	return readOnly.OpenState()
}

// OpenState opens the store of a site that is not served, with the site's clock.
func (c *Config) OpenState() (*store.Store, error) {
	t, err := c.OpenClock(nil)
	if err != nil {
		return nil, err
	}
	return c.openStore(t.Now, nil)
}

// ClockAnswer is the state of a served site's clock, and its state before a change.
type ClockAnswer struct {
	Before, Now clock.State
	// Over is the number of leases that have ended by the host's clock but not by the site's
	// clock. These leases end when an operator trusts the host's clock.
	Over int
}

// ClockTrusted is the journal's event for an operator's order to trust the host's
// clock.
const ClockTrusted = "clock trusted"

// Doubted reports whether the state Before was bad: the host's clock was not trusted, or the
// clock's file was lost.
func (a *ClockAnswer) Doubted() bool { return a.Before.Doubt != clock.NoDoubt || a.Before.Lost != "" }

// Summary returns one line for the journal, with the new time and the old time.
func (a *ClockAnswer) Summary() string {
	return fmt.Sprintf("%s instead of %s", display.Time(a.Now.Host), display.Time(a.Before.Site))
}

// Count adds to Over the leases that end when an operator trusts the host's clock.
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
