package pki

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"patchbay/credentials/cert"
	"patchbay/credentials/dsig"
)

// Credential describes a credential. An empty field means its usual value.
type Credential struct {
	Owner, Target []*Entity // each with its chain
	Signer        []*Entity // the signer with its chain; the key of the first signs
	// OwnerURN and TargetURN are usually the URNs of the certificates.
	OwnerURN, TargetURN string
	Type                string // usually privilege
	Expires             string // usually a day after Now
	Privileges          []string
	CanDelegate         string // usually true
	// Parent is the credential element in <parent>; "" for none.
	Parent string
	ID     string // usually ref0
	// Edit changes the document before it is signed.
	Edit func(doc string) string
	SHA1 bool
}

// withDefault returns s, or otherwise if s is empty.
func withDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Element returns the <credential> without a signature.
func (c Credential) Element() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<credential xml:id="%s"><type>%s</type><serial>8</serial><owner_gid>%s</owner_gid><owner_urn>%s</owner_urn><target_gid>%s</target_gid><target_urn>%s</target_urn><uuid/><expires>%s</expires><privileges>`,
		withDefault(c.ID, "ref0"), withDefault(c.Type, "privilege"), PEM(c.Owner...), withDefault(c.OwnerURN, c.Owner[0].URN.String()),
		PEM(c.Target...), withDefault(c.TargetURN, c.Target[0].URN.String()), withDefault(c.Expires, "2026-11-22T12:00:00Z"))
	for _, p := range c.Privileges {
		fmt.Fprintf(&b, "<privilege><name>%s</name><can_delegate>%s</can_delegate></privilege>", p, withDefault(c.CanDelegate, "true"))
	}
	b.WriteString("</privileges>")
	if c.Parent != "" {
		fmt.Fprintf(&b, "<parent>%s</parent>", c.Parent)
	}
	b.WriteString("</credential>")
	return b.String()
}

// Unsigned returns the document with an empty <signatures/>.
func (c Credential) Unsigned() string {
	doc := `<?xml version="1.0" encoding="utf-8"?>
<signed-credential xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="http://www.planet-lab.org/resources/sfa/credential.xsd">` +
		c.Element() + `<signatures/></signed-credential>`
	if c.Edit != nil {
		doc = c.Edit(doc)
	}
	return doc
}

// Signed returns the document with its signature.
func (c Credential) Signed(t testing.TB) string {
	t.Helper()
	return Sign(t, c.Unsigned(), withDefault(c.ID, "ref0"), c.SHA1, c.Signer...)
}

// Nest makes each credential in levels the parent of the one before it, and returns the
// first, which is the outermost. It sets their ids: the last one gets ref0.
func Nest(levels ...Credential) Credential {
	var c Credential
	for i, level := range slices.Backward(levels) {
		level.ID = fmt.Sprint("ref", len(levels)-1-i)
		if i < len(levels)-1 {
			level.Parent = c.Element()
		}
		c = level
	}
	return c
}

// Delegated returns the document of nested credentials, with a signature for each.
func Delegated(t testing.TB, levels ...Credential) string {
	t.Helper()
	doc := Nest(levels...).Unsigned()
	for i, level := range slices.Backward(levels) {
		doc = Sign(t, doc, fmt.Sprint("ref", len(levels)-1-i), level.SHA1, level.Signer...)
	}
	return doc
}

// Sign returns a document with a signature for the credential of that id.
func Sign(t testing.TB, doc, id string, sha1 bool, signer ...*Entity) string {
	t.Helper()
	var chain []*cert.Certificate
	for _, e := range signer {
		chain = append(chain, e.Certificate)
	}
	signed, err := dsig.Sign([]byte(doc), id, signer[0].Key, chain, dsig.SignOptions{SHA1: sha1})
	if err != nil {
		t.Fatal(err)
	}
	return string(signed)
}
