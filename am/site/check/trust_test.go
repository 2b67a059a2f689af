package check

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/credentials/testdata/pki"
)

// TestTrustReport checks what is reported about a trust folder: its CRLs, its deny list, and
// files that are ignored.
func TestTrustReport(t *testing.T) {
	const fed, other, alice = "urn:publicid:IDN+fed.example.org+authority+ca", "urn:publicid:IDN+other.example.net+authority+ca", "urn:publicid:IDN+fed.example.org+user+alice"
	root, stranger := pki.Authority(t, nil, fed, "rsa1"), pki.Authority(t, nil, other, "rsa3")
	sub := pki.Authority(t, root, "urn:publicid:IDN+fed.example.org+authority+sa", "rsa4")
	user, elsewhere := pki.User(t, root, alice, "rsa2"), pki.Authority(t, nil, "urn:publicid:IDN+elsewhere.example.org+authority+ca", "rsa5")
	dir := t.TempDir()
	report := func(files map[string]string, errors int, want ...string) {
		t.Helper()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		k := &Checker{Out: &out, Err: &out}
		k.File(t.Context(), dir)
		text := strings.ReplaceAll(out.String(), dir+"/", "")
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%q is missing in:\n%s", w, text)
			}
		}
		if k.wrong != errors {
			t.Errorf("%d errors, want %d", k.wrong, errors)
		}
	}
	fingerprint := "sha256:" + strings.Repeat("ab", 32)
	report(map[string]string{
		"fed.pem": pki.PEM(root, sub), "other.pem": pki.PEM(stranger), "fed.crl": pki.CRL(t, root, user) + pki.CRL(t, sub), "strange.crl": pki.CRL(t, elsewhere),
		"denied": "# two users\n" + alice + "\nserial 7777 of " + fed + "\nurn:publicid:IDN+fed.example.orgg+user+slip\nserial 01 of CN=nobody\n" +
			"urn:publicid:IDN+fed.example.org+authority+sa\n" + fingerprint + "\n",
		"Denied.txt": "", "more.CRL": "",
	}, 0,
		"ok       fed.crl: CRL of "+fed+" with 1 entry",
		"its issuer's certificate is not in this folder",
		"ok       denied:2: "+alice+" is refused, even if signed by fed.pem",
		"ok       denied:3: serial 7777 of "+fed+" is refused, even if signed by fed.pem; its number is read as hexadecimal: 7777, in decimal 30583",
		"warning  denied:4: urn:publicid:IDN+fed.example.orgg+user+slip matches no certificate",
		"warning  denied:5: serial 01 of CN=nobody: no trusted certificate has the name of that issuer",
		"ok       denied:7: "+fingerprint+" is refused, even if signed by fed.pem, other.pem",
		"is revoked by denied:6, so it is not trusted",
		"warning  Denied.txt: it is ignored: the deny list must be named denied",
		"warning  more.CRL: it is ignored: only *.crl",
	)
	report(map[string]string{"denied": alice + "\nflooby\n", "fed.crl": pki.CRL(t, root)[:200], "strange.crl": "hello"}, 3,
		"error    denied: line 2: ", "error    fed.crl: ", "error    strange.crl: it contains no CRL", "ok       denied:1: ")
}
