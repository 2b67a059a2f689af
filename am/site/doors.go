package site

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/operate"
	"patchbay/am/store"
	"patchbay/am/work"
	"patchbay/inventory"
)

// doors are what commands ask a served site at its socket, beside what package
// server answers itself.
func (s *Site) doors() map[string]http.Handler {
	doors := operate.Doors(s.operations)
	for pattern, h := range map[string]http.Handler{
		"GET /time":        http.HandlerFunc(s.tellTime),
		"GET /clock":       http.HandlerFunc(s.tellClock),
		"POST /clock":      http.HandlerFunc(s.believeClock),
		"GET /reload":      http.HandlerFunc(s.answerReload),
		"POST /reload":     http.HandlerFunc(s.answerReload),
		"GET /hooks":       http.HandlerFunc(s.tellHooks),
		"GET /orphans":     http.HandlerFunc(s.listOrphans),
		"POST /orphans":    http.HandlerFunc(s.releaseOrphans),
		"GET /backup":      s.backupDoor(),
		"GET /check-store": http.HandlerFunc(s.tellStore),
	} {
		doors[pattern] = bare(h)
	}
	if s.config.readOnly {
		for pattern := range doors {
			if strings.HasPrefix(pattern, http.MethodPost) {
				doors[pattern] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					operate.Fail(w, &operate.RefusedError{Text: errReadOnly.Error()})
				})
			}
		}
	}
	return doors
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // who asked may have left
}

