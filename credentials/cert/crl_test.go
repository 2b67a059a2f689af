package cert_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"

	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

// crl describes a revocation list; the zero value is valid.
type crl struct {
	revoke     []*big.Int
	version    int64 // 1 is version 2; -1 leaves it out
	from, to   time.Time
	hash       crypto.Hash
	extensions []pkix.Extension
	entry      []pkix.Extension // of each entry
	key        crypto.Signer    // instead of the issuer's own
}

func serials(list ...*pki.Entity) (n []*big.Int) {
	for _, e := range list {
		n = append(n, e.SerialNumber)
	}
	return n
}

var crlAlgorithms = map[crypto.Hash][2]asn1.ObjectIdentifier{
	crypto.SHA1:   {{1, 2, 840, 113549, 1, 1, 5}, {1, 2, 840, 10045, 4, 1}},
	crypto.SHA256: {{1, 2, 840, 113549, 1, 1, 11}, {1, 2, 840, 10045, 4, 3, 2}},
	crypto.SHA384: {{1, 2, 840, 113549, 1, 1, 12}, {1, 2, 840, 10045, 4, 3, 3}},
	crypto.SHA512: {{1, 2, 840, 113549, 1, 1, 13}, {1, 2, 840, 10045, 4, 3, 4}},
	crypto.MD5:    {{1, 2, 840, 113549, 1, 1, 4}, {}},
}

// der signs the list as the issuer.
func (l crl) der(t testing.TB, issuer *pki.Entity) []byte {
	t.Helper()
	if l.key == nil {
		l.key = issuer.Key
	}
	if l.hash == 0 {
		l.hash = crypto.SHA256
	}
	if l.version == 0 {
		l.version = 1
	}
	if l.from.IsZero() {
		l.from = pki.Now.Add(-time.Hour)
	}
	if l.to.IsZero() {
		l.to = pki.Now.AddDate(0, 1, 0)
	}
	_, ec := l.key.(*ecdsa.PrivateKey)
	algorithm := func(b *cryptobyte.Builder) {
		oid := crlAlgorithms[l.hash][0]
		if ec {
			oid = crlAlgorithms[l.hash][1]
		}
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1ObjectIdentifier(oid)
			if !ec {
				b.AddASN1NULL()
			}
		})
	}
	extensions := func(list []pkix.Extension) func(*cryptobyte.Builder) {
		return func(b *cryptobyte.Builder) {
			for _, e := range list {
				b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
					b.AddASN1ObjectIdentifier(e.Id)
					if e.Critical {
						b.AddASN1Boolean(true)
					}
					b.AddASN1OctetString(e.Value)
				})
			}
		}
	}
	var tbs cryptobyte.Builder
	tbs.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
		if l.version >= 0 {
			b.AddASN1Int64(l.version)
		}
		algorithm(b)
		b.AddBytes(issuer.RawSubject)
		b.AddASN1UTCTime(l.from)
		b.AddASN1UTCTime(l.to)
		if len(l.revoke) > 0 {
			b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
				var rest cryptobyte.Builder // of every entry the same
				rest.AddASN1UTCTime(l.from)
				if len(l.entry) > 0 {
					rest.AddASN1(cbasn1.SEQUENCE, extensions(l.entry))
				}
				behind := rest.BytesOrPanic()
				var all []byte
				for _, n := range l.revoke {
					serial, err := asn1.Marshal(n)
					if err != nil || len(serial)+len(behind) > 127 {
						t.Fatalf("an entry of %d bytes, %v", len(serial)+len(behind), err)
					}
					all = append(append(append(all, 0x30, byte(len(serial)+len(behind))), serial...), behind...)
				}
				b.AddBytes(all)
			})
		}
		if len(l.extensions) > 0 {
			b.AddASN1(cbasn1.Tag(0).Constructed().ContextSpecific(), func(b *cryptobyte.Builder) {
				b.AddASN1(cbasn1.SEQUENCE, extensions(l.extensions))
			})
		}
	})
	signed := tbs.BytesOrPanic()
	digest := crypto.SHA256
	if l.hash != crypto.MD5 {
		digest = l.hash
	}
	h := digest.New()
	h.Write(signed)
	signature, err := l.key.Sign(rand.Reader, h.Sum(nil), digest)
	if err != nil {
		t.Fatal(err)
	}
	var whole cryptobyte.Builder
	whole.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddBytes(signed)
		algorithm(b)
		b.AddASN1BitString(signature)
	})
	return whole.BytesOrPanic()
}

func (l crl) pem(t testing.TB, issuer *pki.Entity) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: l.der(t, issuer)}))
}

func extension(critical bool, last int, value ...byte) pkix.Extension {
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, last}, Critical: critical, Value: value}
}

