package credentials_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/credentials"
	"patchbay/credentials/testdata/pki"
)

// handedOn is alice's credential for the slice s1, delegated to an entity.
func (w *world) handedOn(to *pki.Entity) []pki.Credential {
	outer := w.sliceCredential()
	outer.Owner, outer.Signer, outer.CanDelegate = []*pki.Entity{to, w.sa}, []*pki.Entity{w.alice, w.sa}, "false"
	return []pki.Credential{outer, w.sliceCredential()}
}

// TestDelegation checks permitted delegations. The attacks have the others.
func TestDelegation(t *testing.T) {
	w := newWorld(t)
	carol := pki.User(t, w.sa, "urn:publicid:IDN+example.org+user+carol", "rsa5")
	lab := pki.Authority(t, w.sa, "urn:publicid:IDN+example.org:lab+authority+sa", "rsa5")
	type (
		list  = []*pki.Entity
		chain = []pki.Credential // outermost first
	)
	third := func(c chain) chain { // carol's, from bob's
		c[0].CanDelegate = "true"
		outer := w.sliceCredential()
		outer.Owner, outer.Signer = list{carol, w.sa}, list{w.bob, w.sa}
		return slices.Insert(c, 0, outer)
	}
	for _, tt := range []struct {
		rule   string
		change func(c chain) chain
		caller *pki.Entity
	}{
		{rule: "bob's, from alice's", caller: w.bob},
		{rule: "three levels", caller: carol, change: third},
		{rule: "a tool's", caller: w.tool, change: func(c chain) chain { c[0].Owner = list{w.tool}; return c }},
		{rule: "fewer privileges", caller: w.bob, change: func(c chain) chain { c[0].Privileges = []string{"CONTROL"}; return c }},
		{rule: "any privilege from *", caller: w.bob, change: func(c chain) chain { c[1].Privileges = []string{"*"}; return c }},
		{rule: "* from *", caller: w.bob, change: func(c chain) chain { c[0].Privileges, c[1].Privileges = []string{"*"}, []string{"*"}; return c }},
		{rule: "to be delegated further", caller: w.bob, change: func(c chain) chain { c[0].CanDelegate = "1"; return c }},
		{rule: "back to its owner", caller: w.alice, change: func(c chain) chain {
			c[0].CanDelegate = "true"
			outer := w.sliceCredential()
			outer.Signer = list{w.bob, w.sa}
			return slices.Insert(c, 0, outer)
		}},
		{rule: "expires with its parent", caller: w.bob, change: func(c chain) chain { c[0].Expires = "2026-11-22T12:00:00Z"; return c }},
		{rule: "renewed certificate of the same key", caller: w.bob, change: func(c chain) chain { c[0].Signer = list{pki.User(t, w.sa, aliceURN, "rsa2")}; return c }},
		{rule: "five levels", caller: w.alice, change: func(chain) chain { return w.loop(5) }},
		{rule: "all of it the sub-authority's user", caller: w.bob, change: func(c chain) chain {
			a := pki.User(t, lab, labAlice, "rsa2")
			c[1].Owner, c[0].Signer = list{a, lab}, list{a, lab}
			return c
		}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			levels := w.handedOn(w.bob)
			if tt.change != nil {
				levels = tt.change(levels)
			}
			doc := pki.Delegated(t, levels...)
			for range 2 { // new, and remembered
				g, err := w.z.Authorize(w.caller(t, tt.caller), sfa(doc), "", credentials.RightAllocate, now)
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				if until, err := g.Over(w.slice.URN); err != nil || !until.Equal(now.Add(24*time.Hour)) || g.Caller() != tt.caller.URN || !g.Speaker().IsZero() {
					t.Errorf("%s until %v, %v", g.Caller(), until, err)
				}
				if _, err := g.Over(w.other.URN); err == nil {
					t.Error("a right over another slice")
				}
			}
		})
	}
}

// An ABAC credential has no owner or target to compare. The types are checked before any
// certificate, so its signer need not be trusted.
func TestParentOfTheTypeABAC(t *testing.T) {
	w := newWorld(t)
	eve := pki.User(t, pki.Authority(t, nil, "urn:publicid:IDN+example.com+authority+sa", "rsa5"), aliceURN, "rsa4")
	own := []*pki.Entity{eve}
	level := func(id, parent string) string {
		c := pki.Credential{Owner: own, Target: own, Signer: own, Privileges: []string{"*"}, Parent: parent}
		return strings.Replace(c.Unsigned(), `"ref0"`, `"`+id+`"`, 1)
	}
	inner := func(doc, id string) string {
		return strings.Replace(intermediates(doc, "<credential ", "</credential>"), `"ref0"`, `"`+id+`"`, 1)
	}
	abac := pki.SpeaksFor{Signer: own, Tool: eve}.Unsigned(t)
	middle := level("ref1", inner(abac, "ref2"))
	middle = middle[strings.Index(middle, "<credential "):strings.LastIndex(middle, "<signatures")]
	for want, doc := range map[string]string{
		"it is of the type privilege, but its parent of the type abac":             pki.Sign(t, pki.Sign(t, level("ref0", inner(abac, "ref1")), "ref0", false, eve), "ref1", false, eve),
		"its parent: it is of the type privilege, but its parent of the type abac": pki.Sign(t, pki.Sign(t, pki.Sign(t, level("ref0", middle), "ref0", false, eve), "ref1", false, eve), "ref2", false, eve),
	} {
		if _, err := w.z.Authorize(w.caller(t, w.bob), sfa(doc), "", credentials.RightAllocate, now); err == nil || !strings.Contains(err.Error(), "credential 1: "+want) {
			t.Errorf("%v; want %q", err, want)
		}
		if _, err := w.z.Authorize(w.z.Identify(pki.Raw(eve), now), sfa(doc), "", credentials.RightAllocate, now); err == nil {
			t.Error("a stranger is accepted")
		}
	}
}

// loop is a credential of n levels, delegated between alice and bob in turn and finally to alice.
func (w *world) loop(n int) []pki.Credential {
	levels := make([]pki.Credential, n)
	who := []*pki.Entity{w.alice, w.bob}
	for i := range levels {
		c := w.sliceCredential()
		c.Owner, c.Signer = []*pki.Entity{who[i%2]}, []*pki.Entity{who[(i+1)%2], w.sa}
		if i == n-1 {
			c.Signer = []*pki.Entity{w.sa}
		}
		levels[i] = c
	}
	return levels
}

// TestIssuersOfADelegationAreFoundAtEachLevel puts the member authority's certificate in each
// possible place.
func TestIssuersOfADelegationAreFoundAtEachLevel(t *testing.T) {
	type list = []*pki.Entity
	for i := range 12 {
		w := newDeepWorld(t)
		bob := pki.User(t, w.ma, []string{bobURN, toolURN}[i/6], "rsa4")
		inner := pki.Credential{Owner: list{w.alice}, Target: list{w.slice}, Signer: list{w.sa}, Privileges: []string{"*"}}
		outer := pki.Credential{Owner: list{bob}, Target: list{w.slice}, Signer: list{w.alice}, Privileges: []string{"*"}}
		caller := list{bob}
		place := []*list{&inner.Owner, &outer.Owner, &outer.Signer, &inner.Signer, &caller, new(list)}[i%6]
		*place = append(*place, w.ma)
		doc := pki.Delegated(t, outer, inner)
		_, err := w.z.Authorize(w.z.Identify(pki.Raw(caller...), now), sfa(doc), "", credentials.RightAllocate, now)
		if nowhere := i%6 == 5; nowhere != (err != nil) {
			t.Errorf("place %d: %v", i, err)
		}
	}
}
