package site

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/follow/audit"
	"patchbay/am/service"
	"patchbay/am/service/maintenance"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// serveUnserved opens the files of a site that is not served, or a backup, for one request and
// answers it with the handlers of the admin socket. It fails with ErrNotServed if only a server
// can answer the request.
func (h AdminClient) serveUnserved(r *http.Request, isOrder bool) (*http.Response, error) {
	s := unservedSite{config: h.Config}
	if answer := s.fileAnswers()[r.Method+" "+r.URL.Path]; answer != nil {
		body, err := answer()
		return &http.Response{StatusCode: http.StatusOK, Body: body}, err
	}
	mux := http.NewServeMux()
	for pattern, handler := range operate.Endpoints(&s.operations) {
		mux.Handle(pattern, handler)
	}
	maintenance := &maintenanceEndpoint{config: h.Config, now: s.now, state: s.maintenanceState, record: s.record, slivers: s.slivers}
	mux.Handle("GET "+maintenancePath, maintenance)
	mux.Handle("POST "+maintenancePath, maintenance)
	trial := &authorityEndpoints{config: h.Config, now: time.Now}
	for pattern, handler := range trial.handlers() {
		mux.Handle(pattern, handler)
	}
	if _, pattern := mux.Handler(r); pattern == "" {
		return nil, ErrNotServed
	}
	var err error
	if !strings.HasPrefix(r.URL.Path, authorityPath) { // the authority has files of its own
		err = s.open(h.backup, isOrder)
	}
	if r.URL.Path == maintenancePath {
		if err = explainNoSocket(err, h.Config.Maintenance); errors.Is(err, ErrNeverServed) {
			err = nil // the maintenance file needs no store
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	w := memoryWriter{header: http.Header{}}
	mux.ServeHTTP(&w, r)
	if err := s.close(); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: cmp.Or(w.status, http.StatusOK), Body: io.NopCloser(&w.body)}, nil
}

// fileAnswers returns the functions that answer requests without an open store, by pattern. Their
// errors keep their types.
func (s *unservedSite) fileAnswers() map[string]func() (io.ReadCloser, error) {
	return map[string]func() (io.ReadCloser, error){
		"GET /backup": s.backUp,
		"GET /check-store": func() (io.ReadCloser, error) {
			report, err := store.Check(s.config.State)
			return jsonBody(report, err)
		},
		"GET /reload": func() (io.ReadCloser, error) {
			report, err := s.reloadEffect()
			return jsonBody(report, err)
		},
	}
}

func jsonBody(v any, err error) (io.ReadCloser, error) {
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(v)
	return io.NopCloser(bytes.NewReader(text)), err
}

// backUp returns a copy of the store as a stream, since a store can be larger than the memory.
func (s *unservedSite) backUp() (io.ReadCloser, error) {
	if has, err := s.config.HasState(); err != nil {
		return nil, err
	} else if !has {
		return nil, fmt.Errorf("there is no %s: %w", s.config.State, ErrNeverServed)
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(store.Backup(s.config.State, w)) }()
	return r, nil
}

// reloadEffect reports the consequences of the inventory for the slivers in the store.
func (s *unservedSite) reloadEffect() (r *ReloadReport, err error) {
	c := s.config
	inv, err := c.LoadInventory()
	if err != nil {
		return nil, err
	}
	if s.store, err = openUnserved(c, "", false); err != nil {
		return nil, err
	}
	r = &ReloadReport{File: c.Inventory}
	slivers, err := s.store.Slivers()
	if clash := inventory.CheckClash(inv, c.Inventory, slivers); err == nil && clash != nil {
		r.Wrong = errorLines(clash)
	} else if err == nil {
		err = r.compareSlivers(nil, inv, s.store, newProviderSet(c.Providers, nil, slog.New(slog.DiscardHandler)).checkUsable)
	}
	return r, errors.Join(err, s.close())
}

// unservedSite has the parts of a site that is not served. Its handlers must not be called
// before open.
type unservedSite struct {
	config     *Config
	inventory  *inventory.Inventory
	plan       *maintenance.Plan
	store      *store.Store
	audit      *audit.Log // nil for a request that changes nothing
	operations operate.Operations
}

// open opens the site's files, or a backup. It fails with ErrNeverServed if the site has no store.
func (s *unservedSite) open(backup string, isOrder bool) (err error) {
	c := s.config
	if s.inventory, err = c.LoadInventory(); err != nil {
		return err
	}
	if s.plan, err = maintenance.Read(c.Maintenance); err != nil {
		return err
	}
	if s.store, err = openUnserved(c, backup, isOrder); err != nil {
		return err
	}
	if s.inventory, err = c.withFound(s.inventory, s.store); err != nil {
		return err
	}
	if isOrder { // the audit gets the journal's new entries
		if s.audit, err = audit.Open(c.Audit, s.store, audit.Options{Now: s.store.Now}); err != nil {
			return err
		}
	}
	s.operations = *operate.New(operate.Config{
		Store: s.store, Inventory: func() *inventory.Inventory { return s.inventory }, Plan: func() *maintenance.Plan { return s.plan },
		AllocatedMax: c.Leases.AllocatedMax, ProvisionedMax: c.Leases.ProvisionedMax, Reading: c.ReadOptions,
		Manifest: func(slice urn.URN) ([]byte, error) {
			var current atomic.Pointer[inventory.Inventory]
			current.Store(s.inventory)
			return service.New(service.Config{
				Store: s.store, Inventory: &current, GeneratedBy: "patchbay " + SoftwareVersion(),
				ASCIIManifests: c.ASCIIManifests, ManifestExtensions: c.ManifestExtensions, Reading: c.ReadOptions(s.inventory),
			}).Inspect(slice)
		},
	})
	return nil
}

func openUnserved(c *Config, backup string, isOrder bool) (*store.Store, error) {
	if backup != "" {
		return store.Open(backup, store.Options{Site: c.Authority, ReadOnly: errReadOnly})
	}
	if has, err := c.HasState(); err != nil {
		return nil, err
	} else if !has {
		return nil, fmt.Errorf("there is no %s: %w", c.State, ErrNeverServed)
	}
	if isOrder {
		return c.OpenState()
	}
	return c.OpenStateReadOnly()
}

func (s *unservedSite) close() (err error) {
	if s.audit != nil {
		err = s.audit.Close()
	}
	if s.store != nil {
		err = errors.Join(err, s.store.Close())
	}
	return err
}

// now, maintenanceState and record also work without a store.
func (s *unservedSite) now() time.Time {
	if s.store == nil {
		return time.Now()
	}
	return s.store.Now()
}

func (s *unservedSite) maintenanceState(context.Context) (state operate.MaintenanceState, err error) {
	plan, err := maintenance.Read(s.config.Maintenance)
	if err != nil {
		return state, err
	}
	slivers, err := s.slivers()
	if err != nil {
		return state, err
	}
	return maintenanceState(plan, s.inventory, slivers, s.now()), nil
}

// slivers returns all slivers; none of a site that was never served.
func (s *unservedSite) slivers() ([]am.Sliver, error) {
	if s.store == nil {
		return nil, nil
	}
	return s.store.Slivers()
}

func (s *unservedSite) record(n operate.Note) error {
	act := audit.Act{What: n.Event, Text: n.Text, Operator: n.Operator}
	if s.store == nil {
		return audit.Note(s.config.Audit, act)
	}
	_, err := s.operations.Note(context.Background(), n)
	if err != nil {
		s.audit.Act(act)
	}
	return err
}

// memoryWriter keeps an answer in memory.
type memoryWriter struct {
	status int // 0 for http.StatusOK
	header http.Header
	body   bytes.Buffer
}

func (w *memoryWriter) Header() http.Header { return w.header }

func (w *memoryWriter) WriteHeader(status int) { w.status = cmp.Or(w.status, status) }

func (w *memoryWriter) Write(b []byte) (int, error) { return w.body.Write(b) }
