package pki

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha1" // names keys in ABAC
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"testing"
)

// KeyID returns the identifier of e's key in ABAC.
func KeyID(t testing.TB, e *Entity) string {
	t.Helper()
	var bits []byte
	switch k := e.PublicKey.(type) {
	case *rsa.PublicKey:
		bits = x509.MarshalPKCS1PublicKey(k)
	case *ecdsa.PublicKey:
		point, err := k.ECDH()
		if err != nil {
			t.Fatal(err)
		}
		bits = point.Bytes()
	}
	sum := sha1.Sum(bits)
	return hex.EncodeToString(sum[:])
}

// SpeaksFor describes a credential with which the signer lets the tool speak for it. The
// other fields replace parts of the usual credential.
type SpeaksFor struct {
	Signer           []*Entity // the signer with its chain; the key of the first signs
	Tool             *Entity
	Head, Role, Tail string                  // parts of the ABAC rule; Tail is the whole content of <tail>
	Expires          string                  // "" means a day after Now
	Edit             func(doc string) string // changes the document before it is signed
	SHA1             bool
}

// Unsigned returns the document with an empty <signatures/>.
func (s SpeaksFor) Unsigned(t testing.TB) string {
	t.Helper()
	principal := func(id, name string) string {
		return fmt.Sprintf("<ABACprincipal><keyid>%s</keyid><mnemonic>%s</mnemonic></ABACprincipal>", id, name)
	}
	user := KeyID(t, s.Signer[0])
	tail := s.Tail
	if tail == "" {
		tail = principal(KeyID(t, s.Tool), "tool")
	}
	doc := fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<signed-credential xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="http://www.geni.net/resources/credential/2/credential.xsd"><credential xml:id="ref0"><type>abac</type><serial/><owner_gid/><target_gid/><uuid/><expires>%s</expires><abac><rt0><version>1.1</version>
<head>%s<role>%s</role></head>
<tail>%s</tail>
</rt0></abac></credential><signatures/></signed-credential>`,
		withDefault(s.Expires, "2026-11-22T12:00:00Z"), principal(withDefault(s.Head, user), "user"), withDefault(s.Role, "speaks_for_"+user), tail)
	if s.Edit != nil {
		doc = s.Edit(doc)
	}
	return doc
}

// Signed returns the document with its signature.
func (s SpeaksFor) Signed(t testing.TB) string {
	t.Helper()
	return Sign(t, s.Unsigned(t), "ref0", s.SHA1, s.Signer...)
}
