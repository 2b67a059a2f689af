package credentials_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

// over authorizes alice and asks for the slice s1.
func (w *world) over(t testing.TB, r credentials.Right, docs ...string) (time.Time, error) {
	t.Helper()
	g, err := w.z.Authorize(w.caller(t, w.alice), sfa(docs...), "", r, now)
	if err != nil {
		return time.Time{}, err
	}
	return g.Over(w.slice.URN)
}

func detail(t *testing.T, err error) am.Detail {
	t.Helper()
	e, ok := errors.AsType[*credentials.DeniedError](err)
	if !ok || len(e.Reasons) == 0 {
		t.Fatalf("%v is not a denial with reasons", err)
	}
	if text := e.Error(); strings.ContainsAny(text, "\r\n") || strings.Contains(text, "MII") || len(text) > 2000 {
		t.Errorf("not one readable line: %q", text)
	}
	return e.Detail()
}

func TestPrivilegesByMethod(t *testing.T) {
	w := newWorld(t)
	rights := []credentials.Right{
		credentials.RightDescribe, credentials.RightStatus, credentials.RightAllocate, credentials.RightProvision,
		credentials.RightPerformOperationalAction, credentials.RightRenew, credentials.RightDelete, credentials.RightShutdown,
	}
	read, write, halt := 2, 5, 1 // how many of the rights, in this order
	all := map[string][3]bool{
		"*": {true, true, true}, "embed": {true, true, true}, "control": {true, true, false}, "sa": {true, true, true},
		"pi": {true, true, true}, "authority": {true, true, true}, "INFO": {true, false, false}, "info": {true, false, false},
		"bind": {false, true, false}, "instantiate": {false, true, true}, "refresh": {}, "resolve": {}, "operator": {}, "ma": {}, "no-such": {},
	}
	for privilege, want := range all {
		credential := w.sliceCredential()
		credential.Privileges = []string{privilege}
		doc := credential.Signed(t)
		for i, r := range rights {
			kind := 0
			if i >= read {
				kind = 1
			}
			if i >= read+write {
				kind = 2
			}
			_, err := w.over(t, r, doc)
			if (err == nil) != want[kind] {
				t.Errorf("%q for %s: %v, want allowed %v", privilege, r, err, want[kind])
			}
			if err != nil && detail(t, err) != am.NoDetail {
				t.Errorf("%q for %s: a missing privilege has the detail %d", privilege, r, detail(t, err))
			}
		}
	}
	if len(rights) != read+write+halt || len(rights)+1 != len(credentials.Rights()) {
		t.Error("the test does not know all rights")
	}
}

func TestLatestCredentialCounts(t *testing.T) {
	w := newWorld(t)
	early, late, other := w.sliceCredential(), w.sliceCredential(), w.sliceCredential()
	early.Expires, late.Expires, other.Expires = "2026-11-21T13:00:00Z", "2026-11-25T12:00:00Z", "2026-12-25T12:00:00Z"
	other.Target = []*pki.Entity{w.other, w.sa}
	until, err := w.over(t, credentials.RightRenew, early.Signed(t), "junk", other.Signed(t), late.Signed(t))
	if want := now.AddDate(0, 0, 4); err != nil || !until.Equal(want) {
		t.Errorf("until %v, %v; want %v", until, err, want)
	}
}

