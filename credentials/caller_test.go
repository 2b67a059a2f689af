package credentials_test

import (
	"strings"
	"testing"

	"patchbay/credentials"
	"patchbay/credentials/testdata/pki"
)

// TestCallers checks accepted certificates. The refused ones are among the attacks.
func TestCallers(t *testing.T) {
	w := newWorld(t)
	sub := pki.Authority(t, w.sa, "urn:publicid:IDN+example.org:lab+authority+sa", "rsa5")
	carol := pki.User(t, sub, "urn:publicid:IDN+example.org:lab+user+carol", "rsa6")
	for rule, raw := range map[string][][]byte{
		"user":                 pki.Raw(w.alice),
		"user with chain":      pki.Raw(carol, sub, w.sa),
		"junk behind the leaf": append(pki.Raw(w.alice), []byte("junk")),
		"an authority":         pki.Raw(w.sa),
		"a tool":               pki.Raw(w.tool),
	} {
		for range 2 { // new, and remembered
			if c := w.z.Identify(raw, now); c.Err != nil || c.URN.IsZero() || len(c.Chain) == 0 {
				t.Errorf("%s: %s, %v", rule, c.URN, c.Err)
			}
		}
	}
	if c := w.z.Identify(pki.Raw(w.alice), now.AddDate(2, 0, 0)); c.Err == nil || !strings.Contains(c.Err.Error(), "expired") {
		t.Errorf("remembered beyond its time: %v", c.Err)
	}
	if c := w.z.Identify(pki.Raw(carol), now); c.Err == nil || !c.URN.IsZero() || c.Chain != nil {
		t.Errorf("vouched for as %s without the certificate between", c.URN)
	}
	_, err := w.z.Authorize(w.z.Identify(pki.Raw(w.alice), now), nil, "", credentials.RightAllocate, now.AddDate(2, 0, 0))
	if err == nil || !strings.Contains(err.Error(), "your certificate, or one above it, expired") {
		t.Errorf("a caller whose certificate has expired since: %v", err)
	}
}

func FuzzIdentify(f *testing.F) {
	w := newWorld(f)
	f.Add(w.alice.Raw, w.sa.Raw)
	f.Add([]byte{}, []byte{0x30, 0x80})
	f.Fuzz(func(t *testing.T, leaf, other []byte) {
		c := w.z.Identify([][]byte{leaf, other}, now)
		if (c.Err == nil) == c.URN.IsZero() {
			t.Fatalf("%s, %v", c.URN, c.Err)
		}
	})
}

// TestCallerIsOfOneGeneration checks that a caller who was identified before the anchors changed is
// judged by the new anchors.
func TestCallerIsOfOneGeneration(t *testing.T) {
	w := newWorld(t)
	tools := pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+ca", "rsa5")
	tool := pki.User(t, tools, "urn:publicid:IDN+example.net+tool+portal", "rsa6")
	docs := sfa(pki.SpeaksFor{Signer: []*pki.Entity{w.alice, w.sa}, Tool: tool}.Signed(t), w.sliceCredential().Signed(t))
	ask := func(c credentials.Caller) error {
		_, err := w.z.Authorize(c, docs, aliceURN, credentials.RightAllocate, now)
		return err
	}
	early := w.z.Identify(pki.Raw(tool), now)
	if err := ask(early); err == nil {
		t.Fatal("a tool without an anchor may speak")
	}
	w.z.SetAnchors(pki.Anchors(w.sa, tools))
	if err := ask(early); err != nil {
		t.Errorf("identified before its anchor came: %v", err)
	}
	known := w.caller(t, tool)
	remembered := w.caller(t, tool)
	for range 2 {
		w.z.SetAnchors(pki.Anchors(w.sa))
		for _, c := range []credentials.Caller{early, known, remembered} {
			if err := ask(c); err == nil {
				t.Error("identified before its anchor went, it still speaks")
			}
		}
		w.z.SetAnchors(pki.Anchors(w.sa, tools))
		if err := ask(known); err != nil {
			t.Errorf("its anchor is back: %v", err)
		}
	}
}
