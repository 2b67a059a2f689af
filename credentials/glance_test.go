package credentials_test

import (
	"testing"
	"time"

	"patchbay/am/urn"
	"patchbay/credentials/testdata/pki"
)

// TestIdentifyCheaplyKnowsEarlierCallers checks that IdentifyCheaply knows callers with ordinary chains before any
// call, and callers with expensive chains only after Identify.
func TestIdentifyCheaplyKnowsEarlierCallers(t *testing.T) {
	w := newWorld(t)
	sub := pki.Authority(t, w.sa, "urn:publicid:IDN+example.org:lab+authority+sa", "rsa5")
	carol := pki.User(t, sub, "urn:publicid:IDN+example.org:lab+user+carol", "rsa6")
	for name, raw := range map[string][][]byte{
		"a user": pki.Raw(w.alice), "a user with a chain": pki.Raw(carol, sub, w.sa), "a tool": pki.Raw(w.tool),
	} {
		if u, ok := w.z.IdentifyCheaply(raw, now); !ok || !u.Equal(w.z.Identify(raw, now).URN) {
			t.Errorf("%s: %s, %t", name, u, ok)
		}
	}

	dear := pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+ca", "p521")
	between := pki.Authority(t, dear, "urn:publicid:IDN+example.net:lab+authority+ca", "p521")
	raw := pki.Raw(pki.User(t, between, "urn:publicid:IDN+example.net:lab+user+dave", "rsa6"), between)
	w.z.SetAnchors(pki.Anchors(w.sa, dear))
	if u, ok := w.z.IdentifyCheaply(raw, now); ok {
		t.Fatalf("%s is identified cheaply: the test proves nothing", u)
	}
	if c := w.z.Identify(raw, now); c.Err != nil {
		t.Errorf("Identify refuses the expensive chain: %v", c.Err)
	}
	if u, ok := w.z.IdentifyCheaply(raw, now); !ok || u.Name != "dave" {
		t.Errorf("not known after Identify: %s, %t", u, ok)
	}
}

// TestIdentifyCheaplyCachesUnknownCallers checks that IdentifyCheaply remembers an unknown caller for a
// minute, and only under the same anchors.
func TestIdentifyCheaplyCachesUnknownCallers(t *testing.T) {
	w := newWorld(t)
	start := w.alice.NotBefore
	if start.Before(w.sa.NotBefore) {
		start = w.sa.NotBefore
	}
	early := start.Add(-5*time.Minute - time.Second) // an issuer's clock may run ahead of ours
	ask := func(after time.Duration) (urn.URN, bool) {
		return w.z.IdentifyCheaply(pki.Raw(w.alice), early.Add(after))
	}
	if u, ok := ask(0); ok {
		t.Fatalf("%s is known before the certificate begins", u)
	}
	if _, ok := ask(59 * time.Second); ok {
		t.Error("verified again within a minute")
	}
	if _, ok := ask(time.Minute); !ok {
		t.Error("not verified again after a minute")
	}

	w = newWorld(t)
	ask(0)
	w.z.SetAnchors(pki.Anchors(w.sa, pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+ca", "rsa5")))
	if _, ok := ask(30 * time.Second); !ok {
		t.Error("still unknown after a change of the anchors")
	}
	if u, ok := w.z.IdentifyCheaply(nil, now); ok {
		t.Errorf("a caller without certificate is %s", u)
	}
}
