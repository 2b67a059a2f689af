package site

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

// AdminClient is how an operator's command reaches a site: by the socket of one that
// is served, else by its files.
type AdminClient struct {
	Config *Config
	Backup string // a file to look into, instead of the site; "" for none
}

// Now is the time by which what it looks at counts.
func (h AdminClient) Now(ctx context.Context) time.Time {
	if h.Backup != "" {
		return time.Now()
	}
	return h.Config.Now(ctx)
}

// List writes rows, a JSON object a line.
func (h AdminClient) List(ctx context.Context, what string, f operate.Filter, w io.Writer) error {
	return h.Read(ctx, "/"+what+"?"+f.Query().Encode(), w, func(d *operate.Desk) error { return d.Lines(what, f, w) })
}

// Read asks a served site, or looks itself.
func (h AdminClient) Read(ctx context.Context, what string, w io.Writer, look func(*operate.Desk) error) error {
	if h.Backup == "" {
		if err := Stream(ctx, h.Config, what, w); !errors.Is(err, ErrNotServed) {
			return err
		}
	}
	if h.Backup == "" {
		return h.look(look)
	}
	said := h.Backup
	done, err := h.copyBackup()
	if err != nil {
		return err
	}
	defer done()
	return InWordsOf(h.look(look), h.Backup, said)
}

// look looks into the files of a site that is not served.
func (h AdminClient) look(look func(*operate.Desk) error) error {
	d, st, err := h.openOperations(h.Config.LookAtState)
	if err != nil {
		return err
	}
	return errors.Join(look(d), st.Close())
}

// InWordsOf has an error name a file as the operator does, who does not know of a copy.
func InWordsOf(err error, file, said string) error {
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

// copyBackup has the client look into a copy, for a store that is opened is brought to
// the form of today, and a backup may lie where nothing can be written. It is gone when
// done is called.
func (h *AdminClient) copyBackup() (done func(), err error) {
	from, err := OpenRegular(h.Backup)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	dir, err := os.MkdirTemp("", "patchbay-backup-")
	if err != nil {
		return nil, err
	}
	done = func() { os.RemoveAll(dir) }
	h.Backup = filepath.Join(dir, "state.db")
	to, err := os.OpenFile(h.Backup, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
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

// Act has a served site do something, or does it itself. do is for the latter.
func Act[T any](ctx context.Context, h AdminClient, what string, order T, do func(*operate.Desk, context.Context, T) (operate.Done, error)) (done operate.Done, served bool, err error) {
	if err := Order(ctx, h.Config, "/"+what, order, &done); !errors.Is(err, ErrNotServed) {
		return done, true, err
	}
	d, st, err := h.openOperations(h.Config.OpenState)
	if err != nil {
		return done, false, err
	}
	log, err := audit.Open(h.Config.Audit, st, audit.Options{Now: st.Now})
	if err != nil {
		return done, false, errors.Join(err, st.Close())
	}
	done, err = do(d, ctx, order)
	return done, false, errors.Join(err, st.Close(), log.Close())
}

// openOperations makes a desk over the files of a site that is not served; open opens its
// store.
func (h AdminClient) openOperations(open func() (*store.Store, error)) (*operate.Desk, *store.Store, error) {
	c := h.Config
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
				Store: st, Index: binder.NewIndex(inv), GeneratedBy: "patchbay " + SoftwareVersion(),
				ASCIIManifests: c.ASCIIManifests, ManifestExtensions: c.ManifestExtensions, Reading: c.Reading(inv),
			}).Inspect(slice)
		},
	}), st, nil
}

// ErrNeverServed says that a site has no store.
var ErrNeverServed = errors.New("the site has no store yet; it gets one when it is served first")

// openStore opens what there is; it makes nothing new.
func (h AdminClient) openStore(open func() (*store.Store, error)) (*store.Store, error) {
	if h.Backup != "" {
		return store.Open(h.Backup, store.Options{Site: h.Config.Authority, ReadOnly: errReadOnly})
	}
	if has, err := h.Config.HasState(); err != nil {
		return nil, err
	} else if !has {
		return nil, fmt.Errorf("there is no %s: %w", h.Config.State, ErrNeverServed)
	}
	return open()
}

// Rows calls f with each row of a list.
func Rows[T any](ctx context.Context, h AdminClient, what string, f operate.Filter, row func(*T) error) error {
	w := &LineWriter{Row: func(line []byte) error {
		var t T
		if err := json.Unmarshal(line, &t); err != nil {
			return fmt.Errorf("the list of %s cannot be read: %w", what, err)
		}
		return row(&t)
	}}
	return cmp.Or(h.List(ctx, what, f, w), w.End())
}

// LineWriter calls row with each line that is written to it.
type LineWriter struct {
	Row  func([]byte) error
	rest []byte // of a line that has not ended
}

// End refuses a line that has not ended.
func (w *LineWriter) End() error {
	if len(w.rest) > 0 {
		return errors.New("the list ends within a row; ask again")
	}
	return nil
}

func (w *LineWriter) Write(b []byte) (int, error) {
	n := len(b)
	for {
		head, tail, ok := bytes.Cut(b, []byte("\n"))
		if w.rest = append(w.rest, head...); !ok {
			return n, nil
		}
		if err := w.Row(w.rest); err != nil {
			return 0, err
		}
		w.rest, b = w.rest[:0], tail
	}
}
