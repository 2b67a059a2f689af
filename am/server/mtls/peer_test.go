package mtls_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"errors"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"patchbay/am/server/mtls"
)

var versions = map[string]uint16{"TLS12": tls.VersionTLS12, "TLS13": tls.VersionTLS13}

// The handler gets any chain unchanged, whoever signed it.
func TestHandlerGetsTheChainUnchanged(t *testing.T) {
	s := serve(t, chainHandler, nil)
	for _, c := range []struct {
		name, key string
		chain     []string
	}{
		{"OddAIAOnTheLeafAlone", "rsa", []string{"alice"}},
		{"OddAIAOnTheIntermediateToo", "rsa", []string{"alice", "authority"}},
		{"WithTheRoot", "rsa", []string{"alice", "authority", "root"}},
		{"UnrelatedCertificates", "rsa", []string{"alice", "server", "server"}},
		{"ECDSA", "ec2", []string{"ecdsa", "authority"}},
		{"Ed25519", "ed25519", []string{"ed25519", "authority"}},
		{"SelfSigned", "rsa", []string{"selfsigned"}},
		{"Expired", "rsa", []string{"expired", "root"}},
		{"VersionOne", "rsa", []string{"v1"}},
		{"SHA1Signature", "rsa", []string{"sha1", "authority"}},
	} {
		want := ders(t, c.chain...)
		for name, v := range versions {
			t.Run(c.name+name, func(t *testing.T) {
				body, err := s.get(t, tlsConfig(identity(t, c.key, c.chain...), v))
				if err != nil {
					t.Fatal(err)
				}
				got, err := parseChain(body)
				if err != nil || !sameChain(got, want) {
					t.Errorf("got %d certificates (%v), want the %d sent", len(got), err, len(want))
				}
			})
		}
		t.Run(c.name+"OpenSSL", func(t *testing.T) {
			out, page := s.sClient(t, presenting(t, c.key, c.chain...)...)
			got, err := parseChain(page)
			if err != nil || !sameChain(got, want) {
				t.Errorf("got %d certificates (%v), want the %d sent\n%s", len(got), err, len(want), out)
			}
		})
	}
}

func TestNoCertificateIsRefusedWithAnAlert(t *testing.T) {
	for name, want := range map[string]string{"TLS12": "handshake failure", "TLS13": "certificate required"} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, chainHandler, nil)
			_, err := s.get(t, tlsConfig(nil, versions[name]))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the client saw %v, want an alert %q", err, want)
			}
			if e, ok := errors.AsType[*mtls.Error](s.lastFailure(t)); !ok || e.Op != "handshake" || !strings.Contains(e.Reason, "did not return a certificate") {
				t.Errorf("the operator saw %v", s.lastFailure(t))
			}
		})
	}
}

func TestStolenCertificateWithoutItsKeyIsRefused(t *testing.T) {
	s := serve(t, chainHandler, func(c *mtls.Config, _ *http.Server) { c.SHA1Handshakes = true })
	for name, v := range versions {
		for _, c := range []struct{ name, key, cert string }{
			{"RSA", "rsa2", "alice"}, {"ECDSA", "ec", "ecdsa"}, {"OfAnotherKind", "ec2", "alice"}, {"Weak", "rsa", "weak"},
		} {
			t.Run(name+c.name, func(t *testing.T) {
				body, err := s.get(t, tlsConfig(identity(t, c.key, c.cert, "authority"), v))
				if err == nil {
					t.Fatalf("served: %q", body)
				}
				if !strings.Contains(err.Error(), "tls: ") {
					t.Errorf("the client saw no alert but: %v", err)
				}
			})
		}
	}
}

