package cert_test

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
	"patchbay/credentials/cert"
	"patchbay/credentials/rule"
	"patchbay/credentials/testdata/pki"
)

const (
	saURN    = "urn:publicid:IDN+example.org+authority+sa"
	aliceURN = "urn:publicid:IDN+example.org+user+alice"
)

func TestParseCutsOneNonCriticalAIA(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "rsa1")
	odd, critical := pki.OddAIA(false), pki.OddAIA(true)
	other := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 15}, Critical: true, Value: []byte{1, 2, 3}}
	for _, tt := range []struct {
		rule  string
		extra []pkix.Extension
		want  bool
	}{
		{"none", nil, true},
		{"one, not critical", []pkix.Extension{odd}, true},
		{"critical", []pkix.Extension{critical}, false},
		{"two", []pkix.Extension{odd, odd}, false},
		{"two, the second critical", []pkix.Extension{odd, critical}, false},
		{"two, the first critical", []pkix.Extension{critical, odd}, false},
		{"two, the second well formed and critical", []pkix.Extension{odd, {Id: odd.Id, Critical: true, Value: []byte{0x30, 0}}}, false},
		{"two, the second well formed and marked as not critical", []pkix.Extension{odd, {Id: odd.Id, Critical: true, Value: []byte{0x30, 0}}}, false},
		{"another malformed extension stays an error", []pkix.Extension{other}, false},
		{"another malformed extension beside it", []pkix.Extension{odd, other}, false},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			der := pki.DER(t, root, pki.Subject{URIs: []string{aliceURN}, Key: "rsa2", Extra: tt.extra})
			if strings.HasSuffix(tt.rule, "marked as not critical") {
				oid, _ := asn1.Marshal(odd.Id)
				der = bytes.Replace(der, append(oid, 1, 1, 0xff), append(oid, 1, 1, 0), 1)
			}
			if len(tt.extra) > 0 {
				if _, err := x509.ParseCertificate(der); err == nil {
					t.Fatal("the standard library reads it: the test proves nothing")
				}
			}
			c, err := cert.Parse(der)
			if (err == nil) != tt.want {
				t.Fatalf("Parse: %v, want success %v", err, tt.want)
			}
			if err != nil {
				return
			}
			if !bytes.Equal(c.Raw, der) || c.URN.String() != aliceURN {
				t.Errorf("the original bytes or the URN %s are lost", c.URN)
			}
			if err := cert.CheckSignature(root.PublicKey, c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature); err != nil {
				t.Errorf("signature over the original bytes: %v", err)
			}
		})
	}
}

