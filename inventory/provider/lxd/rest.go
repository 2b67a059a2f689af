package lxd

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// maxBody bounds an answer of the server, in bytes.
const maxBody = 256 << 20

// client calls the REST API of one LXD or Incus server.
type client struct {
	http    http.Client
	base    string // https://HOST:PORT
	project string
	remotes *remotes
}

// remotes are the URLs of the members' APIs. All members have the same certificate.
type remotes struct {
	urls []string
	next atomic.Int32 // the index of the one to try first
}

// dialTime bounds the time until the next member is tried.
const dialTime = 3 * time.Second

// dial connects to the first member that answers.
func (r *remotes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var errs []error
	for range r.urls {
		first := r.next.Load()
		u, err := url.Parse(r.urls[int(first)%len(r.urls)])
		if err != nil {
			return nil, err
		}
		dialer := net.Dialer{Timeout: dialTime}
		c, err := dialer.DialContext(ctx, "tcp", u.Host)
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
		r.next.CompareAndSwap(first, first+1)
	}
	return nil, errors.Join(errs...)
}

// leave makes new connections go to another member.
func (c *client) leave() {
	if c.remotes != nil && len(c.remotes.urls) > 1 {
		c.remotes.next.Add(1)
		c.http.CloseIdleConnections()
	}
}

// newClient reads the certificates that the settings name. The folder dir holds them. The
// connection is refused unless the server has exactly the certificate of the settings.
func newClient(s settings, dir string) (*client, error) {
	read := func(name string) ([]byte, error) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w; make it with patchbay-lxd setup", name, errors.Unwrap(err))
		}
		return text, nil
	}
	certificate, err1 := read(s.Certificate)
	key, err2 := read(s.PrivateKey)
	pinned, err3 := read(s.ServerCertificate)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", s.Certificate, s.PrivateKey, err)
	}
	block, _ := pem.Decode(pinned)
	if block == nil {
		return nil, fmt.Errorf("%s has no certificate", s.ServerCertificate)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13,
		InsecureSkipVerify: true, // VerifyConnection compares the whole certificate
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 || !bytes.Equal(state.PeerCertificates[0].Raw, block.Bytes) {
				return fmt.Errorf("the server has another certificate than %s", s.ServerCertificate)
			}
			return nil
		},
	}
	r := &remotes{urls: s.Remotes}
	transport := &http.Transport{DialContext: r.dial, TLSClientConfig: config, MaxIdleConnsPerHost: 2 * maxParallel, ResponseHeaderTimeout: time.Minute}
	return &client{http: http.Client{Transport: transport}, base: s.Remotes[0], project: s.Project, remotes: r}, nil
}

// newLocalClient returns a client that calls the server as root, at its Unix socket.
func newLocalClient(socket, project string) *client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &client{http: http.Client{Transport: &http.Transport{DialContext: dial}}, base: "http://lxd", project: project}
}

// apiError is an error that the server reports, for a call or for an operation.
type apiError struct {
	Status  int // of HTTP; 400 for a failed operation
	Message string
}

func (e *apiError) Error() string { return e.Message }

// isStatus reports whether err is the server's error with this HTTP status.
func isStatus(err error, status int) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && e.Status == status
}

// errLostOperation means that the server no longer knows an operation. It may have succeeded.
var errLostOperation = errors.New("the server has forgotten the operation")

// request is one call of the REST API.
type request struct {
	method, path string // the path below /1.0/, such as instances/NAME
	query        url.Values
	body         any // JSON, or raw bytes for []byte
	header       http.Header
}

// answer is the server's answer to a request.
type answer struct {
	Type      string          `json:"type"`
	Code      int             `json:"error_code"`
	Error     string          `json:"error"`
	Operation string          `json:"operation"`
	Metadata  json.RawMessage `json:"metadata"`
}

// do sends a request once. If the server accepts it as an operation, do waits for the end of
// the operation and returns its metadata.
func (c *client) do(ctx context.Context, r request) (answer, error) {
	a, err := c.send(ctx, r)
	if err != nil || a.Type != "async" {
		return a, err
	}
	return c.wait(ctx, a)
}

// get decodes what is at the path into v. If that fails for a reason that may lie in the member, get
// tries again with another one.
func (c *client) get(ctx context.Context, path string, query url.Values, v any) (err error) {
	for n := range 3 {
		if n > 0 {
			pause(ctx, time.Duration(n)*200*time.Millisecond)
		}
		var a answer
		a, err = c.send(ctx, request{method: http.MethodGet, path: path, query: query})
		if reported, ok := errors.AsType[*apiError](err); err != nil && ctx.Err() == nil && (!ok || strings.Contains(reported.Message, "leader")) {
			c.leave()
			continue
		}
		if err == nil {
			err = json.Unmarshal(a.Metadata, v)
		}
		return err
	}
	return err
}

// callTime bounds a call. Longer work is an operation of the server.
const callTime = 2 * time.Minute

// send sends a request, and returns the answer: an *apiError if the server refuses the request.
func (c *client) send(ctx context.Context, r request) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	resp, err := c.roundTrip(ctx, r)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("the server answers %s %s with HTTP status %d and no JSON", r.method, r.path, resp.StatusCode)
	}
	if a.Type == "error" || resp.StatusCode >= 400 {
		return a, &apiError{resp.StatusCode, fmt.Sprintf("the server refuses %s %s: %s", r.method, r.path, a.Error)}
	}
	return a, nil
}

// roundTrip sends a request, and returns the raw answer, whose body the caller must close.
func (c *client) roundTrip(ctx context.Context, r request) (*http.Response, error) {
	var body io.Reader
	switch b := r.body.(type) {
	case nil:
	case []byte:
		body = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	query := url.Values{"project": {c.project}}
	for key, values := range r.query {
		query[key] = values
	}
	h, err := http.NewRequestWithContext(ctx, r.method, c.base+strings.TrimSuffix("/1.0/"+r.path, "/")+"?"+query.Encode(), body)
	if err != nil {
		return nil, err
	}
	for key, values := range r.header {
		h.Header[key] = values
	}
	return c.http.Do(h)
}

// operation is the state of a background operation.
type operation struct {
	ID         string              `json:"id"`
	StatusCode int                 `json:"status_code"`
	Err        string              `json:"err"`
	Resources  map[string][]string `json:"resources"`
	Metadata   json.RawMessage     `json:"metadata"`
}

// wait returns when the operation in a has ended. A 202 may still fail, so the operation's own
// status counts. A lost connection does not end the operation.
func (c *client) wait(ctx context.Context, a answer) (answer, error) {
	path := strings.TrimPrefix(a.Operation, "/1.0/")
	path, _, _ = strings.Cut(path, "?")
	for failures := 0; ; { // in a row
		var op operation
		b, err := c.send(ctx, request{method: http.MethodGet, path: path + "/wait", query: url.Values{"timeout": {"20"}}})
		e, reported := errors.AsType[*apiError](err)
		reported = reported && !isBusy(e.Message)
		switch {
		case isStatus(err, http.StatusNotFound):
			return a, errLostOperation
		case err != nil && (reported || ctx.Err() != nil || failures == 5):
			return a, err
		case err != nil:
			failures++
			pause(ctx, time.Duration(failures)*200*time.Millisecond)
			continue
		}
		if err := json.Unmarshal(b.Metadata, &op); err != nil {
			return a, err
		}
		switch {
		case op.StatusCode == 200:
			return answer{Metadata: op.Metadata}, nil
		case op.StatusCode >= 400:
			return a, &apiError{400, op.Err}
		}
		failures = 0
	}
}

// pause returns after the duration, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
