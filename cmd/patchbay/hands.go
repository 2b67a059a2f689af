package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"patchbay/am/audit"
	"patchbay/am/binder"
	"patchbay/am/maintenance"
	"patchbay/am/operate"
	"patchbay/am/service"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
)

// hands are how an operator's command reaches a site: by the socket of one that
// is served, else by its files.
type hands struct {
	config *Config
	backup string // a file to look into, instead of the site; "" for none
}

// now is the time by which what the hands look at counts.
func (h hands) now(ctx context.Context) time.Time {
	if h.backup != "" {
		return time.Now()
	}
	return h.config.now(ctx)
}

// list writes rows, a JSON object a line.
func (h hands) list(ctx context.Context, what string, f operate.Filter, w io.Writer) error {
	return h.read(ctx, "/"+what+"?"+f.Query().Encode(), w, func(d *operate.Desk) error { return d.Lines(what, f, w) })
}

// read asks a served site, or looks itself.
func (h hands) read(ctx context.Context, what string, w io.Writer, look func(*operate.Desk) error) error {
	if h.backup == "" {
		if err := streamSite(ctx, h.config, what, w); !errors.Is(err, errNotServed) {
			return err
		}
	}
	if h.backup == "" {
		return h.look(look)
	}
	said := h.backup
	done, err := h.copyBackup()
	if err != nil {
		return err
	}
	defer done()
	return inWordsOf(h.look(look), h.backup, said)
}

// look looks into the files of a site that is not served.
func (h hands) look(look func(*operate.Desk) error) error {
	d, st, err := h.openDesk(h.config.lookAtState)
	if err != nil {
		return err
	}
	return errors.Join(look(d), st.Close())
}

// inWordsOf has an error name a file as the operator does, who does not know of a copy.
func inWordsOf(err error, file, said string) error {
	if err == nil || !strings.Contains(err.Error(), file) {
		return err
	}
	return &renamedError{err, strings.ReplaceAll(err.Error(), file, said)}
}

type renamedError struct {
	error
	text string
}

func (e *renamedError) Error() string { return e.text }
func (e *renamedError) Unwrap() error { return e.error }

// copyBackup has the hands look into a copy, for a store that is opened is brought to
// the form of today, and a backup may lie where nothing can be written. It is gone when
// done is called.
func (h *hands) copyBackup() (done func(), err error) {
	from, err := openRegular(h.backup)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	dir, err := os.MkdirTemp("", "patchbay-backup-")
	if err != nil {
		return nil, err
	}
	done = func() { os.RemoveAll(dir) }
	h.backup = filepath.Join(dir, "state.db")
	to, err := os.OpenFile(h.backup, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = io.Copy(to, from)
		err = errors.Join(err, to.Close())
	}
	if err != nil {
		done()
		return nil, fmt.Errorf("cannot copy the backup to look into it: %w; TMPDIR names another folder for that", err)
	}
	return done, nil
}

// act has a served site do something, or does it itself. do is for the latter.
func (h hands) act(ctx context.Context, what string, order any, do func(*operate.Desk) (operate.Done, error)) (done operate.Done, served bool, err error) {
	if err := tellSite(ctx, h.config, "/"+what, order, &done); !errors.Is(err, errNotServed) {
		return done, true, err
	}
	d, st, err := h.openDesk(h.config.openState)
	if err != nil {
		return done, false, err
	}
	log, err := audit.Open(h.config.Audit, st, audit.Options{Now: st.Now})
	if err != nil {
		return done, false, errors.Join(err, st.Close())
	}
	done, err = do(d)
	return done, false, errors.Join(err, st.Close(), log.Close())
}

// openDesk makes a desk over the files of a site that is not served; open opens its
// store.
func (h hands) openDesk(open func() (*store.Store, error)) (*operate.Desk, *store.Store, error) {
	c := h.config
	inv, err := inventory.Load(c.Inventory, c.Authority)
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
	return operate.New(operate.Config{
		Store: st, Inventory: func() *inventory.Inventory { return inv }, Plan: func() *maintenance.Plan { return plan },
		AllocatedMax: c.Leases.AllocatedMax, ProvisionedMax: c.Leases.ProvisionedMax,
		Manifest: func(slice urn.URN) ([]byte, error) {
			return service.New(service.Config{
				Store: st, Index: binder.NewIndex(inv), GeneratedBy: "patchbay " + softwareVersion(),
				ASCIIManifests: c.ASCIIManifests, ManifestExtensions: c.ManifestExtensions, Reading: c.reading(inv),
			}).Inspect(slice)
		},
	}), st, nil
}

// errNeverServed says that a site has no store.
var errNeverServed = errors.New("the site has no store yet; it gets one when it is served first")

// openStore opens what there is; it makes nothing new.
func (h hands) openStore(open func() (*store.Store, error)) (*store.Store, error) {
	if h.backup != "" {
		return store.Open(h.backup, store.Options{Site: h.config.Authority, ReadOnly: errReadOnly})
	}
	if has, err := h.config.hasState(); err != nil {
		return nil, err
	} else if !has {
		return nil, fmt.Errorf("there is no %s: %w", h.config.State, errNeverServed)
	}
	return open()
}

// rows calls f with each row of a list.
func rows[T any](ctx context.Context, h hands, what string, f operate.Filter, row func(*T) error) error {
	w := &lineWriter{row: func(line []byte) error {
		var t T
		if err := json.Unmarshal(line, &t); err != nil {
			return fmt.Errorf("the list of %s cannot be read: %w", what, err)
		}
		return row(&t)
	}}
	return cmp.Or(h.list(ctx, what, f, w), w.end())
}

// lineWriter calls row with each line that is written to it.
type lineWriter struct {
	row  func([]byte) error
	rest []byte // of a line that has not ended
}

// end refuses a line that has not ended.
func (w *lineWriter) end() error {
	if len(w.rest) > 0 {
		return errors.New("the list ends within a row; ask again")
	}
	return nil
}

func (w *lineWriter) Write(b []byte) (int, error) {
	n := len(b)
	for {
		head, tail, ok := bytes.Cut(b, []byte("\n"))
		if w.rest = append(w.rest, head...); !ok {
			return n, nil
		}
		if err := w.row(w.rest); err != nil {
			return 0, err
		}
		w.rest, b = w.rest[:0], tail
	}
}
