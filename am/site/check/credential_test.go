package check

import (
	"bytes"
	"strings"
	"testing"

	"patchbay/credentials/testdata/pki"
)

// TestCredentialReport checks what is reported about credentials: whose rights, over what, until when.
func TestCredentialReport(t *testing.T) {
	const (
		alice, bob, third = "urn:publicid:IDN+fed.example.org+user+alice", "urn:publicid:IDN+fed.example.org+user+bob", "urn:publicid:IDN+fed.example.org+user+third"
		portal            = "urn:publicid:IDN+fed.example.org+tool+portal"
		slice             = "urn:publicid:IDN+fed.example.org+slice+first"
		late, over        = "2099-01-02T03:04:05Z", "2020-01-02T03:04:05Z"
	)
	sa := pki.Authority(t, nil, "urn:publicid:IDN+fed.example.org+authority+sa", "rsa1")
	user := func(urn, key string) []*pki.Entity { return []*pki.Entity{pki.User(t, sa, urn, key)} }
	a, b, e, p, s := user(alice, "rsa2"), user(bob, "rsa3"), user(third, "rsa4"), user(portal, "rsa5"), user(slice, "rsa6")
	level := func(owner, signer []*pki.Entity, expires string) pki.Credential {
		return pki.Credential{Owner: owner, Target: s, Signer: signer, Privileges: []string{"*"}, Expires: expires}
	}
	root := []*pki.Entity{sa}
	good := level(a, root, late).Signed(t)
	for _, c := range []struct {
		name, text string
		code       int
		want       string
	}{
		{"Privileges", good, 0, "ok       x.xml: gives " + alice + " rights over " + slice + " until " + late + "; only the aggregate"},
		{"WhiteSpaceAround", "\ufeff\n" + good + "\n", 0, "ok       x.xml: gives " + alice},
		{"DelegatedTwice", pki.Delegated(t, level(e, b, late), level(b, a, late), level(a, root, late)), 0,
			"gives " + third + " rights over " + slice + ", delegated by " + alice + " to " + bob + ", delegated by " + bob + " to " + third + " until " + late},
		{"DelegatedWhoseParentIsOver", pki.Delegated(t, level(b, a, late), level(a, root, over)), 1, "but ended on " + over + "; have it delegated again"},
		{"SpeaksForInABAC", pki.SpeaksFor{Signer: a, Tool: p[0], Expires: late}.Signed(t), 0,
			"lets the tool with the key " + pki.KeyID(t, p[0]) + " speak for " + alice + " until " + late},
		{"SpeaksForInTheOlderForm", pki.Credential{Type: "speaksfor", Owner: p, Target: a, Signer: a, Expires: late}.Signed(t), 0,
			"lets " + portal + " speak for " + alice + " until " + late},
		{"SpeaksForIsOver", pki.SpeaksFor{Signer: a, Tool: p[0], Expires: over}.Signed(t), 1, "ended on " + over + "; have the user sign a new one"},
		{"OtherABAC", pki.SpeaksFor{Signer: a, Tool: p[0], Role: "friend", Expires: late}.Signed(t), 0, "warning  x.xml: an ABAC credential of " + alice + ` about the role "friend"`},
		{"Over", level(a, root, over).Signed(t), 1, "ended on " + over + "; get a new one from its authority"},
		{"Changed", strings.Replace(good, "<name>*</name>", "<name>x</name>", 1), 1, "get it again, as it was issued"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			k := &Checker{Out: &out, Err: &out}
			k.text(t.Context(), "x.xml", []byte(c.text))
			if !strings.Contains(out.String(), c.want) || (k.wrong > 0) != (c.code > 0) {
				t.Errorf("%d mistakes, want %q in:\n%s", k.wrong, c.want, &out)
			}
		})
	}
}