// TestRightEndsWithThePartThatEndsFirst shortens each credential and certificate that a right
// depends on. Afterwards it is refused, also if it is cached.
func TestRightEndsWithThePartThatEndsFirst(t *testing.T) {
	w := newWorld(t)
	soon := now.Add(2 * time.Hour)
	const at = "2026-11-21T14:00:00Z"
	short := func(uri, key string) []*pki.Entity {
		return []*pki.Entity{pki.Issue(t, w.sa, pki.Subject{URIs: []string{uri}, Key: key, CA: uri == saURN, To: soon}), w.sa}
	}
	type parts struct {
		slice  pki.Credential
		levels []pki.Credential
		abac   pki.SpeaksFor
		old    pki.Credential
		caller *pki.Entity
	}
	for part, change := range map[string]func(p *parts){
		"slice, its owner":              func(p *parts) { p.slice.Owner = short(aliceURN, "rsa2") },
		"slice, its target":             func(p *parts) { p.slice.Target = short(sliceURN, "rsa3") },
		"slice, its signer":             func(p *parts) { p.slice.Signer = short(saURN, "rsa5") },
		"slice, the caller":             func(p *parts) { p.caller = short(aliceURN, "rsa6")[0] },
		"delegated, the child":          func(p *parts) { p.levels[0].Expires = at },
		"delegated, the child's owner":  func(p *parts) { p.levels[0].Owner = short(bobURN, "rsa4") },
		"delegated, the child's signer": func(p *parts) { p.levels[0].Signer = short(aliceURN, "rsa2") },
		"delegated, the parent's owner": func(p *parts) { p.levels[1].Owner = short(aliceURN, "rsa2") },
		"delegated, the root's signer":  func(p *parts) { p.levels[1].Signer = short(saURN, "rsa5") },
		"delegated, the target": func(p *parts) {
			p.levels[1].Target = short(sliceURN, "rsa3")
			p.levels[0].Target = p.levels[1].Target[:1]
		},
		"abac, the word":        func(p *parts) { p.abac.Expires = at },
		"abac, its signer":      func(p *parts) { p.abac.Signer = short(aliceURN, "rsa2") },
		"abac, the tool":        func(p *parts) { p.caller = short(toolURN, "rsa6")[0] },
		"abac, the slice":       func(p *parts) { p.slice.Expires = at },
		"speaksfor, the word":   func(p *parts) { p.old.Expires = at },
		"speaksfor, its signer": func(p *parts) { p.old.Signer = short(aliceURN, "rsa2") },
		"speaksfor, the tool":   func(p *parts) { p.caller = short(toolURN, "rsa6")[0] },
	} {
		form, _, _ := strings.Cut(part, ",")
		callers := map[string]*pki.Entity{"slice": w.alice, "delegated": w.bob, "abac": w.tool, "speaksfor": w.tool}
		p := parts{w.sliceCredential(), w.handedOn(w.bob), w.speaksFor(), w.oldSpeaksFor(), callers[form]}
		change(&p)
		docs, option := sfa(p.slice.Signed(t)), ""
		switch form {
		case "delegated":
			docs = sfa(pki.Delegated(t, p.levels...))
		case "abac":
			docs, option = append(docs, sfa(p.abac.Signed(t))...), aliceURN
		case "speaksfor":
			docs, option = append(docs, sfa(p.old.Signed(t))...), aliceURN
		}
		for range 2 { // new, and remembered
			g, err := w.z.Authorize(w.caller(t, p.caller), docs, option, credentials.RightAllocate, now)
			if err != nil {
				t.Fatalf("%s: %v", part, err)
			}
			if until, err := g.Over(w.slice.URN); err != nil || !until.Equal(soon) {
				t.Errorf("%s ends %v, but the right %v, %v", part, soon, until, err)
			}
		}
		after := soon.Add(time.Second) // certificates last to the end of their last second
		if p.slice.Expires == at || p.levels[0].Expires == at || p.abac.Expires == at || p.old.Expires == at {
			after = soon
		}
		if _, err := w.z.Authorize(w.caller(t, p.caller), docs, option, credentials.RightAllocate, after); detail(t, err) != am.CredentialExpired {
			t.Errorf("%s, remembered and expired: %v", part, err)
		}
	}
}

func TestListOfCredentials(t *testing.T) {
	w := newWorld(t)
	doc := w.sliceCredential().Signed(t)
	caller := w.caller(t, w.alice)
	junk := make([]string, credentials.MaxCredentials-1)
	for i := range junk {
		junk[i] = fmt.Sprint("junk ", i)
	}
	if _, err := w.z.Authorize(caller, sfa(append(junk, doc)...), "", credentials.RightAllocate, now); err != nil {
		t.Errorf("junk before the good one: %v", err)
	}
	if _, err := w.z.Authorize(caller, sfa(append(junk, "x", doc)...), "", credentials.RightAllocate, now); detail(t, err) != am.CredentialInvalid {
		t.Errorf("more than %d: %v", credentials.MaxCredentials, err)
	}
	if _, err := w.z.Authorize(caller, nil, "", credentials.RightListResources, now); detail(t, err) != am.MissingArgs {
		t.Errorf("empty list: %v", err)
	}
	_, err := w.z.Authorize(caller, sfa(junk...), "", credentials.RightAllocate, now)
	if text := err.Error(); !strings.HasPrefix(text, "credential 1: ") || !strings.HasSuffix(text, "; and 23 more") {
		t.Errorf("the reasons read %q", text)
	}
}

