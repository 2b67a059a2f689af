package site

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"patchbay/am/audit"
	"patchbay/am/binder"
	"patchbay/am/display"
	"patchbay/am/hook"
	"patchbay/am/maintenance"
	"patchbay/am/operate"
	"patchbay/am/service"
	"patchbay/am/store"
	"patchbay/am/urn"
	"patchbay/inventory"
	"patchbay/inventory/local/fdsocket"
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

// Now is the site's time, as far as it can be known.
func (c *Config) Now(ctx context.Context) time.Time {
	var a timeAnswer
	if err := Ask(ctx, c, "/time", &a); err == nil {
		return a.Now
	}
	if t, err := c.OpenClock(nil); err == nil {
		return t.Now()
	}
	return time.Now()
}

// timeAnswer is what a served site tells of its time.
type timeAnswer struct{ Now time.Time }

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

// Rows calls row with each row of a list.
func Rows[T any](ctx context.Context, h AdminClient, what string, f operate.Filter, row func(*T) error) error {
	return ReadRows(func(w io.Writer) error { return h.List(ctx, what, f, w) }, row)
}

// ReadRows calls row with each row that list writes, a JSON object a line.
func ReadRows[T any](list func(io.Writer) error, row func(*T) error) error {
	rows, w := io.Pipe()
	go func() { w.CloseWithError(list(w)) }()
	for d := json.NewDecoder(rows); ; {
		var t T
		err := d.Decode(&t)
		switch err { // errors of list may wrap these
		case io.EOF:
			return nil
		case io.ErrUnexpectedEOF:
			return errors.New("the list ends within a row; ask again")
		case nil:
			err = row(&t)
		}
		if err != nil {
			rows.CloseWithError(err)
			return err
		}
	}
}

// ErrNotServed says that no server answers at a site's socket.
var ErrNotServed = errors.New("the site is not served")

const (
	// askTimeout is how long a served site may take for each part of its answer.
	askTimeout = 30 * time.Second
	// maxAnswer is the length in bytes of an answer that is read as a whole, at most.
	maxAnswer = 8 << 20
)

// Ask asks a served site at its socket, and reads the JSON that it answers.
func Ask(ctx context.Context, c *Config, what string, answer any) error {
	return exchange(ctx, c, http.MethodGet, what, nil, answer)
}

// Order has a served site do what the JSON of said asks for, and reads the JSON
// that it answers. An error says whether the site may have done it.
func Order(ctx context.Context, c *Config, what string, said, answer any) error {
	body, err := json.Marshal(said)
	if err != nil {
		return err
	}
	return exchange(ctx, c, http.MethodPost, what, body, answer)
}

func exchange(ctx context.Context, c *Config, method, what string, body []byte, answer any) error {
	resp, sent, err := request(ctx, c, method, what, body)
	if err == nil {
		err = decode(resp, answer)
	}
	_, isRefused := errors.AsType[*refusedError](err)
	_, isUnreadable := errors.AsType[*unreadableError](err)
	isOrder := method == http.MethodPost
	switch {
	case err == nil || isRefused || isUnreadable && !isOrder:
		return err
	case sent && isOrder:
		return inDoubt(ctx, c, err)
	case nobodyAt(err):
		return ErrNotServed
	}
	return unasked(ctx, socketOf(c), err)
}

