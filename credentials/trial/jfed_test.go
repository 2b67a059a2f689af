package trial_test

import (
	"encoding/xml"
	"fmt"
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

// TestAuthoritiesOfJFed reads the file as jFed's public library does: by the namespace and names of
// its schema, and with its table of roles.
func TestAuthoritiesOfJFed(t *testing.T) {
	const certificate = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----"
	text, err := trial.JFedAuthority{Name: "example.org", URL: "https://am.example.org:8443", ServerCertificate: []byte(certificate + "\n")}.XML()
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		XMLName     xml.Name `xml:"http://jfed.iminds.be/authority authorities"`
		Authorities []struct {
			URN         string `xml:"http://jfed.iminds.be/authority urn"`
			HRN         string `xml:"http://jfed.iminds.be/authority hrn"`
			Certificate string `xml:"http://jfed.iminds.be/authority pemSslTrustCert"`
			Servers     []struct {
				Type struct {
					Role    string `xml:"role,attr"`
					Version int    `xml:"version,attr"`
				} `xml:"http://jfed.iminds.be/authority servertype"`
				URL string `xml:"http://jfed.iminds.be/authority url"`
			} `xml:"http://jfed.iminds.be/authority urls>serverurl"`
			Aliases []string `xml:"http://jfed.iminds.be/authority allowedCertificateHostnameAliases>alias"`
		} `xml:"http://jfed.iminds.be/authority authority"`
	}
	if err := xml.Unmarshal(text, &list); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if len(list.Authorities) != 1 {
		t.Fatalf("%d authorities in\n%s", len(list.Authorities), text)
	}
	a := list.Authorities[0]
	if a.URN != "urn:publicid:IDN+example.org+authority+cm" || a.HRN != "example.org" || a.Certificate != certificate || len(a.Aliases) != 1 || a.Aliases[0] != "am.example.org" {
		t.Errorf("the authority is %+v", a)
	}
	roles := map[string]string{"Slice Authority": "PROTOGENI_SA", "Aggregate Manager": "AM", "PlanetLab registry": "PlanetLabSliceRegistry"}
	urls := map[string]string{}
	for _, s := range a.Servers {
		if roles[s.Type.Role] == "" {
			t.Errorf("jFed does not know the role %q", s.Type.Role)
		}
		urls[fmt.Sprint(roles[s.Type.Role], " ", s.Type.Version)] = s.URL
	}
	for key, path := range map[string]string{"PROTOGENI_SA 1": "/protogeni/xmlrpc/sa", "AM 2": "/am/2.0", "AM 3": "/am/3.0"} {
		if urls[key] != "https://am.example.org:8443"+path {
			t.Errorf("the URL of %s is %q", key, urls[key])
		}
	}
}