func TestParsePEMReadsEveryFormOfGID(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "rsa1")
	alice := pki.User(t, root, aliceURN, "rsa2")
	both := pki.PEM(alice, root)
	bare := func(e *pki.Entity) string { return base64.StdEncoding.EncodeToString(e.Raw) }
	for _, tt := range []struct {
		rule, text string
		want       int
	}{
		{"concatenated", both, 2},
		{"text around", "Certificate:\n  Data:\n" + pki.PEM(alice) + "Issuer: x\n" + pki.PEM(root) + "\n--\n", 2},
		{"CR at line ends", strings.ReplaceAll(both, "\n", "\r\n"), 2},
		{"leading and trailing blanks", " \r\n\t" + both + "\n \n", 2},
		{"line ends lost", strings.ReplaceAll(both, "\n", " "), 2},
		{"joined by parent", pki.PEM(alice) + "-----parent-----\n" + pki.PEM(root), 2},
		{"bare base64", bare(alice), 1},
		{"bare base64 in lines", "\n" + bare(alice)[:64] + "\r\n" + bare(alice)[64:] + "\n", 1},
		{"bare base64 joined by parent", bare(alice) + "\n-----parent-----\n" + bare(root), 2},
		{"CR alone at line ends", strings.ReplaceAll(both, "\n", "\r"), 2},
		{"byte order mark", "\ufeff" + both, 2},
		{"as openssl x509 -text prints it", "subject=CN = x\nissuer=CN = y\n" + pki.PEM(alice) + "\nsubject=CN = y\n" + pki.PEM(root), 2},
		{"joined by parent, without line ends", strings.TrimSpace(pki.PEM(alice)) + "-----parent-----" + pki.PEM(root), 2},
		{"joined by parent, with CR", strings.ReplaceAll(pki.PEM(alice)+"-----parent-----\n"+pki.PEM(root), "\n", "\r\n"), 2},
		{"parent after the last", both + "-----parent-----\n", 2},
		{"bare base64 with CR and blanks", " " + bare(alice)[:76] + "\r\n\t" + bare(alice)[76:] + "\r\n", 1},
		{"bare base64, joined twice, a duplicate", bare(alice) + "-----parent-----" + bare(root) + "-----parent-----" + bare(root), 2},
		{"bare base64 and then PEM is junk", bare(alice) + "\n-----parent-----\n" + strings.Replace(pki.PEM(root), "BEGIN", "", 1), 0},
		{"another label is text around", "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n" + both, 2},
		{"a key beside it is text around", pki.PEM(alice) + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 1},
		{"old label is not read", strings.ReplaceAll(both, "CERTIFICATE", "TRUSTED CERTIFICATE"), 0},
		{"duplicates dropped", both + both, 2},
		{"duplicates between others dropped, order kept", pki.PEM(alice, root, alice), 2},
		{"empty", " \n", 0},
		{"junk", "hello", 0},
		{"no END", strings.TrimSuffix(pki.PEM(alice), "-----END CERTIFICATE-----\n"), 0},
		{"one bad block", pki.PEM(alice) + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", 0},
		{"ten blocks", strings.Repeat(pki.PEM(alice), 10), 1},
		{"eleven blocks", strings.Repeat(pki.PEM(alice), 11), 0},
		{"eleven bare ones", strings.Repeat(bare(alice)+"-----parent-----", 11), 0},
		{"two blocks without END between", strings.Replace(both, "-----END CERTIFICATE-----\n", "", 1), 0},
		{"bare base64 cut off", bare(alice)[:len(bare(alice))-8], 0},
		{"something behind the DER", base64.StdEncoding.EncodeToString(append(bytes.Clone(alice.Raw), 0)), 0},
		{"too long", strings.Repeat(" ", cert.MaxBytes) + pki.PEM(alice), 0},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			list, err := cert.ParsePEM([]byte(tt.text))
			if len(list) != tt.want || (err == nil) != (tt.want > 0) {
				t.Fatalf("%d certificates, %v; want %d", len(list), err, tt.want)
			}
			if tt.want > 0 && list[0].URN.String() != aliceURN {
				t.Errorf("the leaf %s is not first", list[0].Name())
			}
		})
	}
}

func TestLargeCertificatesAreNotRead(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "rsa1")
	large := func(extra int) []byte {
		return pki.DER(t, root, pki.Subject{URIs: []string{aliceURN}, Key: "rsa2", Extra: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: make([]byte, extra)}}})
	}
	const most = cert.MaxBytes - 2000
	if _, err := cert.Parse(large(most)); err != nil {
		t.Error(err)
	}
	if _, err := cert.Parse(large(cert.MaxBytes)); rule.Of(err) != rule.CertificateSize {
		t.Errorf("refused by %q: %v", rule.Of(err), err)
	}
}

