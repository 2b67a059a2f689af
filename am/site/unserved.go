package site

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"patchbay/am/audit"
	"patchbay/am/maintenance"
	"patchbay/am/operate"
	"patchbay/am/service"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// serveUnserved opens the files of a site that is not served, or a backup, for one request and
// answers it with the handlers of the admin socket. It fails with ErrNotServed if only a server
// can answer the request.
func (h AdminClient) serveUnserved(r *http.Request, isOrder bool) (*http.Response, error) {
	var operations operate.Operations // set before its handler is called
	mux := http.NewServeMux()
	for pattern, handler := range operate.Endpoints(&operations) {
		mux.Handle(pattern, handler)
	}
	if _, pattern := mux.Handler(r); pattern == "" {
		return nil, ErrNotServed
	}
	open := h.Config.OpenStateReadOnly
	if isOrder {
		open = h.Config.OpenState
	}
	d, st, err := h.openOperations(open)
	if err != nil {
		return nil, err
	}
	operations = *d
	closeAll := st.Close
	if isOrder { // the audit gets the journal's new entries
		log, err := audit.Open(h.Config.Audit, st, audit.Options{Now: st.Now})
		if err != nil {
			return nil, errors.Join(err, st.Close())
		}
		closeAll = func() error { return errors.Join(st.Close(), log.Close()) }
	}
	var w memoryWriter
	mux.ServeHTTP(&w, r)
	if err := closeAll(); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: cmp.Or(w.status, http.StatusOK), Body: io.NopCloser(&w.body)}, nil
}

// memoryWriter keeps an answer in memory.
type memoryWriter struct {
	status int // 0 for http.StatusOK
	header http.Header
	body   bytes.Buffer
}

func (w *memoryWriter) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

func (w *memoryWriter) WriteHeader(status int) { w.status = cmp.Or(w.status, status) }

func (w *memoryWriter) Write(b []byte) (int, error) { return w.body.Write(b) }

// openOperations opens the site's files, or the backup.
func (h AdminClient) openOperations(open func() (*store.Store, error)) (*operate.Operations, *store.Store, error) {
	c := h.Config
	inv, err := c.LoadInventory()
	if err != nil {
		return nil, nil, err
	}
	plan, err := maintenance.Read(c.Maintenance)
	if err != nil {
		return nil, nil, err
	}
	st, err := h.openStore(open)
	if err != nil {
		return nil, nil, err
	}
	if inv, err = c.withFound(inv, st); err != nil {
		return nil, nil, errors.Join(err, st.Close())
	}
	return operate.New(operate.Config{
		Store: st, Inventory: func() *inventory.Inventory { return inv }, Plan: func() *maintenance.Plan { return plan },
		AllocatedMax: c.Leases.AllocatedMax, ProvisionedMax: c.Leases.ProvisionedMax, Reading: c.ReadOptions,
		Manifest: func(slice urn.URN) ([]byte, error) {
			var current atomic.Pointer[inventory.Inventory]
			current.Store(inv)
			return service.New(service.Config{
				Store: st, Inventory: &current, GeneratedBy: "patchbay " + SoftwareVersion(),
				ASCIIManifests: c.ASCIIManifests, ManifestExtensions: c.ManifestExtensions, Reading: c.ReadOptions(inv),
			}).Inspect(slice)
		},
	}), st, nil
}

// openStore opens the backup if there is one. It fails with ErrNeverServed if the site has no
// store.
func (h AdminClient) openStore(open func() (*store.Store, error)) (*store.Store, error) {
	if h.backup != "" {
		return store.Open(h.backup, store.Options{Site: h.Config.Authority, ReadOnly: errReadOnly})
	}
	if has, err := h.Config.HasState(); err != nil {
		return nil, err
	} else if !has {
		return nil, fmt.Errorf("there is no %s: %w", h.Config.State, ErrNeverServed)
	}
	return open()
}