func TestCRLForms(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "p256")
	one := []*big.Int{big.NewInt(1000)}
	for _, tt := range []struct {
		rule string
		list crl
		want string // "" accepted, else part of the error
	}{
		{"version 2", crl{revoke: one}, ""},
		{"version 1", crl{revoke: one, version: -1}, ""},
		{"version 3", crl{revoke: one, version: 2}, "version 3"},
		{"extensions in version 1", crl{revoke: one, version: -1, extensions: []pkix.Extension{extension(false, 20, 2, 1, 1)}}, "cannot be read"},
		{"empty", crl{}, ""},
		{"SHA-1", crl{revoke: one, hash: crypto.SHA1}, ""},
		{"SHA-384", crl{revoke: one, hash: crypto.SHA384}, ""},
		{"SHA-512", crl{revoke: one, hash: crypto.SHA512}, ""},
		{"MD5", crl{revoke: one, hash: crypto.MD5, key: pki.Key(t, "rsa1")}, "is not accepted"},
		{"number and key identifier", crl{revoke: one, extensions: []pkix.Extension{extension(true, 20, 2, 1, 1), extension(false, 35, 0x30, 0)}}, ""},
		{"unknown extension", crl{revoke: one, extensions: []pkix.Extension{extension(false, 99, 5, 0)}}, ""},
		{"unknown critical extension", crl{revoke: one, extensions: []pkix.Extension{extension(true, 99, 5, 0)}}, "2.5.29.99"},
		{"delta", crl{revoke: one, extensions: []pkix.Extension{extension(true, 27, 2, 1, 1)}}, "delta"},
		{"delta, not critical", crl{revoke: one, extensions: []pkix.Extension{extension(false, 27, 2, 1, 1)}}, "delta"},
		{"indirect, or in part", crl{revoke: one, extensions: []pkix.Extension{extension(true, 28, 0x30, 3, 0x84, 1, 0xff)}}, "distribution point"},
		{"reason", crl{revoke: one, entry: []pkix.Extension{extension(false, 21, 10, 1, 1)}}, ""},
		{"reason, critical", crl{revoke: one, entry: []pkix.Extension{extension(true, 21, 10, 1, 6)}}, ""},
		{"revocation taken back", crl{revoke: one, entry: []pkix.Extension{extension(false, 21, 10, 1, 8)}}, "withdraws the revocation of 03E8"},
		{"malformed reason", crl{revoke: one, entry: []pkix.Extension{extension(false, 21, 2, 1, 8)}}, "cannot be read"},
		{"date of invalidity", crl{revoke: one, entry: []pkix.Extension{extension(false, 24, 5, 0)}}, ""},
		{"entry of another issuer", crl{revoke: one, entry: []pkix.Extension{extension(true, 29, 0x30, 0)}}, "indirect"},
		{"unknown critical extension of an entry", crl{revoke: one, entry: []pkix.Extension{extension(true, 99, 5, 0)}}, "entry 03E8 has a critical extension 2.5.29.99"},
		{"negative number", crl{revoke: []*big.Int{big.NewInt(-5)}}, ""},
		{"serial number beyond all measure", crl{revoke: []*big.Int{new(big.Int).Lsh(one[0], 8*64)}}, "serial number of"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			l, err := cert.ParseRevocationList(tt.list.der(t, root))
			switch {
			case tt.want == "" && err != nil:
				t.Fatal(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Fatalf("%v, want %q", err, tt.want)
			case tt.want == "" && (!l.ThisUpdate.Equal(pki.Now.Add(-time.Hour)) || !l.NextUpdate.Equal(pki.Now.AddDate(0, 1, 0)) || l.Issuer() != "CN="+strings.ReplaceAll(saURN, "+", `\+`)):
				t.Errorf("dates or issuer are wrong: %v, %v, %s", l.ThisUpdate, l.NextUpdate, l.Issuer())
			}
		})
	}
}

func TestCRLOfOtherShape(t *testing.T) {
	root := pki.Authority(t, nil, saURN, "p256")
	good := crl{revoke: []*big.Int{big.NewInt(1)}}.der(t, root)
	for i := range good {
		if _, err := cert.ParseRevocationList(good[:i]); err == nil {
			t.Errorf("the first %d of %d bytes are a CRL", i, len(good))
		}
	}
	otherAlgorithm := bytes.Clone(good) // outside, where it is not signed: SHA-384
	otherAlgorithm[bytes.LastIndex(good, []byte{0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2})+7] = 3
	for rule, der := range map[string][]byte{
		"two algorithms":      otherAlgorithm,
		"something behind it": append(bytes.Clone(good), 0), "nothing": nil, "a certificate": root.Raw, "too large": make([]byte, 16<<20+1),
	} {
		if _, err := cert.ParseRevocationList(der); err == nil {
			t.Errorf("%s: accepted", rule)
		}
	}
}

func FuzzParseRevocationList(f *testing.F) {
	root := pki.Authority(f, nil, saURN, "p256")
	f.Add(crl{revoke: []*big.Int{big.NewInt(1), big.NewInt(300)}, entry: []pkix.Extension{extension(false, 21, 10, 1, 1)}}.der(f, root))
	f.Add(crl{version: -1}.der(f, root))
	f.Add(crl{extensions: []pkix.Extension{extension(true, 20, 2, 1, 1)}}.der(f, root))
	f.Fuzz(func(t *testing.T, der []byte) {
		l, err := cert.ParseRevocationList(der)
		if err == nil && (l.Len() > len(der)/10 || strings.ContainsAny(l.Issuer(), "\r\n")) {
			t.Fatalf("%d entries in %d bytes, issuer %q", l.Len(), len(der), l.Issuer())
		}
	})
}
