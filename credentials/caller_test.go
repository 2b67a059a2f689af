package credentials_test

import (
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/credentials"
	"patchbay/credentials/testdata/pki"
)

// TestCallers is #32, and #25 where it concerns certificates.
func TestCallers(t *testing.T) {
	w := newWorld(t)
	stranger := pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+sa", "rsa5")
	issue := func(s pki.Subject) [][]byte { s.Key = "rsa2"; return pki.Raw(pki.Issue(t, w.sa, s)) }
	sub := pki.Authority(t, w.sa, "urn:publicid:IDN+example.org:lab+authority+sa", "rsa5")
	carol := pki.User(t, sub, "urn:publicid:IDN+example.org:lab+user+carol", "rsa6")
	var many [][]byte
	for range 11 {
		many = append(many, w.alice.Raw)
	}
	for _, tt := range []struct {
		rule string
		raw  [][]byte
		want am.Detail // 0: accepted
	}{
		{"user", pki.Raw(w.alice), 0},
		{"user with chain", pki.Raw(carol, sub, w.sa), 0},
		{"junk behind the leaf", append(pki.Raw(w.alice), []byte("junk")), 0},
		{"the intermediate left out", pki.Raw(carol), am.CredentialUntrusted},
		{"nothing", nil, am.CredentialInvalid},
		{"junk", [][]byte{[]byte("junk")}, am.CredentialInvalid},
		{"empty", [][]byte{{}}, am.CredentialInvalid},
		{"eleven certificates", many, am.CredentialInvalid},
		{"too large", [][]byte{w.alice.Raw, make([]byte, 64<<10)}, am.CredentialInvalid},
		{"no URN", issue(pki.Subject{URIs: []string{"urn:uuid:4210b70b-0ee9-4e70-9c6c-8a6326b541a7"}}), am.CredentialInvalid},
		{"two URNs", issue(pki.Subject{URIs: []string{aliceURN, bobURN}}), am.CredentialInvalid},
		{"URN in the CN only", issue(pki.Subject{CN: aliceURN}), am.CredentialInvalid},
		{"a slice", pki.Raw(w.slice), am.CredentialInvalid},
		{"a node", issue(pki.Subject{URIs: []string{"urn:publicid:IDN+example.org+node+pc1"}}), am.CredentialInvalid},
		{"an authority", pki.Raw(w.sa), 0},
		{"a tool", issue(pki.Subject{URIs: []string{toolURN}}), 0},
		{"a tool of a stranger", pki.Raw(pki.User(t, stranger, toolURN, "rsa6"), stranger), am.CredentialUntrusted},
		{"outside the namespace of its root", issue(pki.Subject{URIs: []string{"urn:publicid:IDN+example.net+user+alice"}}), am.CredentialUntrusted},
		{"untrusted root", pki.Raw(pki.User(t, stranger, "urn:publicid:IDN+example.net+user+eve", "rsa6"), stranger), am.CredentialUntrusted},
		{"issued by a user", pki.Raw(pki.User(t, w.alice, bobURN, "rsa6"), w.alice), am.CredentialUntrusted},
		{"self-signed", pki.Raw(pki.User(t, nil, aliceURN, "rsa6")), am.CredentialUntrusted},
		{"expired", issue(pki.Subject{URIs: []string{aliceURN}, From: now.Add(-time.Hour), To: now.Add(-time.Minute)}), am.CredentialExpired},
		{"not yet valid", issue(pki.Subject{URIs: []string{aliceURN}, From: now.Add(time.Hour)}), am.CredentialExpired},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			for range 2 { // new, and remembered
				c := w.z.Identify(tt.raw, now)
				if tt.want == 0 {
					if c.Err != nil || c.URN.IsZero() || len(c.Chain) == 0 {
						t.Fatalf("%s, %v", c.URN, c.Err)
					}
					continue
				}
				if c.Err == nil || !c.URN.IsZero() || c.Chain != nil {
					t.Fatalf("vouched for as %s", c.URN)
				}
				_, err := w.z.Authorize(c, sfa(w.sliceCredential().Signed(t)), "", credentials.RightListResources, now)
				if got := detail(t, err); got != tt.want {
					t.Errorf("detail %d, want %d: %v", got, tt.want, err)
				}
			}
		})
	}
	if c := w.z.Identify(pki.Raw(w.alice), now.AddDate(2, 0, 0)); c.Err == nil || !strings.Contains(c.Err.Error(), "expired") {
		t.Errorf("remembered beyond its time: %v", c.Err)
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

// TestCallerIsOfOneGeneration: who was identified before the anchors changed is
// judged by the new ones.
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
		t.Fatal("a tool of nobody speaks")
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

func BenchmarkIdentify(b *testing.B) {
	w := newWorld(b)
	raw := pki.Raw(w.alice, w.sa)
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			z := credentials.New(pki.Anchors(w.sa), credentials.Config{})
			if c := z.Identify(raw, now); c.Err != nil {
				b.Fatal(c.Err)
			}
		}
	})
	b.Run("remembered", func(b *testing.B) {
		for b.Loop() {
			if c := w.z.Identify(raw, now); c.Err != nil {
				b.Fatal(c.Err)
			}
		}
	})
}
