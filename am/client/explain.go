package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
)

// httpError says what the status of an answer that is not XML-RPC means here, and what
// to do.
func httpError(resp *http.Response) error {
	var text string
	switch s := resp.StatusCode; {
	case s >= 300 && s < 400:
		text = fmt.Sprintf("the aggregate manager is elsewhere; use its own URL (it named %q)", resp.Header.Get("Location"))
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		text = "the server does not accept the client certificate, or none was sent"
	case s == http.StatusNotFound:
		text = "there is no aggregate manager at this path of the URL"
	case s == http.StatusMethodNotAllowed || s == http.StatusUnsupportedMediaType:
		text = "what listens at this URL does not take XML-RPC calls"
	case s == http.StatusRequestEntityTooLarge:
		text = "the call is larger than the server accepts"
	case s == http.StatusTooManyRequests || s == http.StatusServiceUnavailable:
		text = "the server is overloaded or being maintained; try again later"
		if after := resp.Header.Get("Retry-After"); after != "" {
			text += fmt.Sprintf(" (it says: after %q)", after)
		}
	case s == http.StatusBadGateway || s == http.StatusGatewayTimeout:
		text = "what stands in front of the server does not reach it"
	default:
		text = strings.ToLower(http.StatusText(s))
	}
	return fmt.Errorf("HTTP status %d: %s", resp.StatusCode, text)
}

// explain says in words why there is no answer; err stays in the chain.
func (c *Client) explain(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the method and the URL are known
	}
	if words := c.words(ctx, err); words != "" {
		return fmt.Errorf("%s: %w", words, err)
	}
	return err
}

func (c *Client) words(ctx context.Context, err error) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Sprintf("no answer from %s in time (%s at most); what was asked may still have been done", c.url.Host, c.timeout)
	}
	if ctx.Err() != nil {
		return "given up before an answer came; what was asked may still have been done"
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" {
		return alertWords(strings.TrimPrefix(e.Err.Error(), "tls: "))
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return fmt.Sprintf("what listens at %s does not speak TLS", c.url.Host)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return serverWords(err)
	}
	if strings.Contains(err.Error(), "failed to parse certificate from server") {
		return "the server's certificate has a form that Go does not read"
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("the name %s cannot be found", e.Name)
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing listens at %s; start the server there, or name another one", c.url.Host)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return fmt.Sprintf("%s broke the connection", c.url.Host)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Sprintf("there is no way to %s", c.url.Host)
	}
	return ""
}

// alertWords explains an alert of the peer, by its name in crypto/tls.
func alertWords(alert string) string {
	switch alert {
	case "certificate required":
		return "the server asks for a client certificate, and none was sent"
	case "expired certificate":
		return "the server says that the client certificate has expired; renew it at its authority"
	case "revoked certificate":
		return "the server says that the client certificate was revoked"
	case "unknown certificate authority":
		return "the server does not trust the authority of the client certificate; its file may lack the chain"
	case "bad certificate", "unsupported certificate", "unknown certificate", "access denied":
		return "the server does not accept the client certificate"
	case "error decoding message":
		return "the server cannot read the client certificate"
	case "error decrypting message":
		return "the server finds that the key does not belong to the client certificate"
	case "protocol version not supported", "handshake failure", "insufficient security level":
		return "server and client have no version or cipher of TLS in common, or the server wants another certificate"
	case "unrecognized name":
		return "the server does not know the name in the URL"
	}
	return "the server broke off the TLS handshake"
}

func serverWords(err error) string {
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("the server's certificate is not for %s", e.Host)
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		return "the server's certificate has expired, or is not valid yet"
	}
	return "no authority in the given file vouches for the server's certificate"
}
