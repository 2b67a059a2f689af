package credentials_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

// TestMixedCredentialsGiveNoMoreRights presents lists of credentials of several owners,
// and compares each answer with a simple model.
func TestMixedCredentialsGiveNoMoreRights(t *testing.T) {
	w := newWorld(t)
	tool2 := pki.User(t, w.sa, "urn:publicid:IDN+example.org+tool+other", "rsa5")
	userTool := pki.User(t, w.sa, "urn:publicid:IDN+example.org+user+portal", "p256")
	sliceOf := func(owner, slice *pki.Entity) pki.Credential {
		c := w.sliceCredential()
		c.Owner, c.Target = []*pki.Entity{owner}, []*pki.Entity{slice, w.sa}
		return c
	}
	handOn := func(from, to, slice *pki.Entity) string {
		outer := sliceOf(to, slice)
		outer.Signer = []*pki.Entity{from, w.sa}
		return pki.Delegated(t, outer, sliceOf(from, slice))
	}
	old := func(user, tool *pki.Entity) string {
		return pki.Credential{Owner: []*pki.Entity{tool}, Target: []*pki.Entity{user}, Signer: []*pki.Entity{user, w.sa}, Type: "speaksfor", Privileges: []string{"*"}}.Signed(t)
	}
	type doc struct {
		text         string
		owner, slice *pki.Entity // whose right
		user, tool   *pki.Entity // who lets whom speak
	}
	var docs []doc
	users := []*pki.Entity{w.alice, w.bob}
	for _, u := range users {
		for _, s := range []*pki.Entity{w.slice, w.other} {
			docs = append(docs, doc{text: sliceOf(u, s).Signed(t), owner: u, slice: s})
			for _, to := range []*pki.Entity{w.alice, w.bob, w.tool, tool2} {
				docs = append(docs, doc{text: handOn(u, to, s), owner: to, slice: s})
			}
		}
		for _, tool := range []*pki.Entity{w.tool, tool2, userTool, w.sa, w.alice} {
			docs = append(docs, doc{text: pki.SpeaksFor{Signer: []*pki.Entity{u, w.sa}, Tool: tool}.Signed(t), user: u, tool: tool},
				doc{text: old(u, tool), user: u, tool: tool})
		}
	}
	docs = append(docs, doc{text: "<junk/>"}, doc{text: "x"}, doc{text: strings.Replace(docs[0].text, "<name>info", "<name>*", 1)})
	callers := []*pki.Entity{w.alice, w.bob, w.tool, tool2, userTool, w.sa}
	options := []*pki.Entity{nil, w.alice, w.bob, w.tool, w.sa, userTool}
	r := rand.New(rand.NewPCG(1, 2))
	granted, refused := 0, 0
	for range 3_000 {
		caller, option := callers[r.IntN(len(callers))], options[r.IntN(len(options))]
		var list []string
		var mine []doc
		for range 1 + r.IntN(5) {
			d := docs[r.IntN(len(docs))]
			list, mine = append(list, d.text), append(mine, d)
		}
		said := ""
		if option != nil {
			said = option.URN.String()
		}
		identity := caller
		okay := caller != w.sa
		if option != nil && option.URN != caller.URN {
			okay = false
			if option.URN.Type == "user" && (caller.URN.Type == "tool" || caller.URN.Type == "authority") {
				for _, d := range mine {
					if d.user == option && d.tool == caller {
						okay, identity = true, option
					}
				}
			}
		}
		g, err := w.z.Authorize(w.caller(t, caller), sfa(list...), said, credentials.RightAllocate, now)
		for _, s := range []*pki.Entity{w.slice, w.other} {
			want := false
			for _, d := range mine {
				want = want || okay && d.owner != nil && d.owner.URN == identity.URN && d.slice == s
			}
			got := false
			if err == nil {
				_, e := g.Over(s.URN)
				got = e == nil
			}
			if got != want {
				t.Fatalf("caller %s option %q slice %s: %v, want %v (%v)", caller.Name(), said, s.Name(), got, want, err)
			}
			if got {
				granted++
			} else {
				refused++
			}
		}
		if err == nil && g.Caller() != identity.URN {
			t.Fatalf("the right is %s's instead of %s's", g.Caller(), identity.URN)
		}
	}
	if granted < 100 || refused < 100 {
		t.Errorf("%d granted and %d refused prove little", granted, refused)
	}
}

