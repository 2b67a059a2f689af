package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"patchbay/am/clock"
	"patchbay/am/store"
)

// clockName is the file, beside the store, that keeps what is known of the time.
const clockName = "clock.json"

func (c *Config) clockFile() string { return filepath.Join(filepath.Dir(c.State), clockName) }

// openClock opens the clock by which the site's leases count. A nil log is none: what
// is wrong is in its State, too.
func (c *Config) openClock(log *slog.Logger) (*clock.Clock, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return clock.Open(clock.Options{File: c.clockFile(), Jump: c.ClockJump, Log: log})
}

// now is the site's time, as far as it can be known.
func (c *Config) now(ctx context.Context) time.Time {
	var a timeAnswer
	if err := askSite(ctx, c, "/time", &a); err == nil {
		return a.Now
	}
	if t, err := c.openClock(nil); err == nil {
		return t.Now()
	}
	return time.Now()
}

// timeAnswer is what a served site tells of its time.
type timeAnswer struct{ Now time.Time }

// tellTime answers commands that reckon from now.
func (s *site) tellTime(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(timeAnswer{s.clock.Now()}) // who asked may have left
}

// lookAtState opens the store of a site that is not served, or a copy of it, to look
// at it only.
func (c *Config) lookAtState() (*store.Store, error) {
	look := *c
	look.readOnly = true
	return look.openState()
}

// openState opens the store of a site that is not served, at the site's time.
func (c *Config) openState() (*store.Store, error) {
	t, err := c.openClock(nil)
	if err != nil {
		return nil, err
	}
	return c.openStore(t.Now, nil)
}

// clockAnswer is what a served site tells of its clock, and what it was before that
// was changed.
type clockAnswer struct {
	Before, Now clock.State
	// Over counts the leases that are over by the host's clock and not by the site's.
	Over int
}

// clockBelieved is what the journal calls it.
const clockBelieved = "clock believed"

// doubted tells whether there was a doubt before, or nothing to compare with.
func (a *clockAnswer) doubted() bool { return a.Before.Doubt != clock.NoDoubt || a.Before.Lost != "" }

// summary is one line for the journal.
func (a *clockAnswer) summary() string {
	return fmt.Sprintf("%s instead of %s", moment(a.Now.Host), moment(a.Before.Site))
}

// tellClock answers `patchbay clock`.
func (s *site) tellClock(w http.ResponseWriter, _ *http.Request) {
	s.answerClock(w, clockAnswer{Now: s.clock.State()})
}

// believeClock answers `patchbay clock --believe`.
func (s *site) believeClock(w http.ResponseWriter, r *http.Request) {
	order, ok := readOrder(w, r)
	if !ok {
		return
	}
	var a clockAnswer
	a.Before, a.Now = s.clock.Believe()
	s.log.Warn("the host's clock is believed by an operator's word", "site", a.Before.Site, "host", a.Before.Host, "operator", order.Operator)
	if err := s.clock.Save(); err != nil {
		s.log.Error("the clock's file was not written", "error", err)
	}
	if a.doubted() {
		s.noteAct(order.Operator, clockBelieved, a.summary())
	}
	s.answerClock(w, a)
	s.runner.Wake()
}

func (s *site) answerClock(w http.ResponseWriter, a clockAnswer) {
	err := a.count(s.store)
	var text []byte
	if err == nil {
		text, err = json.Marshal(a)
	}
	if err != nil {
		s.log.Error("the clock cannot be told", "error", err)
		http.Error(w, "The clock cannot be told; the log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text) // who asked may have left
}

// count counts the leases that end, or ended, by believing the host's clock.
func (a *clockAnswer) count(s *store.Store) error {
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
