package site

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"patchbay/am/follow/hook"
)

// remoteMetrics is the listener for monitors on other hosts, with the data to authenticate
// them.
type remoteMetrics struct {
	config   *Config
	listener net.Listener // accepts TCP connections; secure adds TLS
	access   atomic.Pointer[metricsAccess]
}

type metricsAccess struct {
	tls   *tls.Config
	token *[sha256.Size]byte // the hash of the token; nil if none is configured
}

func openRemoteMetrics(c *Config) (*remoteMetrics, error) {
	m := &remoteMetrics{config: c}
	if err := m.reload(); err != nil {
		return nil, err
	}
	l, err := listenTCP(c.Metrics.Listen, "metrics.listen")
	if err != nil {
		return nil, err
	}
	m.listener = l
	return m, nil
}

// reload reads the token and the certificates again. After an error, the previous ones stay in use.
// It does nothing if m is nil.
func (m *remoteMetrics) reload() error {
	if m == nil {
		return nil
	}
	a, err := m.config.readMetricsAccess()
	if err != nil {
		return err
	}
	for _, k := range m.config.Keys {
		pair, err := tls.LoadX509KeyPair(k.Certificate, k.Key)
		if err != nil {
			return fmt.Errorf("%s: %w", k.Certificate, err)
		}
		a.tls.Certificates = append(a.tls.Certificates, pair)
	}
	m.access.Store(a)
	return nil
}

func (m *remoteMetrics) secure(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return m.access.Load().tls, nil },
	})
}

// admits reports whether a request has the configured token, or no token is configured. TLS
// has already checked the client's certificate. It returns false if m is nil.
func (m *remoteMetrics) admits(r *http.Request) bool {
	if m == nil {
		return false
	}
	want := m.access.Load().token
	if want == nil {
		return true
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	got := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && ok
}

// readMetricsAccess reads the files of MetricsConfig. It refuses a token file that other users may
// read.
func (c *Config) readMetricsAccess() (*metricsAccess, error) {
	a := &metricsAccess{tls: &tls.Config{MinVersion: tls.VersionTLS12}}
	if file := c.Metrics.TokenFile; file != "" {
		info, err := os.Stat(file)
		if err != nil {
			return nil, c.Origin.errorf("metrics.token_file", "%s", missingMessage("file", file, err))
		}
		if info.Mode().Perm()&0o077 != 0 {
			return nil, c.Origin.errorf("metrics.token_file", "other users may read the token: chmod 600 %s", file)
		}
		token, err := hook.ReadSecret(file)
		if err != nil {
			return nil, c.Origin.errorf("metrics.token_file", "%v", err)
		}
		sum := sha256.Sum256(token)
		a.token = &sum
	}
	if file := c.Metrics.ClientCA; file != "" {
		pool, err := hook.ReadCA(file)
		if err != nil {
			return nil, c.Origin.errorf("metrics.client_ca", "%v", err)
		}
		a.tls.ClientCAs, a.tls.ClientAuth = pool, tls.RequireAndVerifyClientCert
	}
	return a, nil
}

// CheckMetrics fails if the files of MetricsConfig cannot be used.
func (c *Config) CheckMetrics() error {
	if c.Metrics.Listen == "" {
		return nil
	}
	_, err := c.readMetricsAccess()
	return err
}
