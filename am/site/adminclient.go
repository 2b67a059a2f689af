package site

import (
	"bytes"
	"cmp"
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

	"patchbay/am/authority"
	"patchbay/am/display"
	"patchbay/am/follow/hook"
	"patchbay/am/site/clock"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/inventory/provider/fdsocket"
)

// AdminClient sends an operator's requests to a site. If the site is served, its admin socket
// answers them. Otherwise the same handlers answer them in this process, with the site's files;
// requests that need a running server fail with ErrNotServed.
type AdminClient struct {
	Config *Config
	backup string // the backup file to read instead of the site; "" for none
}

// Connect returns a client of a site.
func Connect(c *Config) AdminClient { return AdminClient{Config: c} }

// ConnectBackup returns a client that reads a backup of a site; if file is "", it reads the site.
func ConnectBackup(c *Config, file string) AdminClient { return AdminClient{c, file} }

// Now returns the present time of the site. For a backup, it returns the time of the host.
func (h AdminClient) Now(ctx context.Context) time.Time {
	if h.backup != "" {
		return time.Now()
	}
	return h.Config.Now(ctx)
}

// Now returns the time that leases follow: that of the served site, or else the host's.
func (c *Config) Now(ctx context.Context) time.Time {
	var a clock.State // the answer to GET /time
	if err := Connect(c).Ask(ctx, "/time", &a); err == nil {
		return a.Site
	}
	return time.Now()
}

// List writes the rows of a list to w, one JSON object in each line. name is the name of the
// list, such as slivers or nodes.
func (h AdminClient) List(ctx context.Context, name string, f operate.Filter, w io.Writer) error {
	return h.Stream(ctx, "/"+name+"?"+f.Query().Encode(), w)
}

// Fits writes on which components the nodes of a request fit now, as one line of JSON.
func (h AdminClient) Fits(ctx context.Context, request []byte, w io.Writer) error {
	return h.stream(ctx, query{http.MethodPost, "/fits", request, false}, w)
}

// lockPause is the pause between tries to reach a server that is starting.
const lockPause = 50 * time.Millisecond

// query is a request of a client.
type query struct {
	method, path string
	body         []byte
	isOrder      bool // it may change the site
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
	return suggestOtherBackup(err)
}