// bare is a door whose questions have no query: nothing that is asked is passed over.
func bare(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := operate.NoQuery(r); err != nil {
			operate.Fail(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// backupDoor hands out the store, to one at a time.
type backupDoor struct {
	site *Site
	// part is how long one part of a backup may take to be read by who asked for it,
	// whole how long all of it: meanwhile nothing of the file is used again, and it
	// grows.
	part, whole time.Duration
	// wait is how long one waits for the one before: its reader has all of it a moment
	// before the door is free.
	wait time.Duration
	busy chan struct{}
}

func (s *Site) backupDoor() http.Handler {
	return &backupDoor{site: s, part: 30 * time.Second, whole: 10 * time.Minute, wait: 2 * time.Second, busy: make(chan struct{}, 1)}
}

func (d *backupDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case d.busy <- struct{}{}:
		defer func() { <-d.busy }()
	case <-time.After(d.wait):
		http.Error(w, "another backup is being made; try again later", http.StatusUnprocessableEntity)
		return
	case <-r.Context().Done():
		return
	}
	out := &unhurried{ResponseWriter: w, control: http.NewResponseController(w), part: d.part, end: time.Now().Add(d.whole)}
	begun := false
	err := d.site.store.Backup(out, func(size int64) {
		begun = true
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	})
	switch {
	case err == nil:
		d.site.log.Info("a backup was made", "state", d.site.config.State)
	case begun: // what it asked for breaks off, which it sees
		d.site.log.Warn("a backup was not read to its end", "state", d.site.config.State, "error", err)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// unhurried is an answer that may take long, as long as it is read.
type unhurried struct {
	http.ResponseWriter
	control *http.ResponseController
	part    time.Duration
	end     time.Time
}

func (p *unhurried) Write(b []byte) (int, error) {
	until := time.Now().Add(p.part)
	if until.After(p.end) {
		until = p.end
	}
	if err := p.control.SetWriteDeadline(until); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(b)
}

// tellStore answers what a look at the whole store finds.
func (s *Site) tellStore(w http.ResponseWriter, _ *http.Request) {
	report, err := s.store.Check()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, report)
}

// tellTime answers commands that reckon from now.
func (s *Site) tellTime(w http.ResponseWriter, _ *http.Request) {
	answer(w, timeAnswer{s.clock.Now()})
}

// tellClock answers `patchbay clock`.
func (s *Site) tellClock(w http.ResponseWriter, _ *http.Request) {
	s.answerClock(w, ClockAnswer{Now: s.clock.State()})
}

// believeClock answers `patchbay clock --believe`.
func (s *Site) believeClock(w http.ResponseWriter, r *http.Request) {
	order, ok := readOrder(w, r)
	if !ok {
		return
	}
	var a ClockAnswer
	a.Before, a.Now = s.clock.Believe()
	s.log.Warn("the host's clock is believed by an operator's word", "site", a.Before.Site, "host", a.Before.Host, "operator", order.Operator)
	if err := s.clock.Save(); err != nil {
		s.log.Error("the clock's file was not written", "error", err)
	}
	if a.Doubted() {
		s.noteAct(order.Operator, ClockBelieved, a.Summary())
	}
	s.answerClock(w, a)
	s.runner.Wake()
}

func (s *Site) answerClock(w http.ResponseWriter, a ClockAnswer) {
	if err := a.Count(s.store); err != nil {
		s.log.Error("the clock cannot be told", "error", err)
		http.Error(w, "The clock cannot be told; the log says why.", http.StatusInternalServerError)
		return
	}
	answer(w, a)
}

// Bounds of an order.
const (
	maxSiteOrder = 1 << 10 // bytes
	maxOperator  = 100     // bytes
)

// ServerCommand is what a command says to a served site that is to do something of which
// the audit tells: the site writes that line, for who gave the order may be gone
// before it is done.
type ServerCommand struct {
	Operator string `json:"operator"`
}

// readOrder reads an order. One that would make an odd audit is refused, in an answer;
// then ok is false.
func readOrder(w http.ResponseWriter, r *http.Request) (o ServerCommand, ok bool) {
	err := operate.ReadOrder(w, r, maxSiteOrder, &o)
	switch {
	case err != nil:
	case o.Operator == "":
		err = &operate.RefusedError{Text: "the order does not say who gives it"}
	case len(o.Operator) > maxOperator || strings.ContainsFunc(o.Operator, unicode.IsControl):
		err = &operate.RefusedError{Text: "the name of the operator is longer than 100 bytes, or has control characters"}
	}
	if err != nil {
		operate.Fail(w, err)
	}
	return o, err == nil
}

// tellHooks answers how each hook does.
func (s *Site) tellHooks(w http.ResponseWriter, _ *http.Request) {
	answer(w, s.hooks.States())
}

// answerReload is what a command asks of a served site: POST takes the inventory
// over, GET tells what that would mean.
func (s *Site) answerReload(w http.ResponseWriter, r *http.Request) {
	var report *ReloadReport
	var err error
	if r.Method == http.MethodPost {
		order, ok := readOrder(w, r)
		if !ok {
			return
		}
		report, err = s.reloadInventory(context.WithoutCancel(r.Context()), order.Operator)
	} else {
		var inv *inventory.Inventory
		if report, inv, err = s.tryInventory(); err == nil {
			_, err = s.policy.load(PolicySite(inv))
		}
		if err == nil {
			err = report.meet(nil, inv, s.store, s.providers.usable)
		}
	}
	if err != nil {
		report.Wrong = errorLines(err)
		if r.Method == http.MethodPost {
			s.log.Error("the inventory cannot be taken over; what is in force stays so", "error", err)
		}
	}
	answer(w, report)
}

// listOrphans answers GET /orphans with one JSON OrphanRow a line.
func (s *Site) listOrphans(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := json.NewEncoder(w)
	for _, u := range s.runner.Orphans() {
		_, holds := blockedComponent(&u, s.index.Inventory())
		if out.Encode(OrphanRow{u.Provider, u.Name, u.Component, u.Sliver, u.Since, u.Released, holds, u.RemovalRequested}) != nil {
			return // the client has closed the connection
		}
	}
}

// releaseOrphans answers POST /orphans: it removes the orphans of an OrphanOrder.
func (s *Site) releaseOrphans(w http.ResponseWriter, r *http.Request) {
	var o OrphanOrder
	err := operate.ReadOrder(w, r, maxOrphanOrder, &o)
	var orphans []work.Orphan
	if err == nil {
		if orphans, err = s.findOrdered(&o); err != nil {
			err = &operate.RefusedError{Text: err.Error()}
		}
	}
	if err != nil {
		operate.Fail(w, err)
		return
	}
	// Journal first: a removal that is journalled but not done can be ordered again.
	err = s.store.Commit(r.Context(), func(v *store.View) (cs store.ChangeSet, err error) {
		for _, u := range orphans {
			text := fmt.Sprintf("%.200s of provider %s on %.100s", display.Printable(u.Name), u.Provider, cmp.Or(display.Printable(u.Component), "an unknown node"))
			cs.Log(am.JournalEntry{At: v.Now().UTC(), Event: eventReleaseOrphan, Operator: o.Operator, Text: strings.TrimSuffix(text+": "+o.Text, ": ")})
		}
		return cs, nil
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, s.removeOrphans(r.Context(), orphans))
}
