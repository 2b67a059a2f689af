package cert_test

import (
	"crypto/ecdsa"
	"crypto/x509"
	"math/big"
	"strings"
	"testing"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"

	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

func TestBadLinesOfTheDenyList(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, tt := range []struct{ rule, line, want string }{
		{"nothing known", "flooby", "write a URN, sha256:FINGERPRINT, or serial NUMBER of ISSUER"},
		{"URN cut off", "urn:publicid:IDN+example.org+user", "malformed"},
		{"URN of a node", "urn:publicid:IDN+example.org+node+pc1", "only users, tools, slices and authorities"},
		{"URN of all users", "urn:publicid:IDN+example.org+user+*", "a * stands for nobody here"},
		{"two on one line", aliceURN + " " + bobURN, "only a comment may follow"},
		{"fingerprint too short", "sha256:" + hash[:62], "-fingerprint -sha256"},
		{"fingerprint that is none", "sha256:" + hash[:62] + "zz", "-fingerprint -sha256"},
		{"another digest", "sha1:" + hash[:40], "says nothing"},
		{"serial alone", "serial 03", "NUMBER of ISSUER"},
		{"serial without issuer", "serial 03 of", "NUMBER of ISSUER"},
		{"serial without of", "serial 03 " + saURN, "NUMBER of ISSUER"},
		{"serial with other blanks", "serial 03\u00a0of\u00a0CN=x", "NUMBER of ISSUER"},
		{"serial with other blanks before a word", "serial 03\vof\vC N", "NUMBER of ISSUER"},
		{"serial that is no number", "serial x3 of " + saURN, "-serial"},
		{"serial beyond measure", "serial " + strings.Repeat("11", 65) + " of " + saURN, "-serial"},
		{"issuer is a user", "serial 03 of " + aliceURN, "is no authority"},
		{"issuer's URN cut off", "serial 03 of urn:publicid:IDN+example.org", "malformed"},
		{"two issuers", "serial 03 of " + saURN + " " + saURN, "only a comment may follow"},
		{"issuer that is no name", "serial 03 of example.org", "-nameopt RFC2253"},
		{"issuer of an unknown type", "serial 03 of XY=1", "XY is no type"},
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
		if len(problems) > 0 || len(list) != 1 || list[0].Number().Cmp(big.NewInt(want)) != 0 {
			t.Errorf("%s: %v, %v, want %d", text, list, problems, want)
		}
	}
	if list, _ := cert.ParseDenied([]byte(aliceURN)); len(list) != 1 || list[0].Number() != nil {
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

// TestFingerprintCannotBeDodged: of a signature by ECDSA anybody can make
// another as good, and with it another fingerprint of the same certificate.
func TestFingerprintCannotBeDodged(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "p256")
	alice := pki.User(t, root, aliceURN, "rsa3")
	var pair cryptobyte.String
	signature := cryptobyte.String(alice.Signature)
	r, s := new(big.Int), new(big.Int)
	if !signature.ReadASN1(&pair, cbasn1.SEQUENCE) || !pair.ReadASN1Integer(r) || !pair.ReadASN1Integer(s) {
		t.Fatal("no signature of ECDSA")
	}
	s.Sub(root.PublicKey.(*ecdsa.PublicKey).Params().N, s)
	other := resigned(t, alice, func(b *cryptobyte.Builder) {
		b.AddUint8(0)
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1BigInt(r); b.AddASN1BigInt(s) })
	})
	dodger, err := cert.Parse(other)
	if err != nil || dodger.Fingerprint() == alice.Fingerprint() {
		t.Fatalf("the other form: %v", err)
	}
	if _, err := cert.Verify(dodger, nil, pki.Anchors(root), cert.Options{}, pki.Now); err != nil {
		t.Fatalf("the other form is not as good, so the test proves nothing: %v", err)
	}
	for name, denied := range map[string]*cert.Certificate{"as it was issued": alice.Certificate, "in the other form": dodger} {
		dir := t.TempDir()
		write(t, dir, map[string]string{"root.pem": pki.PEM(root), "denied": "sha256:" + denied.Fingerprint()})
		a := load(t, dir)
		wantReason(t, a, alice, nil, cert.Revoked)
		wantReason(t, a, &pki.Entity{Certificate: dodger}, nil, cert.Revoked)
		if t.Failed() {
			t.Errorf("denied %s", name)
		}
	}
}

// resigned is a certificate with another BIT STRING for its signature.
func resigned(t testing.TB, e *pki.Entity, bits func(*cryptobyte.Builder)) []byte {
	t.Helper()
	in := cryptobyte.String(e.Raw)
	var outer, tbs, algorithm cryptobyte.String
	if !in.ReadASN1(&outer, cbasn1.SEQUENCE) || !outer.ReadASN1Element(&tbs, cbasn1.SEQUENCE) || !outer.ReadASN1Element(&algorithm, cbasn1.SEQUENCE) {
		t.Fatal("no certificate")
	}
	var b cryptobyte.Builder
	b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddBytes(tbs)
		b.AddBytes(algorithm)
		b.AddASN1(cbasn1.BIT_STRING, bits)
	})
	return b.BytesOrPanic()
}

func TestSignatureWithUnusedBitsIsRefused(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "p256") // its signatures begin with two bits of 0
	alice := pki.User(t, root, aliceURN, "rsa3")
	shifted := new(big.Int).Lsh(new(big.Int).SetBytes(alice.Signature), 1).FillBytes(make([]byte, len(alice.Signature)))
	der := resigned(t, alice, func(b *cryptobyte.Builder) { b.AddUint8(1); b.AddBytes(shifted) })
	x, err := x509.ParseCertificate(der)
	if err != nil || string(x.Signature) != string(alice.Signature) {
		t.Fatalf("the standard library does not shift, so the test proves nothing: %v", err)
	}
	if _, err := cert.Parse(der); err == nil {
		t.Error("one certificate has two fingerprints")
	}
}

func TestNothingStandsBehindASignature(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "rsa1")
	alice := pki.User(t, root, aliceURN, "rsa3")
	for _, extra := range [][]byte{{5, 0}, make([]byte, len(alice.Signature)+1)} {
		var b cryptobyte.Builder
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
			var inside cryptobyte.String
			whole := cryptobyte.String(alice.Raw)
			whole.ReadASN1(&inside, cbasn1.SEQUENCE)
			b.AddBytes(inside)
			b.AddBytes(extra)
		})
		der := b.BytesOrPanic()
		if _, err := x509.ParseCertificate(der); err != nil {
			t.Fatalf("the standard library does not pass it over, so the test proves nothing: %v", err)
		}
		if _, err := cert.Parse(der); err == nil {
			t.Errorf("with %d bytes more one certificate has two fingerprints", len(extra))
		}
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