func TestKeysOfTheClient(t *testing.T) {
	plain, legacy := serve(t, chainHandler, nil), serve(t, chainHandler, func(c *mtls.Config, _ *http.Server) { c.SHA1Handshakes = true })

	for _, c := range []struct {
		name, key, cert string
		plain, legacy   string // why it is refused, if it is
	}{
		{"RSA2048", "rsa", "alice", "", ""},
		{"PSS", "pss", "pss", "", ""},
		{"SHA1Chain", "rsa", "sha1", "", ""},
		{"RSA1024WithSHA1Chain", "rsa1024", "weak", "", ""},
		{"RSAWithALongExponent", "longexp", "longexp", "too large: modulus 2048 bits, exponent 71 bits", "too large"},
	} {
		for _, v := range []struct {
			name string
			site *site
			want string
		}{{"", plain, c.plain}, {"Legacy", legacy, c.legacy}} {
			t.Run(c.name+v.name, func(t *testing.T) {
				v.site.forget()
				out, page := v.site.sClient(t, presenting(t, c.key, c.cert, "authority")...)
				if (page != nil) != (v.want == "") {
					t.Fatalf("served: %t, want refusal %q\n%s", page != nil, v.want, out)
				}
				if v.want == "" {
					return
				}
				if !strings.Contains(out, "alert") {
					t.Errorf("no alert:\n%s", out)
				}
				if err := v.site.lastFailure(t); err == nil || !strings.Contains(err.Error(), v.want) {
					t.Errorf("the operator saw %v, want %q", err, v.want)
				}
			})
		}
	}

	// Unreasonable keys are refused before a signature is verified, also with the switch on.
	for _, c := range []struct {
		name        string
		der         []byte
		want, alert string
	}{
		{"RSA512", ders(t, "feeble")[0], "the client's key is too weak: 512 bits", "bad certificate"},
		{"RSAOf8193Bits", forged(t, &rsa.PublicKey{N: bigOdd(t, 8193), E: 65537}, 0), "too large: modulus 8193 bits", "unsupported certificate"},
		{"RSAOf16384Bits", forged(t, &rsa.PublicKey{N: bigOdd(t, 16384), E: 65537}, 0), "too large: modulus 16384 bits", "unsupported certificate"},
		{"X25519", ders(t, "x25519")[0], "cannot sign here", "unsupported certificate"},
	} {
		for name, v := range versions {
			t.Run(c.name+name, func(t *testing.T) {
				legacy.forget()
				id := &tls.Certificate{Certificate: [][]byte{c.der}, PrivateKey: identity(t, "rsa", "alice").PrivateKey}
				if _, err := legacy.get(t, tlsConfig(id, v)); err == nil || !strings.Contains(err.Error(), c.alert) {
					t.Errorf("the client saw %v, want an alert %q", err, c.alert)
				}
				if err := legacy.lastFailure(t); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the operator saw %v, want %q", err, c.want)
				}
			})
		}
	}
}

func bigOdd(t testing.TB, bits int) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), uint(bits-1)))
	if err != nil {
		t.Fatal(err)
	}
	return n.SetBit(n.SetBit(n, bits-1, 1), 0, 1)
}

func TestLongChains(t *testing.T) {
	s := serve(t, chainHandler, nil)
	alice := identity(t, "rsa", "alice", "authority")
	padding := func(certs, bytes int) [][]byte {
		var list [][]byte
		for range certs {
			list = append(list, forged(t, alice.PrivateKey.(*rsa.PrivateKey).Public(), bytes))
		}
		return list
	}
	for _, c := range []struct {
		name   string
		others [][]byte
		want   string // in the error for the operator
	}{
		{"TenCertificates", padding(9, 0), ""},
		{"ElevenCertificates", padding(10, 0), "the client sent 11 certificates, more than 10"},
		{"ManyCertificates", padding(100, 0), "the client sent 101 certificates, more than 10"},
		{"Below64KiB", padding(7, 8200), ""},
		{"Beyond64KiB", padding(8, 8200), "excessive message size"},
		{"OneOf70KB", padding(1, 70_000), "excessive message size"},
	} {
		for name, v := range versions {
			t.Run(c.name+name, func(t *testing.T) {
				s.forget()
				chain := append([][]byte{alice.Certificate[0]}, c.others...)
				body, err := s.get(t, tlsConfig(&tls.Certificate{Certificate: chain, PrivateKey: alice.PrivateKey}, v))
				if c.want == "" {
					if got, e := parseChain(body); err != nil || e != nil || !sameChain(got, chain) {
						t.Fatalf("%v, %v: got %d certificates, want all %d", err, e, len(got), len(chain))
					}
					return
				}
				if err == nil {
					t.Fatal("served")
				}
				if err := s.lastFailure(t); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the operator saw %v, want %q", err, c.want)
				}
			})
		}
	}
}

// forget drops the failures seen so far.
func (s *site) forget() {
	s.mu.Lock()
	s.failures = nil
	s.mu.Unlock()
}
