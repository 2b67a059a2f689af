package hook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
)

const (
	// maxHeader limits the header of an answer, in bytes.
	maxHeader = 64 << 10
	// minSecret and maxSecret limit the length of the key of signatures, in bytes.
	minSecret, maxSecret = 16, 4096
)

// Headers of a POST.
const (
	// KeyHeader holds the event's id, the same when it is delivered again.
	KeyHeader = "Idempotency-Key"
	// SignatureHeader holds sha256= and the HMAC-SHA256 of the body under the
	// hook's secret, in hexadecimal digits.
	SignatureHeader = "Patchbay-Signature"
)

type receiver struct {
	hook   *Hook
	client *http.Client // created at the first delivery
}

// send posts the event to the URL. It accepts any status 2xx as success.
func (r *receiver) send(ctx context.Context, e Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	client, err := r.open()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.hook.URL, bytes.NewReader(body))
	if err != nil {
		return withoutURL(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "patchbay")
	req.Header.Set(KeyHeader, e.ID)
	if r.hook.Secret != "" {
		key, err := ReadSecret(r.hook.Secret)
		if err != nil {
			return err
		}
		req.Header.Set(SignatureHeader, Sign(key, body))
	}
	resp, err := client.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput))
	switch {
	case resp.StatusCode/100 == 2: // taken; the body does not matter
		return nil
	case resp.StatusCode/100 == 3:
		return fmt.Errorf("it answers %d with a redirect, which is not followed; correct url", resp.StatusCode)
	case err != nil:
		return fmt.Errorf("it answers %d and then fails: %w", resp.StatusCode, err)
	}
	return fmt.Errorf("it answers %d%s", resp.StatusCode, quote(answer))
}

func (r *receiver) close() {
	if r.client != nil {
		r.client.CloseIdleConnections()
	}
}

func (r *receiver) open() (*http.Client, error) {
	if r.client != nil {
		return r.client, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.hook.CA != "" {
		var err error
		if config.RootCAs, err = ReadCA(r.hook.CA); err != nil {
			return nil, err
		}
	}
	r.client = &http.Client{
		// No proxy, so that variables of the environment cannot redirect events.
		Transport: &http.Transport{
			TLSClientConfig: config, MaxResponseHeaderBytes: maxHeader, DisableCompression: true,
			MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, Protocols: onlyHTTP1(),
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return r.client, nil
}

func onlyHTTP1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// withoutURL removes the URL from an error, because it may contain a secret and errors
// are logged.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// Sign returns the signature of a body under a key, in the form of SignatureHeader.
func Sign(key, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// ReadSecret reads the key of signatures: the file's bytes without line breaks at the
// end.
func ReadSecret(file string) ([]byte, error) {
	key, err := readFile(file, maxSecret)
	if err != nil {
		return nil, fmt.Errorf("the secret cannot be read: %w", err)
	}
	key = bytes.TrimRight(key, "\r\n")
	if len(key) < minSecret {
		return nil, fmt.Errorf("the secret in %s is shorter than %d bytes, so it can be guessed; create one: openssl rand -hex 32", file, minSecret)
	}
	return key, nil
}

// ReadCA reads the certificates of the authorities that are trusted for a URL.
func ReadCA(file string) (*x509.CertPool, error) {
	text, err := readFile(file, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("the certificates cannot be read: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s contains no certificate that can be read; put the PEM of the authority there", file)
	}
	return pool, nil
}

// readFile fails for a file of more than limit bytes.
func readFile(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s is longer than %d bytes", file, limit)
	}
	return b, err
}
