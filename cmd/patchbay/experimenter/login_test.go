package experimenter

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/credentials/trial"
)

// TestLoginChecksTheAnswer gives the answers of hostile authorities. What passes goes into files.
func TestLoginChecksTheAnswer(t *testing.T) {
	t.Parallel()
	now := time.Now()
	create := func(name string) (*trial.Authority, trial.User, *rsa.PublicKey) {
		a, err := trial.Create(t.TempDir(), name, now)
		if err != nil {
			t.Fatal(err)
		}
		u, err := a.User("alice", now)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(u.Key)
		key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return a, u, &key.PublicKey
	}
	a, alice, key := create("example.org")
	_, other, _ := create("elsewhere.org")
	const manager = "urn:publicid:IDN+example.org+authority+cm"
	certificate := string(alice.Certificate)
	for _, x := range []struct{ rule, certificate, manager, says string }{
		{"the right answer", certificate, manager, ""},
		{"texts between certificates", "[omni]\n" + strings.ReplaceAll(certificate, "-----END CERTIFICATE-----\n", "-----END CERTIFICATE-----\ncert = /etc/passwd\n"), manager, ""},
		{"a line break after the aggregate", certificate, manager + "\n[omni]\ndefault_cf = x", "aggregate"},
		{"a line break in the aggregate", certificate, "urn:publicid:IDN+example.org\n+authority+cm", "aggregate"},
		{"a second value", certificate, manager + ",https://attacker.example.org", "no URN of an aggregate"},
		{"a reference to another setting", certificate, manager + "%(key)s", "no URN of an aggregate"},
		{"a user as the aggregate", certificate, "urn:publicid:IDN+example.org+user+alice", "no URN of an aggregate"},
		{"no aggregate", certificate, "", "aggregate"},
		{"the certificate of another key", string(other.Certificate), manager, "not of your key"},
		{"no certificate", "", manager, "certificate"},
	} {
		got, err := readAccepted(xmlrpc.Struct{{Name: "certificate", Value: x.certificate}, {Name: "aggregate", Value: x.manager}}, key, a.Certificate())
		if x.says != "" {
			if err == nil || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%s: %v, want %q", x.rule, err, x.says)
			}
			continue
		}
		if err != nil || string(got.chain) != certificate || got.manager.String() != manager || got.user.Name != "alice" {
			t.Errorf("%s: %+v, %v", x.rule, got, err)
		}
	}
	foreign, _, _ := create("elsewhere.org")
	if _, err := readAccepted(xmlrpc.Struct{{Name: "certificate", Value: certificate}, {Name: "aggregate", Value: manager}}, key, foreign.Certificate()); err == nil {
		t.Error("a certificate of another authority is accepted")
	}
}