// TestModifiedCertificateIsNeverAccepted flips two bits in every byte of certificates of every kind.
func TestModifiedCertificateIsNeverAccepted(t *testing.T) {
	type entity = *pki.Entity
	const lab = "urn:publicid:IDN+example.org:lab+"
	root := pki.Authority(t, nil, saURN, "rsa1")
	curves := pki.Authority(t, nil, saURN, "p256")
	odd := []pkix.Extension{pki.OddAIA(false)}
	between := pki.Issue(t, root, pki.Subject{URIs: []string{lab + "authority+sa"}, Key: "rsa2", CA: true, KeyUsage: x509.KeyUsageCertSign, PathLen: 1})
	oddBetween := pki.Issue(t, curves, pki.Subject{URIs: []string{lab + "authority+sa"}, Key: "p256", CA: true, Extra: odd})
	for _, tt := range []struct {
		kind   string
		anchor entity
		chain  []entity // leaf first
		flip   int      // which of the chain is changed
	}{
		{"user, RSA with SHA-256", root, []entity{pki.User(t, root, aliceURN, "rsa3")}, 0},
		{"user with an odd authorityInfoAccess", root, []entity{pki.Issue(t, root, pki.Subject{URIs: []string{aliceURN}, Key: "rsa3", Extra: odd})}, 0},
		{"user, RSA with SHA-512", root, []entity{pki.Issue(t, root, pki.Subject{URIs: []string{"urn:uuid:4210b70b-0ee9-4e70-9c6c-8a6326b541a7", aliceURN}, Key: "p384", Algorithm: x509.SHA512WithRSA})}, 0},
		{"user, ECDSA with SHA-256", curves, []entity{pki.User(t, curves, aliceURN, "p256")}, 0},
		{"user, ECDSA, with an odd authorityInfoAccess", curves, []entity{pki.Issue(t, curves, pki.Subject{URIs: []string{aliceURN}, Key: "p521", Extra: odd})}, 0},
		{"CA between", root, []entity{pki.User(t, between, lab+"user+alice", "rsa3"), between}, 1},
		{"CA between, ECDSA, with an odd authorityInfoAccess", curves, []entity{pki.User(t, oddBetween, lab+"user+alice", "p256"), oddBetween}, 1},
		{"user below a CA", root, []entity{pki.User(t, between, lab+"user+alice", "rsa3"), between}, 0},
		{"authority that is the anchor itself", root, []entity{root}, 0},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			anchors := pki.Anchors(tt.anchor)
			verify := func(changed []byte) error {
				list := make([]*cert.Certificate, len(tt.chain))
				for i, e := range tt.chain {
					raw := e.Raw
					if i == tt.flip {
						raw = changed
					}
					var err error
					if list[i], err = cert.Parse(raw); err != nil {
						return err
					}
				}
				_, err := cert.Verify(list[0], list[1:], anchors, cert.Options{}, pki.Now)
				return err
			}
			der := tt.chain[tt.flip].Raw
			if err := verify(der); err != nil {
				t.Fatal(err)
			}
			accepted := 0
			for i := range der {
				for _, bit := range []byte{1, 0x20} {
					changed := bytes.Clone(der)
					changed[i] ^= bit
					if verify(changed) == nil {
						accepted++
						t.Errorf("byte %d of %d changed by %#x and still accepted", i, len(der), bit)
					}
				}
			}
			t.Logf("%d changes, %d accepted", 2*len(der), accepted)
		})
	}
}