func suggestOtherBackup(err error) error {
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
	from, err := OpenRegular(h.backup)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	dir, err := os.MkdirTemp("", "patchbay-backup-")
	if err != nil {
		return nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	h.backup = filepath.Join(dir, "state.db")
	to, err := os.OpenFile(h.backup, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
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

// Ask sends a GET request to the site and decodes the JSON answer.
func (h AdminClient) Ask(ctx context.Context, path string, answer any) error {
	_, err := h.exchange(ctx, query{http.MethodGet, path, nil, false}, answer)
	return err
}

// Order posts an order as JSON to the site and decodes the JSON answer. served reports whether a
// server answered. The text of an error says whether the site may have carried out the order.
func (h AdminClient) Order(ctx context.Context, path string, order, answer any) (served bool, err error) {
	body, err := json.Marshal(order)
	if err != nil {
		return false, err
	}
	return h.exchange(ctx, query{http.MethodPost, path, body, true}, answer)
}

// exchange sends a query and decodes the JSON answer. served reports whether a server answered. The
// error for an order says whether the site may have carried it out.
func (h AdminClient) exchange(ctx context.Context, q query, answer any) (served bool, err error) {
	r, err := h.request(ctx, q)
	if err == nil {
		err = r.decode(answer)
	}
	_, isRefused := errors.AsType[*refusedError](err)
	_, isUnreadable := errors.AsType[*unreadableError](err)
	switch {
	case err == nil || !r.served || isRefused || isUnreadable && !q.isOrder:
		return r.served, err
	case r.sent && q.isOrder:
		return true, unknownResult(ctx, h.Config, q.path, err)
	}
	return true, askError(ctx, socketPath(h.Config), err)
}

// Stream sends a GET request to the site and copies the answer to w as it arrives. It fails if
// the answer is incomplete. It returns an error of w unchanged.
func (h AdminClient) Stream(ctx context.Context, path string, w io.Writer) error {
	return h.stream(ctx, query{http.MethodGet, path, nil, false}, w)
}

func (h AdminClient) stream(ctx context.Context, q query, w io.Writer) error {
	if h.backup == "" {
		return h.copyAnswer(ctx, q, w)
	}
	named := h.backup
	done, err := h.copyBackup()
	if err != nil {
		return err
	}
	defer done()
	return suggestOtherBackup(ReplacePath(h.copyAnswer(ctx, q, w), h.backup, named))
}

func (h AdminClient) copyAnswer(ctx context.Context, q query, w io.Writer) error {
	r, err := h.request(ctx, q)
	switch {
	case err != nil && r.served:
		return askError(ctx, socketPath(h.Config), err)
	case err != nil:
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return r.refusal()
	}
	out := &Output{To: w}
	if _, err := io.Copy(out, r.Body); err != nil {
		if lost := out.WriteError(); lost != nil {
			return lost
		}
		if ctx.Err() != nil {
			return askError(ctx, socketPath(h.Config), err)
		}
		if !r.served {
			return err
		}
		return fmt.Errorf("the answer of the served site broke off: %w; the site ends answers that are read too slowly; run the command again, or request less", err)
	}
	return nil
}

// SocketName is the name of the admin socket, which is in the folder of the configuration.
// Providers get manifests from it, and operators' commands send their requests to it.
const SocketName = "admin.sock"

func socketPath(c *Config) string { return filepath.Join(filepath.Dir(c.Origin.File), SocketName) }

// response is the answer to a query.
type response struct {
	*http.Response
	served bool // a server answered, or failed to answer
	sent   bool // the query was written completely to the socket
}

// request sends a query to the socket, or if no server answers there, to the handlers in this
// process. served and sent are also valid if err is not nil.
func (h AdminClient) request(ctx context.Context, q query) (r response, err error) {
	isConnected := false
	var sent atomic.Bool // a server can answer while the query is still written
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { isConnected = true },
		WroteRequest: func(w httptrace.WroteRequestInfo) { sent.Store(w.Err == nil) },
	})
	req, err := http.NewRequestWithContext(ctx, q.method, "http://site"+q.path, bytes.NewReader(q.body))
	if err != nil {
		return r, err
	}
	for end := time.Now().Add(authority.LockTimeout); h.backup == ""; {
		client := http.Client{Transport: &http.Transport{DialContext: dialer(h.Config), DisableKeepAlives: true, DisableCompression: true}}
		r.Response, err = client.Do(req)
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		r.sent = sent.Load()
		// A server that has got an order, or a part of it, may carry it out, so this process must not.
		if r.served = !isNotRunning(err) || isConnected && q.isOrder; r.served {
			return r, err
		}
		req.Body, _ = req.GetBody() // of a bytes.Reader, which does not fail
		// A server that is starting uses the authority's state before it listens.
		if !strings.HasPrefix(q.path, authorityPath) || !authority.InUse(filepath.Dir(h.Config.Origin.File)) || time.Now().After(end) || ctx.Err() != nil {
			break
		}
		time.Sleep(lockPause)
	}
	r.Response, err = h.serveUnserved(req, q.isOrder)
	return r, err
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
func (r response) decode(answer any) error {
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return r.refusal()
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
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

// refusal returns a *refusedError with the body of the answer as text. The status precedes it,
// unless the site has refused the request (422) or is not served.
func (r response) refusal() error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err != nil {
		return err
	}
	text := display.Printable(strings.TrimSpace(string(body)))
	if !r.served || r.StatusCode == http.StatusUnprocessableEntity {
		return &refusedError{text}
	}
	return &refusedError{fmt.Sprintf("the served site answers %d: %.500s", r.StatusCode, text)}
}

// isNotRunning reports whether an error of the socket means that no server runs. A reset
// connection counts, because a killed server resets its connections. If a server runs
// nevertheless, its lock on the store prevents the caller from opening the store.
func isNotRunning(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// unknownResult is the error for an order that the site has received but not answered.
func unknownResult(ctx context.Context, c *Config, path string, err error) error {
	check := []string{"journal", "--since", "10m"}
	if what, ok := strings.CutPrefix(path, authorityPath); ok { // the journal has no orders to the authority
		check = []string{"authority", cmp.Or(listOfOrder[what], "members")}
	}
	return fmt.Errorf("the served site has received the order, but %w. It may have carried out the order, or may do so later: before you repeat it, check with: %s",
		noAnswerReason(ctx, err), display.CommandAt(c.Origin.File, check...))
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
	if err := Connect(c).Ask(ctx, "/hooks", &list); err != nil {
		return nil, err
	}
	states := make(map[string]hook.State, len(list))
	for _, s := range list {
		states[s.Name] = s
	}
	return states, nil
}