// TestDeniedPartiesInvalidateTheCache denies each party of each form in turn, by name,
// fingerprint and number, after it was remembered.
func TestDeniedPartiesInvalidateTheCache(t *testing.T) {
	w := newWorld(t)
	carol := pki.User(t, w.sa, "urn:publicid:IDN+example.org+user+carol", "rsa5")
	ma := pki.Authority(t, w.sa, "urn:publicid:IDN+example.org+authority+ma", "rsa5")
	signed := w.sliceCredential()
	signed.Signer = []*pki.Entity{ma, w.sa}
	middle := w.sliceCredential()
	middle.Owner, middle.Signer = []*pki.Entity{w.bob}, []*pki.Entity{w.alice}
	outer := w.sliceCredential()
	outer.Owner, outer.Signer = []*pki.Entity{carol}, []*pki.Entity{w.bob}
	three := pki.Delegated(t, outer, middle, signed)
	for _, form := range []struct {
		name    string
		docs    []credentials.Presented
		caller  *pki.Entity
		option  string
		parties []*pki.Entity
	}{
		{"three levels", sfa(three), carol, "", []*pki.Entity{carol, w.bob, w.alice, ma, w.slice, w.sa}},
		{"abac", sfa(pki.SpeaksFor{Signer: []*pki.Entity{carol}, Tool: w.tool}.Signed(t), three), w.tool, carol.URN.String(), []*pki.Entity{w.tool, carol, w.bob, w.alice, ma, w.slice, w.sa}},
		{"speaksfor", sfa(pki.Credential{Owner: []*pki.Entity{w.tool}, Target: []*pki.Entity{carol}, Signer: []*pki.Entity{carol}, Type: "speaksfor"}.Signed(t), three), w.tool, carol.URN.String(), []*pki.Entity{w.tool, carol, w.bob, w.alice, ma, w.slice, w.sa}},
	} {
		for _, p := range form.parties {
			for _, line := range []string{strings.ToUpper(p.URN.String()[:20]) + p.URN.String()[20:], "sha256:" + p.Fingerprint(), fmt.Sprintf("serial %X of %s", p.SerialNumber, w.sa.URN)} {
				for i, a := range []*cert.Anchors{pki.Anchors(w.sa), pki.Trust(t, map[string]string{"denied": line + "\n"}, w.sa), pki.Anchors(w.sa)} {
					w.z.SetAnchors(a)
					g, err := w.z.Authorize(w.z.Identify(pki.Raw(form.caller), now), form.docs, form.option, credentials.RightAllocate, now)
					if err == nil {
						_, err = g.Over(w.slice.URN)
					}
					if denied := i == 1; denied != (err != nil) {
						t.Errorf("%s: %s denied by %q %v: %v", form.name, p.Name(), line, denied, err)
					}
				}
			}
		}
	}
}

// TestAnchorsChangeDuringCalls is for the race detector. The sets of anchors differ in an anchor
// that no caller uses.
func TestAnchorsChangeDuringCalls(t *testing.T) {
	w := newWorld(t)
	docs := sfa(pki.Delegated(t, w.handedOn(w.bob)...))
	both := []*cert.Anchors{pki.Anchors(w.sa), pki.Anchors(w.sa, pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+sa", "rsa5"))}
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for range 50 {
				c := w.z.Identify(pki.Raw(w.bob), now)
				if _, err := w.z.Authorize(c, docs, "", credentials.RightAllocate, now); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 50 {
		w.z.SetAnchors(cert.NewAnchors(both[i%2].List()...))
	}
	calls.Wait()
}
