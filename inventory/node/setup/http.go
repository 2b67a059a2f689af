package setup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxRedirects = 10
	maxHead      = 256 << 10 // bytes, including the headers of redirects
	headTime     = time.Minute
	connectTime  = 30 * time.Second
)

// client uses HTTP/1.1, with one connection per request.
type client struct {
	roots       *x509.CertPool // nil: the certificates of the node
	retryPauses []time.Duration
	note        func(format string, args ...any)
	delivered   *stepFiles // has the files of the site's catalogue for the step
}

// temporaryError is an error after which a retry may succeed, such as a server's failure.
type temporaryError struct{ error }

func (e *temporaryError) Unwrap() error { return e.error }

// get requests the URL. It follows redirects, and fails unless the status is 200 OK. The end of ctx also
// aborts later reads of the answer's body.
func (c *client) get(ctx context.Context, u *url.URL) (*http.Response, error) {
	h := &http.Client{CheckRedirect: c.checkRedirect, Transport: &http.Transport{
		DialContext:            (&net.Dialer{Timeout: connectTime}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    connectTime,
		ResponseHeaderTimeout:  headTime,
		MaxResponseHeaderBytes: maxHead,
		DisableKeepAlives:      true,
	}}
	r := &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{
		"User-Agent": {"patchbay"}, "Accept": {"*/*"}, "Accept-Encoding": {"identity"},
	}}
	a, err := h.Do(r.WithContext(ctx))
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = fmt.Errorf("%s: %w", displayURL(e.URL), e.Err)
		}
		if isTemporary(err) {
			err = &temporaryError{err}
		}
		return nil, err
	}
	if a.StatusCode == http.StatusOK {
		return a, nil
	}
	a.Body.Close()
	err = fmt.Errorf("%s answered %s", displayURL(a.Request.URL.String()), singleLine(a.Status, 80))
	if a.StatusCode >= 500 {
		err = &temporaryError{err}
	}
	return nil, err
}

// checkRedirect refuses too many redirects, redirects from https to http, and redirects to other
// schemes.
func (c *client) checkRedirect(next *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	switch _, err := parseURL(next.URL.String()); {
	case len(via) > maxRedirects:
		return fmt.Errorf("there are more than %d redirects", maxRedirects)
	case err != nil:
		return fmt.Errorf("the redirect cannot be followed: %w", err)
	case from.Scheme == "https" && next.URL.Scheme != "https":
		return fmt.Errorf("%s redirects to this URL, which is not encrypted; if you trust it, request this URL directly", displayURL(from.String()))
	}
	next.Header.Del("Referer")
	c.note("%s redirects to %s", displayURL(from.String()), displayURL(next.URL.String()))
	return nil
}

// isTemporary reports whether a retry may succeed after the network error err. A retry cannot
// succeed if the network is unreachable, the name is unknown, the certificate is wrong, or
// the server does not speak HTTP.
func isTemporary(err error) bool {
	if _, name := errors.AsType[*net.DNSError](err); name || errors.Is(err, unix.ENETUNREACH) {
		return false
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
