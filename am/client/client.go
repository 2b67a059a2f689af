package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/am/api/xmlrpc"
)

const (
	defaultTimeout = 2 * time.Minute
	maxAnswer      = 64 << 20  // bytes
	maxValues      = 2_000_000 // XML-RPC values in an answer
)

// Config holds the address of an aggregate manager and the caller's credentials for TLS.
type Config struct {
	// URL is where the aggregate manager listens: https, with the path of one
	// version of the API.
	URL string
	// CertFile holds the caller's certificate and its chain as PEM. If it is empty,
	// the call is made without a certificate.
	CertFile string
	// KeyFile holds the private key as PEM, without a passphrase. If it is empty,
	// the key is in CertFile.
	KeyFile string
	// ServerCAFile holds the trusted CA certificates as PEM; the certificate
	// must then be for the name in URL. If it is empty, any server certificate is accepted,
	// as other GENI clients do, so an attacker on the path can pose as the aggregate.
	ServerCAFile string
	// Timeout limits the duration of one call; zero means two minutes.
	Timeout time.Duration
	// RecordTo, if set, receives each call and answer as they went over the
	// wire, credentials included.
	RecordTo io.Writer
	// Transport, if set, carries the calls in place of TLS. CertFile, KeyFile and ServerCAFile are then
	// not used.
	Transport http.RoundTripper
}

// Client calls one aggregate manager. It keeps connections open between calls
// and may be used by several goroutines.
type Client struct {
	url     *url.URL
	http    *http.Client
	timeout time.Duration
	// unchecked is the certificate of a server that was not checked, from the first connection on.
	unchecked atomic.Pointer[[sha256.Size]byte]
	// largest limits an answer, in bytes after HTTP decompression.
	largest int64

	recording sync.Mutex // guards writes to record
	record    io.Writer
}

// New returns a Client. It reads the files named in cfg, and does not connect yet.
func New(cfg Config) (*Client, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("cannot use the URL of the aggregate manager: %w", err)
	}
	if u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the URL of an aggregate manager begins with https://, unlike %q", cfg.URL)
	}
	t := &tls.Config{InsecureSkipVerify: cfg.ServerCAFile == ""}
	if cfg.ServerCAFile != "" {
		if t.RootCAs, err = loadRoots(cfg.ServerCAFile); err != nil {
			return nil, err
		}
	}
	if cfg.CertFile != "" {
		id, err := loadIdentity(cfg.CertFile, cfg.KeyFile)
		if err != nil {
			return nil, err
		}
		// crypto/tls would parse the certificate in tls.Config.Certificates; see loadIdentity.
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return id, nil }
	} else if cfg.KeyFile != "" {
		return nil, errors.New("a key was given without a certificate: name the certificate's file, too")
	}
	c := &Client{url: u, timeout: cfg.Timeout, largest: maxAnswer, record: cfg.RecordTo}
	if c.timeout <= 0 {
		c.timeout = defaultTimeout
	}
	if t.InsecureSkipVerify {
		t.VerifyConnection = func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) > 0 {
				sum := sha256.Sum256(s.PeerCertificates[0].Raw)
				c.unchecked.CompareAndSwap(nil, &sum)
			}
			return nil
		}
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			TLSClientConfig:     t,
			TLSHandshakeTimeout: 30 * time.Second,
			IdleConnTimeout:     90 * time.Second,
			MaxIdleConnsPerHost: 16,
		},
		// Redirects are not followed, since a call carries credentials.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if cfg.Transport != nil {
		c.http.Transport = cfg.Transport
	}
	return c, nil
}

func loadRoots(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the server's authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s contains no CA certificate as PEM", file)
	}
	return pool, nil
}

// Unchecked returns the SHA-256 fingerprint of the server's certificate in hexadecimal digits, if
// the client has connected without Config.ServerCAFile; else "".
func (c *Client) Unchecked() string {
	if sum := c.unchecked.Load(); sum != nil {
		return hex.EncodeToString(sum[:])
	}
	return ""
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Call makes one call. A refusal by the aggregate is a Reply, not an error. Call fails if
// it gets no reply: with a *xmlrpc.Fault, or with an error about the connection, the
// parameters or the answer. Then only Took is set in the Reply.
//
// A parameter of type []byte is sent as base64.
func (c *Client) Call(ctx context.Context, method string, params ...xmlrpc.Value) (Reply, error) {
	start := time.Now()
	r, err := c.call(ctx, method, params)
	r.Took = time.Since(start)
	if err != nil {
		err = fmt.Errorf("%s: %w", method, err)
	}
	return r, err
}

// call neither sets Reply.Took nor adds the method to errors.
func (c *Client) call(ctx context.Context, method string, params []xmlrpc.Value) (Reply, error) {
	v, err := c.CallRaw(ctx, method, params...)
	if err != nil {
		return Reply{}, err
	}
	return parseReply(v)
}

// CallRaw makes one call, and returns the value of the answer as it is. A fault is a *xmlrpc.Fault.
func (c *Client) CallRaw(ctx context.Context, method string, params ...xmlrpc.Value) (xmlrpc.Value, error) {
	body, err := c.answerTo(ctx, method, params)
	if err != nil {
		return nil, err
	}
	return decode(body)
}

func decode(body []byte) (xmlrpc.Value, error) {
	v, err := xmlrpc.DecodeResponse(body, xmlrpc.Limits{Values: maxValues})
	if _, isFault := errors.AsType[*xmlrpc.Fault](err); err != nil && !isFault {
		err = fmt.Errorf("the answer cannot be read: %w", err)
	}
	return v, err
}

// answerTo returns the body of the answer to a call.
func (c *Client) answerTo(ctx context.Context, method string, params []xmlrpc.Value) ([]byte, error) {
	text, err := encodeCall(method, params)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.send(ctx, method, text)
}

func (c *Client) send(ctx context.Context, method string, text []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url.String(), bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "text/xml")
	if err := c.recordf("> %s %s %s\n%s\n", req.Method, c.url, method, bytes.TrimSpace(text)); err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.largest+1))
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if err := c.recordf("< %s\n%s\n", resp.Status, bytes.TrimSpace(body)); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, httpError(resp)
	}
	if int64(len(body)) > c.largest {
		return nil, fmt.Errorf("the answer is larger than %d MiB", c.largest>>20)
	}
	return body, nil
}

func (c *Client) recordf(format string, args ...any) error {
	if c.record == nil {
		return nil
	}
	c.recording.Lock()
	defer c.recording.Unlock()
	if _, err := fmt.Fprintf(c.record, format, args...); err != nil {
		return fmt.Errorf("cannot record the call: %w", err)
	}
	return nil
}

// HTTPAnswer is the HTTP answer to any body.
type HTTPAnswer struct {
	Status      int
	ContentType string
	Body        []byte
}

// Post sends a body that need not be a call, and returns what the server answers.
func (c *Client) Post(ctx context.Context, body []byte) (a HTTPAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url.String(), bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Content-Type", "text/xml")
	if err := c.recordf("> %s %s\n%.2000s\n", req.Method, c.url, body); err != nil {
		return a, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return a, c.explain(ctx, err)
	}
	defer resp.Body.Close()
	a = HTTPAnswer{Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type")}
	if a.Body, err = io.ReadAll(io.LimitReader(resp.Body, c.largest)); err != nil {
		return a, c.explain(ctx, err)
	}
	if err := c.recordf("< %s\n%.2000s\n", resp.Status, a.Body); err != nil {
		return a, fmt.Errorf("cannot record the answer: %w", err)
	}
	return a, nil
}
