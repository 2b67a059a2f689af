package trial_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/require"
	"patchbay/credentials/trial"
	"patchbay/credentials/trial/trialtest"
)

// TestXmlsec1AcceptsSignaturesOfTheAuthority verifies a credential as the reference implementation
// does: with xmlsec1, and the authority's certificate as the only root.
func TestXmlsec1AcceptsSignaturesOfTheAuthority(t *testing.T) {
	xmlsec1 := require.Tool(t, "xmlsec1")
	dir := t.TempDir()
	today := time.Now()
	a, err := trial.Create(filepath.Join(dir, "authority"), "example.org", today)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.User("alice", today); err != nil {
		t.Fatal(err)
	}
	slice, err := trialtest.NewSlice(a, "s1", "alice", today.Add(time.Hour), today)
	if err != nil {
		t.Fatal(err)
	}
	verify := func(doc string) error {
		file := filepath.Join(dir, "credential.xml")
		if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		return exec.Command(xmlsec1, "--verify", "--node-id", "Sig_ref0", "--trusted-pem", filepath.Join(dir, "authority", "authority.pem"), file).Run()
	}
	if err := verify(string(slice.Credential)); err != nil {
		t.Errorf("xmlsec1 refuses it: %v", err)
	}
	if verify(strings.Replace(string(slice.Credential), "<name>info", "<name>pi", 1)) == nil {
		t.Error("xmlsec1 accepts it changed, so it proves nothing")
	}
}

// TestOpensslReadsTheCertificates verifies chain and purpose as a TLS server with OpenSSL does.
func TestOpensslReadsTheCertificates(t *testing.T) {
	openssl := require.Tool(t, "openssl")
	dir := t.TempDir()
	a, err := trial.Create(dir, "example.org:lab", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.User("alice", time.Now()); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(openssl, "verify", "-x509_strict", "-purpose", "sslclient", "-CAfile", filepath.Join(dir, "authority.pem"), "-untrusted", filepath.Join(dir, "ma.pem"), filepath.Join(dir, "users", "alice.pem")).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestCredentialsFitThePublishedSchema validates credentials by the schema, because our own reader
// is more lenient.
func TestCredentialsFitThePublishedSchema(t *testing.T) {
	xmllint := require.Tool(t, "xmllint")
	schema := require.Shared(t, "schemas", "geni.net_resources_credential_2", "credential.xsd")
	dir := t.TempDir()
	a, err := trial.Create(filepath.Join(dir, "authority"), "example.org", now)
	if err != nil {
		t.Fatal(err)
	}
	alice, err := a.User("alice", now)
	if err != nil {
		t.Fatal(err)
	}
	slice, err := trialtest.NewSlice(a, "s1", "alice", now.Add(time.Hour), now)
	if err != nil {
		t.Fatal(err)
	}
	tool, err := a.Tool("portal", now)
	if err != nil {
		t.Fatal(err)
	}
	delegated, err := trial.Delegate(slice.Credential, alice, tool.Certificate, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	speaksFor, err := trial.SpeaksFor(alice, tool.Certificate, now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for name, doc := range map[string][]byte{"user.xml": alice.Credential, "slice.xml": slice.Credential, "delegated.xml": delegated, "speaksfor.xml": speaksFor} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, doc, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(xmllint, "--nonet", "--noout", "--schema", schema, file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