func TestOpensslMadeCertificatesWithOddAIA(t *testing.T) {
	openssl := require.Tool(t, "openssl")
	dir := t.TempDir()
	config := `[req]
distinguished_name=dn
[dn]
[aia]
authorityInfoAccess=2.25.305821105408246119474742976030998643995;URI:https://sa.example.org/xmlrpc
subjectAltName=$ENV::SAN
basicConstraints=CA:$ENV::CA
`
	if err := os.WriteFile(filepath.Join(dir, "c.cnf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(env []string, args ...string) {
		t.Helper()
		cmd := exec.Command(openssl, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("openssl %v: %v\n%s", args, err, out)
		}
	}
	keys, _ := filepath.Abs("../testdata/keys")
	make1 := func(name, uri, ca, key string, sign ...string) *cert.Certificate {
		env := []string{"SAN=URI:" + uri + ",URI:urn:uuid:4210b70b-0ee9-4e70-9c6c-8a6326b541a7,email:a@example.org", "CA=" + ca}
		run(env, "req", "-new", "-key", filepath.Join(keys, key+".pem"), "-subj", "/CN="+name, "-config", "c.cnf", "-out", name+".csr")
		run(env, append([]string{"x509", "-req", "-in", name + ".csr", "-out", name + ".pem", "-days", "3650", "-extfile", "c.cnf", "-extensions", "aia"}, sign...)...)
		text, err := os.ReadFile(filepath.Join(dir, name+".pem"))
		if err != nil {
			t.Fatal(err)
		}
		list, err := cert.ParsePEM(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x509.ParseCertificate(list[0].Raw); err == nil {
			t.Fatal("the standard library reads it: the test proves nothing")
		}
		return list[0]
	}
	root := make1("root", "urn:publicid:IDN+example.org+authority+root", "TRUE", "rsa1", "-signkey", filepath.Join(keys, "rsa1.pem"))
	sub := make1("sub", "urn:publicid:IDN+example.org:lab+authority+sa", "TRUE", "rsa2", "-CA", "root.pem", "-CAkey", filepath.Join(keys, "rsa1.pem"), "-CAcreateserial")
	alice := make1("alice", "urn:publicid:IDN+example.org:lab+user+alice", "FALSE", "rsa3", "-CA", "sub.pem", "-CAkey", filepath.Join(keys, "rsa2.pem"), "-CAcreateserial")
	anchors := cert.NewAnchors(cert.Anchor{Certificate: root})
	at := root.NotBefore.AddDate(0, 0, 1)
	chain, err := cert.Verify(alice, []*cert.Certificate{sub}, anchors, cert.Options{}, at)
	if err != nil || len(chain) != 3 {
		t.Fatalf("chain of %d, %v", len(chain), err)
	}
	if _, err := cert.Verify(alice, nil, anchors, cert.Options{}, at); err == nil {
		t.Error("accepted without the authority between")
	}
}

func FuzzParse(f *testing.F) {
	root := pki.Authority(f, nil, saURN, "rsa1")
	f.Add(root.Raw)
	f.Add(pki.DER(f, root, pki.Subject{URIs: []string{aliceURN}, Key: "p256", Extra: []pkix.Extension{pki.OddAIA(false)}}))
	anchors := pki.Anchors(root)
	f.Fuzz(func(t *testing.T, der []byte) {
		c, err := cert.Parse(der)
		if err != nil {
			return
		}
		if !bytes.Equal(c.Raw, der) {
			t.Fatal("Raw differs from the input")
		}
		_, _ = cert.Verify(c, []*cert.Certificate{c}, anchors, cert.Options{SHA1: true, MinRSABits: 1024}, pki.Now)
	})
}

func FuzzParsePEM(f *testing.F) {
	root := pki.Authority(f, nil, saURN, "p256")
	f.Add([]byte(pki.PEM(root, root)))
	f.Add([]byte(base64.StdEncoding.EncodeToString(root.Raw)))
	f.Add([]byte("-----parent-----\n-----BEGIN CERTIFICATE-----"))
	f.Add([]byte(" x\r\n" + strings.ReplaceAll(pki.PEM(root), "\n", "\r\n") + "-----parent-----\r" + pki.PEM(pki.User(f, root, aliceURN, "p256"))))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := cert.ParsePEM(text)
		if (err == nil) != (len(list) > 0) || len(list) > cert.MaxCertificates {
			t.Fatalf("%d certificates, %v", len(list), err)
		}
		// What was read is read again from its plain form, in order.
		var plain []byte
		for _, c := range list {
			plain = append(plain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
		}
		if again, err := cert.ParsePEM(plain); len(list) > 0 && len(plain) <= cert.MaxBytes && (err != nil || len(again) != len(list) || again[0].Fingerprint() != list[0].Fingerprint()) {
			t.Fatalf("the plain form has %d certificates of %d, %v", len(again), len(list), err)
		}
	})
}
