package cert_test

import (
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
	"patchbay/credentials/cert"
)

// TestNamesAsOpensslPrintsThem prints and parses names of every kind as openssl does, so that
// operators can copy them.
func TestNamesAsOpensslPrintsThem(t *testing.T) {
	openssl := require.Tool(t, "openssl")
	dir := t.TempDir()
	key, _ := filepath.Abs("../testdata/keys/p256.pem")
	config := filepath.Join(dir, "c.cnf")
	if err := os.WriteFile(config, []byte("oid_section=o\n[o]\nodd=1.2.3.4.5\n[req]\ndistinguished_name=d\nstring_mask=utf8only\n[d]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(openssl, args...).Output()
		if err != nil {
			t.Fatalf("openssl %v: %v", args, err)
		}
		return string(out)
	}
	var all []string
	var texts []string
	for _, subject := range []string{
		"/CN=example.org", "/C=BE/ST=OVL/O=ilab.t/OU=iminds/CN=boss/emailAddress=ops@example.org",
		`/CN=urn:publicid:IDN\+example.org\+authority\+sa`, "/CN=a,b;c<d>e\"f\\\\g", "/CN=#hash", "/CN=Lab #3", "/CN= blanks around ",
		"/CN=grüße 漢字", "/CN=tab\there", "/DC=org/DC=example/UID=u1", "/CN=one+OU=two/O=three", "/odd=own type", "/CN=a\\/b",
		"/SN=x/GN=y/title=z/serialNumber=7/street=s/L=l",
	} {
		der, _ := pem.Decode([]byte(run("req", "-x509", "-utf8", "-new", "-key", key, "-config", config, "-subj", subject, "-multivalue-rdn")))
		file := filepath.Join(dir, "x.pem")
		if err := os.WriteFile(file, pem.EncodeToMemory(der), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := cert.Parse(der.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.TrimSuffix(strings.TrimPrefix(run("x509", "-noout", "-issuer", "-nameopt", "RFC2253", "-in", file), "issuer="), "\n")
		got := cert.PrintDN(c.RawIssuer)
		if got != want {
			t.Errorf("%s: printed %s, openssl prints %s", subject, got, want)
		}
		for _, text := range []string{got, want} {
			if strings.Contains(subject, "Lab #3") {
				if err := cert.ParseDN(text); err == nil || !strings.Contains(err.Error(), `\#`) {
					t.Errorf("%s: %v, want advice to write \\#", text, err)
				}
				text = strings.Replace(text, "#", `\#`, 1)
			}
			if !cert.SameDN(text, c.RawIssuer) {
				t.Errorf("%s: %s is not read as that name", subject, text)
			}
			all, texts = append(all, string(c.RawIssuer)), append(texts, text)
		}
	}
	for i, text := range texts {
		for j, der := range all {
			if i/2 != j/2 && cert.SameDN(text, []byte(der)) {
				t.Errorf("%s is read as the name %s", text, texts[j])
			}
		}
	}
}
