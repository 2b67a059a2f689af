package site

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/display"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/am/work"
	"patchbay/inventory"
)

// endpoints returns the handlers of the admin socket, except those of package server.
func (s *Site) endpoints() map[string]http.Handler {
	handlers := operate.Endpoints(s.operations)
	maintenance := &maintenanceEndpoint{config: s.config, now: s.clock.Now, state: s.maintenance.state, record: s.recordAct, slivers: s.store.Slivers}
	for pattern, h := range map[string]http.Handler{
		"GET /maintenance":  maintenance,
		"POST /maintenance": maintenance,
		"GET /time":         http.HandlerFunc(s.serveTime),
		"GET /reload":       http.HandlerFunc(s.serveReload),
		"POST /reload":      http.HandlerFunc(s.serveReload),
		"GET /hooks":        http.HandlerFunc(s.serveHooks),
		"GET /orphans":      http.HandlerFunc(s.listOrphans),
		"GET /providers":    http.HandlerFunc(s.listProviders),
		"POST /orphans":     http.HandlerFunc(s.releaseOrphans),
		"GET /backup":       s.backupEndpoint(),
		"GET /check-store":  http.HandlerFunc(s.serveStoreCheck),
	} {
		handlers[pattern] = withoutQuery(h)
	}
	trial := &authorityEndpoints{config: s.config, now: s.clock.Now, pagesURL: s.PagesURL, operators: s.trialState, record: s.recordAct}
	if s.trial != nil {
		trial.served = s.trialState
	}
	maps.Copy(handlers, trial.handlers())
	if s.config.readOnly {
		for pattern := range handlers {
			if strings.HasPrefix(pattern, http.MethodPost) {
				handlers[pattern] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					operate.Fail(w, &operate.RefusedError{Text: errReadOnly.Error()})
				})
			}
		}
	}
	return handlers
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have closed the connection
}

// withoutQuery refuses requests with a query, so that no misspelt option is ignored.
func withoutQuery(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := operate.NoQuery(r); err != nil {
			operate.Fail(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

type backupEndpoint struct {
	site *Site
	// part is the time in which the client must read one part of a backup, whole the time for all
	// parts. Both limit the growth of the store, which reuses no pages during a backup.
	part, whole time.Duration
	// wait is the longest wait for the end of another backup. Without it, the second of two
	// successive requests could be refused, because the server ends a request a moment after the
	// client has read the backup.
	wait time.Duration
	busy chan struct{}
}

func (s *Site) backupEndpoint() http.Handler {
	return &backupEndpoint{site: s, part: 30 * time.Second, whole: 10 * time.Minute, wait: 2 * time.Second, busy: make(chan struct{}, 1)}
}

func (d *backupEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case d.busy <- struct{}{}:
		defer func() { <-d.busy }()
	case <-time.After(d.wait):
		http.Error(w, "another backup is being made; try again later", http.StatusUnprocessableEntity)
		return
	case <-r.Context().Done():
		return
	}
	out := &slowWriter{ResponseWriter: w, control: http.NewResponseController(w), part: d.part, end: time.Now().Add(d.whole)}
	begun := false
	err := d.site.store.Backup(out, func(size int64) {
		begun = true
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	})
	switch {
	case err == nil:
		d.site.log.Info("a backup was made", "state", d.site.config.State)
	case begun: // the client detects an incomplete answer
		d.site.log.Warn("a backup was not read to its end", "state", d.site.config.State, "error", err)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// slowWriter sets a write deadline for each part of an answer. part is the time for one part. The
// whole answer must be complete before end.
type slowWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	part    time.Duration
	end     time.Time
}

func (p *slowWriter) Write(b []byte) (int, error) {
	until := time.Now().Add(p.part)
	if until.After(p.end) {
		until = p.end
	}
	if err := p.control.SetWriteDeadline(until); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(b)
}

func (s *Site) serveStoreCheck(w http.ResponseWriter, _ *http.Request) {
	report, err := s.store.Check()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, report)
}

func (s *Site) serveTime(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, s.clock.State())
}

const maxSiteOrder = 1 << 10 // bytes

// ServerCommand is an order to a served site. Operator is the operator's name for the journal.
// The site writes the journal entry, because the client may end before the order is carried out.
type ServerCommand struct {
	Operator string `json:"operator"`
}

// readOrder reads an order. If it returns ok false, it has answered the request with an error.
func readOrder(w http.ResponseWriter, r *http.Request) (o ServerCommand, ok bool) {
	err := operate.ReadOrder(w, r, maxSiteOrder, &o)
	if err == nil {
		err = operate.CheckOperator(o.Operator, "")
	}
	if err != nil {
		operate.Fail(w, err)
	}
	return o, err == nil
}

func (s *Site) serveHooks(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, s.hooks.States())
}

// serveReload loads the inventory file for POST. For GET it reports the changes that POST would
// make.
func (s *Site) serveReload(w http.ResponseWriter, r *http.Request) {
	var report *ReloadReport
	var err error
	if r.Method == http.MethodPost {
		order, ok := readOrder(w, r)
		if !ok {
			return
		}
		if report, err = s.reloadInventory(context.WithoutCancel(r.Context()), order.Operator); err == nil {
			report.Clock = s.trustClock(order.Operator)
		}
	} else {
		var inv *inventory.Inventory
		if report, inv, err = s.tryInventory(); err == nil {
			_, err = s.policy.load(PolicySite(inv))
		}
		if err == nil {
			err = report.compareSlivers(nil, inv, s.store, s.providers.checkUsable)
		}
	}
	if err != nil {
		report.Wrong = errorLines(err)
		if r.Method == http.MethodPost {
			s.log.Error("the inventory file cannot be used; the previous inventory still applies", "error", err)
		}
	}
	writeJSON(w, report)
}

func (s *Site) listOrphans(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := json.NewEncoder(w)
	for _, u := range s.runner.Orphans() {
		_, holds := blockedComponent(&u, s.inventory.Load())
		row := operate.OrphanRow{
			Provider: u.Provider, Resource: u.Name, Component: u.Component, Sliver: u.Sliver,
			Since: u.Since, Released: u.Released, Holds: holds, RemovalRequested: u.RemovalRequested,
		}
		if out.Encode(row) != nil {
			return // the client has closed the connection
		}
	}
}

func (s *Site) listProviders(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := json.NewEncoder(w)
	for _, p := range s.runner.Polled() {
		row := operate.Provider{Name: p.Provider, Answered: p.Answered, Silent: p.Silent}
		if p.Err != nil {
			row.Error = display.Cut(display.Printable(work.OperatorText(p.Err)), 500)
		}
		if out.Encode(row) != nil {
			return // the client has closed the connection
		}
	}
}

func (s *Site) releaseOrphans(w http.ResponseWriter, r *http.Request) {
	var o operate.OrphanOrder
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
	// Write the journal first. If the removal then fails, the operator can order it again.
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
	writeJSON(w, s.removeOrphans(r.Context(), orphans))
}
