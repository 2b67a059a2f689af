package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/program"
	"patchbay/am/testkit/require"
)

// federation is an independent federation: openssl creates its certificates and xmlsec1
// signs its credentials, so that no code of ours checks itself.
type federation struct {
	t        testing.TB
	dir      string
	name     string
	serial   int
	openssl  string
	xmlsec   string
	oddAIA   bool
	keyAlg   []string
	sigAlg   string
	digAlg   string
	lifetime int // days
	// names are the alternative names in order, in openssl's syntax; UUID and URN stand
	// for the values of the certificate.
	names string
	// key is the file of a private key to reuse; "" for a new key each time.
	key string
	// signing are openssl's options for signatures, such as -sha1.
	signing []string
}

// identity is a certificate with its key and its chain.
type identity struct {
	urn             string
	cert, key, full string // files: leaf, key, leaf with chain
}

// oddOID is an access method in authorityInfoAccess that authorities in the field use.
// Go's parser refuses its 128-bit arc.
const oddOID = "2.25.305821105408246119474742976030998643995"

func newFederation(t testing.TB, name string) *federation {
	// xmlsec1 separates file names by commas, so the folder's name must have none;
	// t.TempDir's may.
	dir, err := os.MkdirTemp("", "patchbay-federation")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &federation{
		t: t, dir: dir, name: name, oddAIA: true, lifetime: 30, names: "email.1=ops@example.org\nURI.1=UUID\nURI.2=URN\n",
		openssl: require.Tool(t, "openssl"), xmlsec: require.Tool(t, "xmlsec1"),
		keyAlg: []string{"-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"},
		sigAlg: "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256", digAlg: "http://www.w3.org/2001/04/xmlenc#sha256",
	}
}

func (f *federation) run(name string, args ...string) string {
	f.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		f.t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (f *federation) urn(kind, name string) string {
	return "urn:publicid:IDN+" + f.name + "+" + kind + "+" + name
}

// issue creates a certificate for a URN; without an issuer it is self-signed.
func (f *federation) issue(urn string, ca bool, issuer *identity) *identity {
	f.t.Helper()
	f.serial++
	base := filepath.Join(f.dir, fmt.Sprintf("%d", f.serial))
	id := &identity{urn: urn, cert: base + ".crt", key: base + ".key", full: base + ".full.pem"}
	ext := fmt.Sprintf("basicConstraints=critical,CA:%s\nsubjectAltName=@san\n", map[bool]string{true: "TRUE", false: "FALSE"}[ca])
	if f.oddAIA {
		ext += "authorityInfoAccess=" + oddOID + ";URI:https://" + strings.ReplaceAll(f.name, ":", ".") + "/sa\n"
	}
	ext += "[san]\n" + strings.NewReplacer("UUID", fmt.Sprintf("urn:uuid:%08d-0000-4000-8000-000000000000", f.serial), "URN", urn).Replace(f.names)
	os.WriteFile(base+".ext", []byte(ext), 0o600)
	if f.key == "" {
		f.run(f.openssl, append([]string{"genpkey", "-quiet", "-out", id.key}, f.keyAlg...)...)
	} else {
		os.WriteFile(id.key, []byte(program.ReadFile(f.t, f.key)), 0o600)
	}
	// The subject must differ between levels, as in the field; nothing identifies users
	// by it.
	f.run(f.openssl, "req", "-new", "-key", id.key, "-out", base+".csr", "-subj", fmt.Sprintf("/CN=%s %d", f.name, f.serial))
	args := []string{"x509", "-req", "-in", base + ".csr", "-days", fmt.Sprint(f.lifetime), "-set_serial", fmt.Sprint(1000 + f.serial), "-extfile", base + ".ext", "-out", id.cert}
	args = append(args, f.signing...)
	if issuer == nil {
		args = append(args, "-signkey", id.key)
	} else {
		args = append(args, "-CA", issuer.cert, "-CAkey", issuer.key)
	}
	f.run(f.openssl, args...)
	chain := program.ReadFile(f.t, id.cert)
	if issuer != nil {
		chain += program.ReadFile(f.t, issuer.full)
	}
	os.WriteFile(id.full, []byte(chain), 0o600)
	return id
}

// statement is the content of a credential.
type statement struct {
	owner, target *identity
	privileges    []string
	expires       time.Time
	// edit, if not nil, changes the document before it is signed.
	edit func(string) string
}

// sign writes the credential and signs it with xmlsec1.
func (f *federation) sign(s statement, signer *identity) string {
	f.t.Helper()
	var privileges strings.Builder
	for _, p := range s.privileges {
		fmt.Fprintf(&privileges, "<privilege><name>%s</name><can_delegate>false</can_delegate></privilege>", p)
	}
	if s.expires.IsZero() {
		s.expires = time.Now().Add(20 * 24 * time.Hour)
	}
	doc := fmt.Sprintf(`<?xml version="1.0"?>
<signed-credential xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="http://www.protogeni.net/resources/credential/credential.xsd"><credential xml:id="ref0"><type>privilege</type><serial>8</serial><owner_gid>%s</owner_gid><owner_urn>%s</owner_urn><target_gid>%s</target_gid><target_urn>%s</target_urn><uuid/><expires>%s</expires><privileges>%s</privileges></credential><signatures>
<Signature xml:id="Sig_ref0" xmlns="http://www.w3.org/2000/09/xmldsig#"><SignedInfo>
<CanonicalizationMethod Algorithm="http://www.w3.org/TR/2001/REC-xml-c14n-20010315"/>
<SignatureMethod Algorithm="%s"/>
<Reference URI="#ref0"><Transforms><Transform Algorithm="http://www.w3.org/2000/09/xmldsig#enveloped-signature"/></Transforms>
<DigestMethod Algorithm="%s"/><DigestValue/></Reference></SignedInfo><SignatureValue/>
<KeyInfo><X509Data><X509SubjectName/><X509IssuerSerial/><X509Certificate/></X509Data><KeyValue/></KeyInfo>
</Signature></signatures></signed-credential>
`, program.ReadFile(f.t, s.owner.full), s.owner.urn, program.ReadFile(f.t, s.target.full), s.target.urn, s.expires.UTC().Format("2006-01-02T15:04:05Z"), privileges.String(), f.sigAlg, f.digAlg)
	if s.edit != nil {
		doc = s.edit(doc)
	}
	f.serial++
	in, out := filepath.Join(f.dir, fmt.Sprintf("%d.xml", f.serial)), filepath.Join(f.dir, fmt.Sprintf("%d.signed.xml", f.serial))
	os.WriteFile(in, []byte(doc), 0o600)
	f.run(f.xmlsec, "--sign", "--node-id", "Sig_ref0", "--privkey-pem", signer.key+","+signer.cert, "--output", out, in)
	return program.ReadFile(f.t, out)
}