// TestReasonPerCredential checks that the reasons are in the order of the credentials, although
// only Over detects that one is for another slice.
func TestReasonPerCredential(t *testing.T) {
	w := newWorld(t)
	expired, elsewhere, bobs := w.sliceCredential(), w.sliceCredential(), w.sliceCredential()
	expired.Expires = "2026-11-21T11:59:59Z"
	elsewhere.Target = []*pki.Entity{w.other, w.sa}
	bobs.Owner = []*pki.Entity{w.bob}
	_, err := w.over(t, credentials.RightAllocate, "junk", elsewhere.Signed(t), bobs.Signed(t), expired.Signed(t))
	e, _ := errors.AsType[*credentials.DeniedError](err)
	if e == nil || len(e.Reasons) != 4 {
		t.Fatal(err)
	}
	for i, want := range []am.Detail{am.CredentialInvalid, am.CredentialMismatch, am.CredentialMismatch, am.CredentialExpired} {
		if e.Reasons[i].Credential != i+1 || e.Reasons[i].Detail != want {
			t.Errorf("reason %d: %+v, want the detail %d", i+1, e.Reasons[i], want)
		}
	}
	if !strings.Contains(e.Error(), "credential 4: expired 2026-11-21T11:59:59Z; get a new one from its authority") || e.Detail() != am.CredentialExpired {
		t.Errorf("%d: %s", e.Detail(), e)
	}
}

// TestSHA1IsReported signs each used credential with SHA-1, which must be reported. The attacks test
// that SHA-1 needs the switch.
func TestSHA1IsReported(t *testing.T) {
	w := newWorld(t)
	w.z = credentials.New(pki.Anchors(w.sa), credentials.Config{SHA1Signatures: true})
	weak, word := w.sliceCredential(), w.speaksFor()
	weak.SHA1, word.SHA1 = true, true
	if g, err := w.speak(t, w.alice, "", weak.Signed(t)); err != nil || !g.SHA1() {
		t.Errorf("the slice credential: %v, SHA-1 seen %v", err, g.SHA1())
	}
	docs := []string{word.Signed(t), w.sliceCredential().Signed(t)}
	if g, err := w.speak(t, w.tool, aliceURN, docs...); err != nil || !g.SHA1() {
		t.Errorf("the word for a tool: %v, SHA-1 seen %v", err, g.SHA1())
	}
	if _, err := newWorld(t).speak(t, w.tool, aliceURN, docs...); err == nil {
		t.Error("the word for a tool is accepted without the switch")
	}
}

func TestGrantCannotBeMadeUp(t *testing.T) {
	w := newWorld(t)
	if _, err := (credentials.Grant{}).Over(w.slice.URN); detail(t, err) != am.CredentialInvalid {
		t.Errorf("the zero Grant: %v", err)
	}
	doc := sfa(w.sliceCredential().Signed(t))
	for rule, c := range map[string]credentials.Caller{
		"zero": {}, "name only": {URN: w.alice.URN},
		"another's chain": {URN: w.alice.URN, Chain: cert.Chain{w.bob.Certificate, w.sa.Certificate}},
	} {
		if _, err := w.z.Authorize(c, doc, "", credentials.RightAllocate, now); err == nil {
			t.Errorf("caller %s: granted", rule)
		}
	}
	g, err := w.z.Authorize(w.caller(t, w.alice), doc, "", credentials.RightAllocate, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []urn.URN{{}, w.other.URN, w.alice.URN, urn.MustParse("urn:publicid:IDN+example.org+sliver+s1"), urn.MustParse("urn:publicid:IDN+example.org:x+slice+s1")} {
		if _, err := g.Over(other); detail(t, err) != am.CredentialMismatch {
			t.Errorf("over %s: %v", other, err)
		}
	}
	if _, err := w.z.Authorize(w.caller(t, w.alice), doc, "", credentials.Right("Reboot"), now); err == nil {
		t.Error("an unknown right is granted")
	}
}

func TestRemovedAnchorInvalidatesTheCache(t *testing.T) {
	w := newWorld(t)
	doc := sfa(w.sliceCredential().Signed(t))
	caller := w.caller(t, w.alice)
	if _, err := w.z.Authorize(caller, doc, "", credentials.RightAllocate, now); err != nil {
		t.Fatal(err)
	}
	w.z.SetAnchors(pki.Anchors(pki.Authority(t, nil, saURN, "rsa5")))
	if _, err := w.z.Authorize(caller, doc, "", credentials.RightAllocate, now); detail(t, err) != am.CredentialUntrusted {
		t.Errorf("the credential: %v", err)
	}
	if c := w.z.Identify(pki.Raw(w.alice), now); c.Err == nil {
		t.Error("the caller is still vouched for")
	}
	w.z.SetAnchors(pki.Anchors(w.sa))
	if _, err := w.z.Authorize(w.caller(t, w.alice), doc, "", credentials.RightAllocate, now); err != nil {
		t.Errorf("after the anchor came back: %v", err)
	}
}
