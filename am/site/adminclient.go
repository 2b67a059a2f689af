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
	"sync/atomic"
	"syscall"
	"time"

	"patchbay/am/audit"
	"patchbay/am/clock"
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

// AdminClient gives an operator's command access to a site. It uses the admin socket if the site
// is served, else the site's files.
type AdminClient struct {
	Config *Config
	Backup string // the backup file to read instead of the site; "" for none
}

// Now returns the present time of the site. For a backup, it returns the time of the host.
func (h AdminClient) Now(ctx context.Context) time.Time {
	if h.Backup != "" {
		return time.Now()
	}
	return h.Config.Now(ctx)
}

// Now returns the time that leases follow: that of the served site, or else the host's.
func (c *Config) Now(ctx context.Context) time.Time {
	var a clock.State // the answer to GET /time
	if err := Ask(ctx, c, "/time", &a); err == nil {
		return a.Site
	}
	return time.Now()
}

// List writes the rows of a list to w, one JSON object in each line. name is the name of the
// list, such as slivers or nodes.
func (h AdminClient) List(ctx context.Context, name string, f operate.Filter, w io.Writer) error {
	return h.Read(ctx, "/"+name+"?"+f.Query().Encode(), w, func(d *operate.Operations) error { return d.WriteList(name, f, w) })
}

// Read requests a path from a served site and copies the answer to w. If the site is not
// served, or Backup is set, it calls read with the site's files or the backup.
func (h AdminClient) Read(ctx context.Context, path string, w io.Writer, read func(*operate.Operations) error) error {
	return h.read(ctx, http.MethodGet, path, nil, w, read)
}

// Fits writes on which components the nodes of a request fit now, as one line of JSON.
func (h AdminClient) Fits(ctx context.Context, request []byte, w io.Writer) error {
	return h.read(ctx, http.MethodPost, "/fits", request, w, func(d *operate.Operations) error { return d.WriteFits(request, w) })
}

func (h AdminClient) read(ctx context.Context, method, path string, body []byte, w io.Writer, read func(*operate.Operations) error) error {
	if h.Backup == "" {
		if err := stream(ctx, h.Config, method, path, body, w); !errors.Is(err, ErrNotServed) {
			return err
		}
		return h.withFiles(read)
	}
	named := h.Backup
	done, err := h.copyBackup()
	if err != nil {
		return err
	}
	defer done()
	return SuggestOtherBackup(ReplacePath(h.withFiles(read), h.Backup, named))
}

func (h AdminClient) withFiles(read func(*operate.Operations) error) error {
	d, st, err := h.openOperations(h.Config.OpenStateReadOnly)
	if err != nil {
		return err
	}
	return errors.Join(read(d), st.Close())
}

// ReplacePath replaces the path of a copy in an error by the path that the operator named.
func ReplacePath(err error, path, named string) error {
	return replaceText(err, path, named)
}

// SuggestOtherBackup changes the remedy in the error of a damaged store. That store is a backup,
// so its error must not propose to restore a backup.
func SuggestOtherBackup(err error) error {
	if !errors.Is(err, store.ErrBroken) {
		return err
	}
	const remedy = "restore a backup"
	return replaceText(replaceText(err, "stop the server, and "+remedy, remedy), remedy, "name another backup file")
}

func replaceText(err error, old, text string) error {
	if err == nil || !strings.Contains(err.Error(), old) {
		return err
	}
	return &rewordedError{err, strings.ReplaceAll(err.Error(), old, text)}
}

type rewordedError struct {
	error
	text string
}

func (e *rewordedError) Error() string { return e.text }
func (e *rewordedError) Unwrap() error { return e.error }

