package trial_test

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
	"patchbay/credentials/trial"
)

// TestOpensslReadsTheFileForJFed also checks that a wrong passphrase fails.
func TestOpensslReadsTheFileForJFed(t *testing.T) {
	openssl := require.Tool(t, "openssl")
	a, dir := create(t)
	alice, err := a.User("alice", now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trial.EncryptedPEM(alice.Certificate, alice.Key, "short"); err == nil || !strings.Contains(err.Error(), "choose a longer one") {
		t.Errorf("a short passphrase: %v", err)
	}
	text, err := trial.EncryptedPEM(alice.Certificate, alice.Key, "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), "BEGIN CERTIFICATE") != 3 || strings.Contains(string(text), string(alice.Key)) {
		t.Errorf("the file is\n%s", text)
	}
	file := filepath.Join(dir, "jfed.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(openssl, "rsa", "-in", file, "-passin", "pass:correct horse", "-traditional").Output()
	if err != nil || string(out) != string(alice.Key) {
		t.Errorf("openssl reads %q, %v", out, err)
	}
	if exec.Command(openssl, "rsa", "-in", file, "-passin", "pass:wrong horse").Run() == nil {
		t.Error("a wrong passphrase is accepted")
	}
}

func TestAuthoritiesOfJFed(t *testing.T) {
	text, err := trial.JFedAuthority{Name: "example.org", URL: "https://am.example.org:8443", ServerCertificate: []byte("-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n")}.XML()
	if err != nil {
		t.Fatal(err)
	}
	const want = `<?xml version="1.0" encoding="UTF-8"?>
<authorities>
  <authority>
    <hrn>example.org</hrn>
    <urn>urn:publicid:IDN+example.org+authority+cm</urn>
    <urls>
      <serverurl>
        <servertype role="GENI_CH_MA" version="2"></servertype>
        <url>https://am.example.org:8443/ma/2</url>
      </serverurl>
      <serverurl>
        <servertype role="GENI_CH_SA" version="2"></servertype>
        <url>https://am.example.org:8443/sa/2</url>
      </serverurl>
      <serverurl>
        <servertype role="PROTOGENI_SA" version="1"></servertype>
        <url>https://am.example.org:8443/protogeni/xmlrpc/sa</url>
      </serverurl>
      <serverurl>
        <servertype role="AM" version="2"></servertype>
        <url>https://am.example.org:8443/am/2.0</url>
      </serverurl>
      <serverurl>
        <servertype role="AM" version="3"></servertype>
        <url>https://am.example.org:8443/am/3.0</url>
      </serverurl>
    </urls>
    <proxies></proxies>
    <pemSslTrustCert>-----BEGIN CERTIFICATE-----&#xA;QUJD&#xA;-----END CERTIFICATE-----</pemSslTrustCert>
    <allowedCertificateHostnameAliases>
      <alias>am.example.org</alias>
    </allowedCertificateHostnameAliases>
    <type>patchbay</type>
  </authority>
</authorities>
`
	if string(text) != want {
		t.Errorf("got\n%s", text)
	}
	if err := xml.Unmarshal(text, &struct{}{}); err != nil {
		t.Error(err)
	}
}