// Stream asks a served site for something long, and copies it to w as it comes. An
// answer that breaks off is an error; one of w is given as it is.
func Stream(ctx context.Context, c *Config, what string, w io.Writer) error {
	resp, _, err := request(ctx, c, http.MethodGet, what, nil)
	switch {
	case nobodyAt(err):
		return ErrNotServed
	case err != nil:
		return unasked(ctx, socketOf(c), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusalOf(resp)
	}
	out := &Output{To: w}
	if _, err := io.Copy(out, resp.Body); err != nil {
		if lost := out.Lost(); lost != nil {
			return lost
		}
		if ctx.Err() != nil {
			return unasked(ctx, socketOf(c), err)
		}
		return fmt.Errorf("the answer of the served site broke off: %w; it waits for who reads slowly only as long as it has room, so ask again, or for less", err)
	}
	return nil
}

// SocketName is the socket, beside the configuration, by which providers ask
// a served site for manifests.
const SocketName = "admin.sock"

func socketOf(c *Config) string { return filepath.Join(filepath.Dir(c.Origin.File), SocketName) }

// request sends one request over a connection of its own. sent says that the site has
// got all of it.
func request(ctx context.Context, c *Config, method, what string, body []byte) (resp *http.Response, sent bool, err error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(w httptrace.WroteRequestInfo) { sent = w.Err == nil }})
	req, err := http.NewRequestWithContext(ctx, method, "http://site"+what, bytes.NewReader(body))
	if err != nil {
		return nil, false, err
	}
	client := http.Client{Transport: &http.Transport{DialContext: dialer(c), DisableKeepAlives: true, DisableCompression: true}}
	resp, err = client.Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return resp, sent, err
}

// dialer connects to the admin socket of a site, whatever the address.
func dialer(c *Config) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		conn, err := fdsocket.Connect(ctx, socketOf(c))
		if err != nil {
			return nil, err
		}
		return &byParts{conn}, nil
	}
}

// byParts waits for each part of an answer as long as for a whole one that is short.
type byParts struct{ net.Conn }

func (p *byParts) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(askTimeout)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

// decode reads the JSON of an answer.
func decode(resp *http.Response, answer any) error {
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusalOf(resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return &unreadableError{err}
	}
	return nil
}

// unreadableError is an answer that is not the JSON that was expected.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string {
	return fmt.Sprintf("the served site answers what cannot be read: %v", e.err)
}

// refusedError is an answer with another status than 200.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// refusalOf is the error of an answer with another status than 200. What the site
// refuses, 422, is said in its words alone.
func refusalOf(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	text := display.Printable(strings.TrimSpace(string(body)))
	if resp.StatusCode == http.StatusUnprocessableEntity {
		return &refusedError{text}
	}
	return &refusedError{fmt.Sprintf("the served site answers %d: %.500s", resp.StatusCode, text)}
}

// nobodyAt tells whether an error of the socket says that no server is there. One
// that was killed may leave connections behind, which are then reset; that none is
// there the lock of the store proves.
func nobodyAt(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// inDoubt is the error of an order that the site was told, and of which nobody knows
// what came.
func inDoubt(ctx context.Context, c *Config, err error) error {
	return fmt.Errorf("the served site was told, but %w. It may have been done, or be done yet: before you say it again, look with: %s",
		unanswered(ctx, err), display.CommandAt(c.Origin.File, "journal", "--since", "10m"))
}

// unasked is the error of a question that was not answered.
func unasked(ctx context.Context, path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the served site cannot be asked at %s: %w; be its user, or root", path, err)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the served site answers nothing at %s; only its user and root are answered, and the log says who was sent away, or what went wrong", path)
	}
	return fmt.Errorf("the served site cannot be asked at %s: %w; ask again, and see its log", path, unanswered(ctx, err))
}

// unanswered says why an answer has not come.
func unanswered(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("you have not waited for the answer: %w", ctx.Err())
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("it has not answered within %s", display.Duration(askTimeout))
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || nobodyAt(err):
		return errors.New("it has gone before the answer")
	}
	return err
}

// HookStates asks a served site how its hooks do, by their names.
func (c *Config) HookStates(ctx context.Context) (map[string]hook.State, error) {
	var list []hook.State
	if err := Ask(ctx, c, "/hooks", &list); err != nil {
		return nil, err
	}
	states := make(map[string]hook.State, len(list))
	for _, s := range list {
		states[s.Name] = s
	}
	return states, nil
}
