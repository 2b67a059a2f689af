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

func httpError(resp *http.Response) error {
	var text string
	switch s := resp.StatusCode; {
	case s >= 300 && s < 400:
		text = fmt.Sprintf("the server redirects to another URL; use the aggregate manager's own URL (it named %q)", resp.Header.Get("Location"))
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		text = "the server does not accept the client certificate, or none was sent"
	case s == http.StatusNotFound:
		text = "there is no aggregate manager at this path of the URL"
	case s == http.StatusMethodNotAllowed || s == http.StatusUnsupportedMediaType:
		text = "the server at this URL does not accept XML-RPC calls"
	case s == http.StatusRequestEntityTooLarge:
		text = "the call is larger than the server accepts"
	case s == http.StatusTooManyRequests || s == http.StatusServiceUnavailable:
		text = "the server is overloaded or being maintained; try again later"
		if after := resp.Header.Get("Retry-After"); after != "" {
			text += fmt.Sprintf(" (it says: after %q)", after)
		}
	case s == http.StatusBadGateway || s == http.StatusGatewayTimeout:
		text = "the proxy in front of the server cannot reach it"
	default:
		text = strings.ToLower(http.StatusText(s))
	}
	return fmt.Errorf("HTTP status %d: %s", resp.StatusCode, text)
}

func (c *Client) explain(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the method and the URL, which the caller knows
	}
	if text := c.explanation(ctx, err); text != "" {
		return fmt.Errorf("%s: %w", text, err)
	}
	return err
}

// explanation returns "" for an unknown error.
func (c *Client) explanation(ctx context.Context, err error) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Sprintf("no answer from %s within %s; the call may nevertheless have been carried out", c.url.Host, c.timeout)
	}
	if ctx.Err() != nil {
		return "cancelled before an answer came; the call may nevertheless have been carried out"
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" {
		return explainAlert(strings.TrimPrefix(e.Err.Error(), "tls: "))
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return fmt.Sprintf("the server at %s does not speak TLS", c.url.Host)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return explainVerification(err)
	}
	if strings.Contains(err.Error(), "failed to parse certificate from server") {
		return "Go cannot parse the server's certificate"
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("the name %s cannot be found", e.Name)
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing listens at %s; start the server there, or name another one", c.url.Host)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return fmt.Sprintf("%s closed the connection", c.url.Host)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Sprintf("there is no route to %s", c.url.Host)
	}
	return ""
}

// explainAlert accepts the name of an alert in crypto/tls.
func explainAlert(alert string) string {
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
		return "the server reports that the key does not match the client certificate"
	case "protocol version not supported", "handshake failure", "insufficient security level":
		return "server and client have no version or cipher of TLS in common, or the server requires another certificate"
	case "unrecognized name":
		return "the server does not know the name in the URL"
	}
	return "the server ended the TLS handshake"
}

func explainVerification(err error) string {
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("the server's certificate is not for %s", e.Host)
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		return "the server's certificate has expired, or is not valid yet"
	}
	return "no authority in the given file has issued the server's certificate"
}
