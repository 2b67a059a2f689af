package cert_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"math/big"
	"strings"
	"testing"

	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

func TestBadLinesOfTheDenyList(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, tt := range []struct{ rule, line, want string }{
		{"nothing known", "flooby", "write a URN, sha256:FINGERPRINT, or serial NUMBER of ISSUER"},
		{"URN cut off", "urn:publicid:IDN+example.org+user", "malformed"},
		{"URN of a node", "urn:publicid:IDN+example.org+node+pc1", "only users, tools, slices and authorities"},
		{"URN of all users", "urn:publicid:IDN+example.org+user+*", "* is not a wildcard here"},
		{"two on one line", aliceURN + " " + bobURN, "only a comment may follow"},
		{"fingerprint too short", "sha256:" + hash[:62], "-fingerprint -sha256"},
		{"fingerprint that is none", "sha256:" + hash[:62] + "zz", "-fingerprint -sha256"},
		{"another digest", "sha1:" + hash[:40], "not an entry of a deny list"},
		{"serial alone", "serial 03", "NUMBER of ISSUER"},
		{"serial without issuer", "serial 03 of", "NUMBER of ISSUER"},
		{"serial without of", "serial 03 " + saURN, "NUMBER of ISSUER"},
		{"serial with other blanks", "serial 03\u00a0of\u00a0CN=x", "NUMBER of ISSUER"},
		{"serial with other blanks before a word", "serial 03\vof\vC N", "NUMBER of ISSUER"},
		{"serial that is no number", "serial x3 of " + saURN, "-serial"},
		{"serial beyond measure", "serial " + strings.Repeat("11", 65) + " of " + saURN, "-serial"},
		{"issuer is a user", "serial 03 of " + aliceURN, "is not an authority"},
		{"issuer's URN cut off", "serial 03 of urn:publicid:IDN+example.org", "malformed"},
		{"two issuers", "serial 03 of " + saURN + " " + saURN, "only a comment may follow"},
		{"issuer that is no name", "serial 03 of example.org", "-nameopt RFC2253"},
		{"issuer of an unknown type", "serial 03 of XY=1", "XY is not a known type"},
		{"issuer with a quotation mark", `serial 03 of CN="x"`, `must be written \"`},
		{"issuer that ends with a comma", "serial 03 of CN=x,", "-nameopt RFC2253"},
		{"comment behind a name", "serial 03 of CN=x # stolen", "a comment on a line of its own"},
		{"something behind hexadecimal", "serial 03 of 1.2.3=#0C0178x", "hexadecimal"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			list, problems := cert.ParseDenied([]byte(aliceURN + "\r\n" + tt.line + "\n  " + bobURN + "\t# good\n\n#" + tt.line))
			if len(problems) != 1 || !strings.Contains(problems[0].String(), "denied: line 2: ") || !strings.Contains(problems[0].Text, tt.want) {
				t.Errorf("problems %v, want %q in line 2", problems, tt.want)
			}
			if len(list) != 2 || list[0].Text != aliceURN || list[1].Text != bobURN || list[1].Line != 3 {
				t.Errorf("the other lines are %v", list)
			}
		})
	}
}

func TestSerialNumbersAreHexadecimal(t *testing.T) {
	for text, want := range map[string]int64{"4097": 0x4097, "0x4097": 0x4097, "00:0a": 10, "F": 15} {
		list, problems := cert.ParseDenied([]byte("serial " + text + " of " + saURN))
		if len(problems) > 0 || len(list) != 1 || list[0].SerialNumber().Cmp(big.NewInt(want)) != 0 {
			t.Errorf("%s: %v, %v, want %d", text, list, problems, want)
		}
	}
	if list, _ := cert.ParseDenied([]byte(aliceURN)); len(list) != 1 || list[0].SerialNumber() != nil {
		t.Errorf("a URN has a number: %v", list)
	}
}

func TestDenyListMayBeginWithAByteOrderMark(t *testing.T) {
	if list, problems := cert.ParseDenied([]byte("\ufeff" + aliceURN)); len(list) != 1 || len(problems) > 0 {
		t.Errorf("%v, %v", list, problems)
	}
}

func TestDenyListIsBounded(t *testing.T) {
	list, problems := cert.ParseDenied([]byte(strings.Repeat(aliceURN+"\n", 100_001)))
	if len(list) != 100_000 || len(problems) != 1 || !strings.Contains(problems[0].Text, "line 100001") {
		t.Errorf("%d entries, %v", len(list), problems)
	}
}

// TestDeniedFingerprintCoversTheECDSATwin denies the ECDSA twin of a certificate by fingerprint and checks
// that the original is revoked, too. The attacks have the opposite case.
func TestDeniedFingerprintCoversTheECDSATwin(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "p256")
	alice := pki.User(t, root, aliceURN, "rsa3")
	sum := sha256.Sum256(pki.Twin(t, root, alice.Raw))
	wantReason(t, pki.Trust(t, map[string]string{"denied": "sha256:" + hex.EncodeToString(sum[:])}, root), alice, nil, cert.Revoked)
}

func TestSignatureWithUnusedBitsIsRefused(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "p256") // its signatures begin with two bits of 0
	alice := pki.User(t, root, aliceURN, "rsa3")
	shifted := new(big.Int).Lsh(new(big.Int).SetBytes(alice.Signature), 1).FillBytes(make([]byte, len(alice.Signature)))
	// The last field is a BIT STRING, of which the first byte counts the unused bits.
	der := append(append(bytes.TrimSuffix(bytes.Clone(alice.Raw), append([]byte{0}, alice.Signature...)), 1), shifted...)
	x, err := x509.ParseCertificate(der)
	if err != nil || string(x.Signature) != string(alice.Signature) {
		t.Fatalf("the standard library does not shift, so the test proves nothing: %v", err)
	}
	if _, err := cert.Parse(der); err == nil {
		t.Error("one certificate has two fingerprints")
	}
}

func FuzzDenyList(f *testing.F) {
	f.Add([]byte(aliceURN + " # x\nsha256:00\nserial 1 of CN=a+O=b\\,c,1.2.3=#0500\nserial 0x02 of " + saURN))
	f.Add([]byte("serial 1\u00a0of\u00a0CN=x\nserial 03\vof\vC N\nseriAl 0\fof 0"))
	f.Add([]byte("serial 03 of CN=\\C3\\A9\\ ,C=  x  ,"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, problems := cert.ParseDenied(text)
		lines := strings.Count(string(text), "\n") + 1
		if len(list)+len(problems) > lines {
			t.Fatalf("%d entries and %d problems in %d lines", len(list), len(problems), lines)
		}
		for _, p := range problems {
			if strings.ContainsAny(p.String(), "\r\n") {
				t.Fatalf("not one line: %q", p)
			}
		}
	})
}