// copyBackup makes the client read a copy of the backup. Opening a store migrates it to the
// current schema, and the backup may be in a read-only folder.
func (h *AdminClient) copyBackup() (remove func(), err error) {
	from, err := OpenRegular(h.Backup)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	dir, err := os.MkdirTemp("", "patchbay-backup-")
	if err != nil {
		return nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	h.Backup = filepath.Join(dir, "state.db")
	to, err := os.OpenFile(h.Backup, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = io.Copy(to, from)
		err = errors.Join(err, to.Close())
	}
	if err != nil {
		remove()
		return nil, fmt.Errorf("cannot copy the backup to read it: %w; set TMPDIR to another folder", err)
	}
	return remove, nil
}

// Act posts an order to the path /NAME of a served site. If the site is not served, it opens the
// site's files and carries out the order with apply. served reports whether the site is served.
func Act[T any](ctx context.Context, h AdminClient, name string, order T, apply func(*operate.Operations, context.Context, T) (operate.Result, error)) (done operate.Result, served bool, err error) {
	if err := Order(ctx, h.Config, "/"+name, order, &done); !errors.Is(err, ErrNotServed) {
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
	done, err = apply(d, ctx, order)
	return done, false, errors.Join(err, st.Close(), log.Close())
}

// openOperations is for a site that is not served. If Backup is set, it opens the backup instead.
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

// openStore opens the backup if Backup is set. It fails with ErrNeverServed if the site has no
// store.
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

// Rows calls row with each row of the list called name.
func Rows[T any](ctx context.Context, h AdminClient, name string, f operate.Filter, row func(*T) error) error {
	return ReadRows(func(w io.Writer) error { return h.List(ctx, name, f, w) }, row)
}

// ReadRows calls row with each row that list writes. A row is a JSON object.
func ReadRows[T any](list func(io.Writer) error, row func(*T) error) error {
	rows, w := io.Pipe()
	go func() { w.CloseWithError(list(w)) }()
	for d := json.NewDecoder(rows); ; {
		var t T
		err := d.Decode(&t)
		switch err { // not errors.Is, because an error of list may wrap io.EOF
		case io.EOF:
			return nil
		case io.ErrUnexpectedEOF:
			return errors.New("the list ends within a row; run the command again")
		case nil:
			err = row(&t)
		}
		if err != nil {
			rows.CloseWithError(err)
			return err
		}
	}
}

// ErrNotServed means that no server answers at the site's socket.
var ErrNotServed = errors.New("the site is not served")

const (
	askTimeout = 30 * time.Second
	// maxAnswer limits, in bytes, an answer that is read as a whole.
	maxAnswer = 8 << 20
)

// Ask sends a GET request to a served site's socket and decodes its JSON answer. It
// fails with ErrNotServed if no server answers.
func Ask(ctx context.Context, c *Config, path string, answer any) error {
	return exchange(ctx, c, http.MethodGet, path, nil, answer)
}

// Order posts an order as JSON to a served site and decodes the JSON answer. The text of an error
// says whether the site may have carried out the order.
func Order(ctx context.Context, c *Config, path string, order, answer any) error {
	body, err := json.Marshal(order)
	if err != nil {
		return err
	}
	return exchange(ctx, c, http.MethodPost, path, body, answer)
}

// exchange returns the errors of Ask and Order.
func exchange(ctx context.Context, c *Config, method, path string, body []byte, answer any) error {
	resp, sent, err := request(ctx, c, method, path, body)
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
		return unknownResult(ctx, c, err)
	case isNotRunning(err):
		return ErrNotServed
	}
	return askError(ctx, socketPath(c), err)
}

// Stream sends a GET request to a served site and copies the answer to w as it arrives. It fails
// if the answer is incomplete. It returns an error of w unchanged.
func Stream(ctx context.Context, c *Config, path string, w io.Writer) error {
	return stream(ctx, c, http.MethodGet, path, nil, w)
}

func stream(ctx context.Context, c *Config, method, path string, body []byte, w io.Writer) error {
	resp, _, err := request(ctx, c, method, path, body)
	switch {
	case isNotRunning(err):
		return ErrNotServed
	case err != nil:
		return askError(ctx, socketPath(c), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusalOf(resp)
	}
	out := &Output{To: w}
	if _, err := io.Copy(out, resp.Body); err != nil {
		if lost := out.WriteError(); lost != nil {
			return lost
		}
		if ctx.Err() != nil {
			return askError(ctx, socketPath(c), err)
		}
		return fmt.Errorf("the answer of the served site broke off: %w; the site ends answers that are read too slowly; run the command again, or request less", err)
	}
	return nil
}

// SocketName is the name of the admin socket, which is in the folder of the configuration.
// Providers get manifests from it, and operators' commands send their requests to it.
const SocketName = "admin.sock"

func socketPath(c *Config) string { return filepath.Join(filepath.Dir(c.Origin.File), SocketName) }

// request sends one request over a new connection. sent reports whether the request was written
// completely; it is also valid if err is not nil.
func request(ctx context.Context, c *Config, method, path string, body []byte) (resp *http.Response, sent bool, err error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(w httptrace.WroteRequestInfo) { sent = w.Err == nil }})
	req, err := http.NewRequestWithContext(ctx, method, "http://site"+path, bytes.NewReader(body))
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

// dialer returns a function that connects to the admin socket. The function ignores its address
// arguments.
func dialer(c *Config) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		conn, err := fdsocket.Connect(ctx, socketPath(c))
		if err != nil {
			return nil, err
		}
		return &partTimeoutConn{conn}, nil
	}
}

// partTimeoutConn limits each read to askTimeout.
type partTimeoutConn struct{ net.Conn }

func (p *partTimeoutConn) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(askTimeout)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

// decode returns a *refusedError for an answer with another status than 200.
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

type unreadableError struct{ err error }

func (e *unreadableError) Error() string {
	return fmt.Sprintf("the answer of the served site cannot be read: %v", e.err)
}

// refusedError is the error of an answer whose status is not 200.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// refusalOf returns a *refusedError with the body of the answer as text. The status precedes it,
// unless it is 422: the site has refused the request.
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

// isNotRunning reports whether an error of the socket means that no server runs. A reset
// connection counts, because a killed server resets its connections. If a server runs
// nevertheless, its lock on the store prevents the caller from opening the store.
func isNotRunning(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// unknownResult is the error for an order that the site has received but not answered.
func unknownResult(ctx context.Context, c *Config, err error) error {
	return fmt.Errorf("the served site has received the order, but %w. It may have carried out the order, or may do so later: before you repeat it, check with: %s",
		noAnswerReason(ctx, err), display.CommandAt(c.Origin.File, "journal", "--since", "10m"))
}

func askError(ctx context.Context, path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the served site cannot be reached at %s: %w; run the command as the site's user, or as root", path, err)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the served site has closed the connection at %s without an answer; it answers only the site's user and root; its log has the reason", path)
	}
	return fmt.Errorf("the served site cannot be reached at %s: %w; try again, and read its log", path, noAnswerReason(ctx, err))
}

// noAnswerReason returns a reason in which "it" means the site.
func noAnswerReason(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the command ended before the answer: %w", ctx.Err())
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("it has not answered within %s", display.Duration(askTimeout))
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isNotRunning(err):
		return errors.New("it ended before it answered")
	}
	return err
}

// HookStates returns the states of a served site's hooks by the names of the hooks.
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
