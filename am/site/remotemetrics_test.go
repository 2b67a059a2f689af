package site

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/credentials/testdata/pki"
)

func TestTokenAndCAOfMonitorsAreChecked(t *testing.T) {
	const good = "0123456789abcdef0123456789abcdef"
	for _, c := range []struct {
		name, text string
		mode       os.FileMode
		ca         bool
		want       string // part of the error; "" for none
	}{
		{"Good", good, 0o600, false, ""},
		{"GoodForTheOwnerToRead", good + "\n", 0o400, false, ""},
		{"OthersMayRead", good, 0o604, false, "other users may read the token: chmod 600 "},
		{"TheGroupMayRead", good, 0o640, false, "other users may read the token: chmod 600 "},
		{"Short", "secret", 0o600, false, "shorter than 16 bytes"},
		{"Empty", "", 0o600, false, "shorter than 16 bytes"},
		{"Missing", "", 0, false, "does not exist"},
		{"NoCertificate", "hello", 0o644, true, "contains no certificate that can be read"},
		{"MissingCertificate", "", 0, true, "the certificates cannot be read: open "},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			if c.mode != 0 {
				if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(file, c.mode); err != nil {
					t.Fatal(err)
				}
			}
			config := &Config{Metrics: MetricsConfig{Listen: "127.0.0.1:0", TokenFile: file}}
			if c.ca {
				config.Metrics.TokenFile, config.Metrics.ClientCA = "", file
			}
			err := config.CheckMetrics()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// TestTheTokenIsReadAgain checks that a reload uses a new token, and that an error in the file
// keeps the current one.
func TestTheTokenIsReadAgain(t *testing.T) {
	const first, second = "0123456789abcdef", "fedcba9876543210"
	file := filepath.Join(t.TempDir(), "token")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(first)
	m, err := openRemoteMetrics(&Config{Metrics: MetricsConfig{Listen: "127.0.0.1:0", TokenFile: file}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.listener.Close()
	admits := func(token string) bool {
		return m.admits(&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}})
	}
	for _, step := range []struct {
		text, admitted, refused string
		err                     bool
	}{{first, first, second, false}, {second, second, first, false}, {"x", second, "x", true}, {"", second, "", true}} {
		put(step.text)
		if err := m.reload(); (err != nil) != step.err {
			t.Errorf("%q: %v", step.text, err)
		}
		if !admits(step.admitted) || admits(step.refused) {
			t.Errorf("with %q: admitted %v, %v", step.text, admits(step.admitted), admits(step.refused))
		}
	}
	var none *remoteMetrics
	if none.admits(&http.Request{}) || none.reload() != nil {
		t.Error("a site without a listener admits a request")
	}
}

// TestMonitorsNeedACertificateOfTheCA proves that TLS requires a certificate if the site has
// metrics.client_ca.
func TestMonitorsNeedACertificateOfTheCA(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte(pki.PEM(pki.Authority(t, nil, "urn:publicid:IDN+example.org+authority+sa", "rsa1"))), 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := (&Config{Metrics: MetricsConfig{Listen: "127.0.0.1:0", ClientCA: file}}).readMetricsAccess()
	if err != nil || a.tls.ClientAuth != tls.RequireAndVerifyClientCert || a.tls.ClientCAs == nil {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestTakenPortNamesTheLikelyProgram(t *testing.T) {
	l, err := listenTCP("127.0.0.1:0", "listen")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for key, want := range map[string]string{
		"admin":          "for health and metrics: another program uses that port, perhaps another site of this host; stop it, or choose another port with the key admin",
		"listen":         "perhaps another site of this host, which by default also uses the next port for health and metrics",
		"metrics.listen": "choose another port with the key metrics.listen",
	} {
		if _, err := listenTCP(l.Addr().String(), key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
