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

func TestSliceCredentialCarriesEveryRightButNone(t *testing.T) {
	w := newWorld(t)
	doc := w.sliceCredential().Signed(t)
	for _, r := range credentials.Rights() {
		until, err := w.over(t, r, doc)
		if r == credentials.RightListResources {
			if err == nil {
				t.Errorf("%s is a right over a slice", r)
			}
			continue
		}
		if want := now.Add(24 * time.Hour); err != nil || !until.Equal(want) {
			t.Errorf("%s until %v, %v; want %v", r, until, err, want)
		}
	}
}

func TestUserCredentialIsEnoughForListResources(t *testing.T) {
	w := newWorld(t)
	doc := w.userCredential().Signed(t)
	g, err := w.z.Authorize(w.caller(t, w.alice), sfa(doc), "", credentials.RightListResources, now)
	if err != nil || g.Caller() != w.alice.URN || g.Right() != credentials.RightListResources || len(g.Fingerprints()) != 1 {
		t.Errorf("%v for %s, %v", g.Right(), g.Caller(), err)
	}
	if _, err := w.over(t, credentials.RightDescribe, doc); detail(t, err) != am.CredentialMismatch {
		t.Errorf("a user credential as slice credential (#16): %v", err)
	}
}

func TestPrivilegesByMethod(t *testing.T) {
	w := newWorld(t)
	rights := []credentials.Right{
		credentials.RightDescribe, credentials.RightStatus, credentials.RightAllocate, credentials.RightProvision,
		credentials.RightPerformOperationalAction, credentials.RightRenew, credentials.RightDelete, credentials.RightShutdown,
	}
	read, write, halt := 2, 5, 1 // how many of the rights, in this order
	all := map[string][3]bool{
		"*": {true, true, true}, "embed": {true, true, true}, "control": {true, true, true}, "sa": {true, true, true},
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

func TestRightEndsWithTheFirstCertificateBehindIt(t *testing.T) {
	w := newWorld(t)
	soon := now.Add(2 * time.Hour)
	short := func(uri, key string, ca bool) *pki.Entity {
		return pki.Issue(t, w.sa, pki.Subject{URIs: []string{uri}, Key: key, CA: ca, To: soon})
	}
	for _, part := range []string{"owner", "target", "signer", "caller"} {
		credential, caller := w.sliceCredential(), w.alice
		switch part {
		case "owner":
			credential.Owner = []*pki.Entity{short(aliceURN, "rsa2", false)}
		case "target":
			credential.Target = []*pki.Entity{short(sliceURN, "rsa3", false), w.sa}
		case "signer":
			credential.Signer = []*pki.Entity{short(saURN, "rsa5", true), w.sa}
		case "caller":
			caller = short(aliceURN, "rsa6", false)
		}
		doc := sfa(credential.Signed(t))
		g, err := w.z.Authorize(w.caller(t, caller), doc, "", credentials.RightAllocate, now)
		if err != nil {
			t.Fatalf("%s: %v", part, err)
		}
		if until, err := g.Over(w.slice.URN); err != nil || !until.Equal(soon) {
			t.Errorf("%s ends %v, but the right %v, %v", part, soon, until, err)
		}
		// The same credential, remembered, is refused afterwards.
		after := soon.Add(time.Second)
		c := w.caller(t, caller)
		if _, err := w.z.Authorize(c, doc, "", credentials.RightAllocate, after); detail(t, err) != am.CredentialExpired {
			t.Errorf("%s expired: %v", part, err)
		}
	}
}

func TestFormsOnTheWire(t *testing.T) {
	w := newWorld(t)
	doc := w.sliceCredential().Signed(t)
	for _, tt := range []struct {
		rule string
		p    credentials.Presented
		want bool
	}{
		{"v3 struct", credentials.Presented{Type: "geni_sfa", Version: "3", Text: doc}, true},
		{"version 2", credentials.Presented{Type: "geni_sfa", Version: "2", Text: doc}, true},
		{"bare string", credentials.Presented{Text: doc}, true},
		{"type in any case", credentials.Presented{Type: "GENI_SFA", Version: "3", Text: doc}, true},
		{"type without prefix", credentials.Presented{Type: "sfa", Text: doc}, true},
		{"int version", credentials.Presented{Type: "geni_sfa", Version: "2", Text: doc}, true},
		{"omni's label for a delegated one", credentials.Presented{Type: "geni_unknown", Version: "0", Text: doc}, true},
		{"labelled abac", credentials.Presented{Type: "geni_abac", Version: "1", Text: doc}, true},
		{"labelled abac, without prefix", credentials.Presented{Type: "ABAC", Text: doc}, true},
		{"labelled speaksfor", credentials.Presented{Type: "speaksfor", Version: "1", Text: doc}, true},
		{"sfa with abac's version", credentials.Presented{Type: "sfa", Version: "1", Text: doc}, true},
		{"white space and byte order mark", credentials.Presented{Text: " \r\n\ufeff\n" + doc + "\n\n"}, true},
		{"unknown type", credentials.Presented{Type: "x509", Text: doc}, false},
		{"type of omni's acceptance tests", credentials.Presented{Type: "geni_sfaBROKEN", Version: "3", Text: doc}, false},
		{"nearly a known type", credentials.Presented{Type: "geni_foo", Version: "3", Text: doc}, false},
		{"white space in the type", credentials.Presented{Type: "geni_sfa ", Version: "3", Text: doc}, false},
		{"labelled unknown and junk", credentials.Presented{Type: "geni_unknown", Version: "0", Text: doc[1:]}, false},
		{"unknown version", credentials.Presented{Type: "geni_sfa", Version: "4", Text: doc}, false},
		{"empty", credentials.Presented{Type: "geni_sfa", Version: "3"}, false},
		{"too large", credentials.Presented{Text: doc + strings.Repeat(" ", credentials.MaxBytes)}, false},
	} {
		_, err := w.z.Authorize(w.caller(t, w.alice), []credentials.Presented{tt.p}, "", credentials.RightAllocate, now)
		if (err == nil) != tt.want {
			t.Errorf("%s: %v, want success %v", tt.rule, err, tt.want)
		}
		if err != nil && detail(t, err) != am.CredentialInvalid {
			t.Errorf("%s: detail %d", tt.rule, detail(t, err))
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

func TestReasonPerCredential(t *testing.T) {
	w := newWorld(t)
	expired, bobs := w.sliceCredential(), w.sliceCredential()
	expired.Expires = "2026-11-21T11:59:59Z"
	bobs.Owner = []*pki.Entity{w.bob}
	_, err := w.z.Authorize(w.caller(t, w.alice), sfa("junk", bobs.Signed(t), expired.Signed(t)), "", credentials.RightAllocate, now)
	e, _ := errors.AsType[*credentials.DeniedError](err)
	if e == nil || len(e.Reasons) != 3 {
		t.Fatal(err)
	}
	for i, want := range []am.Detail{am.CredentialInvalid, am.CredentialMismatch, am.CredentialExpired} {
		if e.Reasons[i].Credential != i+1 || e.Reasons[i].Detail != want {
			t.Errorf("reason %d: %+v, want the detail %d", i+1, e.Reasons[i], want)
		}
	}
	if !strings.Contains(e.Error(), "credential 3: expired 2026-11-21T11:59:59Z; get a fresh one from its authority") || e.Detail() != am.CredentialExpired {
		t.Errorf("%d: %s", e.Detail(), e)
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

func TestSHA1CredentialNeedsTheSwitch(t *testing.T) {
	w := newWorld(t)
	credential := w.sliceCredential()
	credential.SHA1 = true
	doc := sfa(credential.Signed(t))
	if _, err := w.z.Authorize(w.caller(t, w.alice), doc, "", credentials.RightAllocate, now); detail(t, err) != am.CredentialUntrusted {
		t.Errorf("without the switch: %v", err)
	}
	z := credentials.New(pki.Anchors(w.sa), credentials.Config{SHA1Signatures: true})
	g, err := z.Authorize(w.caller(t, w.alice), doc, "", credentials.RightAllocate, now)
	if err != nil || !g.SHA1() {
		t.Errorf("with the switch: %v, SHA-1 seen %v", err, g.SHA1())
	}
}

func TestRemovedAnchorEndsWhatWasRemembered(t *testing.T) {
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

// TestRememberedCredentialIsCheckedEachTime is the other side of the cache:
// owner, method and time are those of the call.
func TestRememberedCredentialIsCheckedEachTime(t *testing.T) {
	w := newWorld(t)
	credential := w.sliceCredential()
	credential.Privileges = []string{"info"}
	doc := sfa(credential.Signed(t))
	for range 2 {
		if _, err := w.z.Authorize(w.caller(t, w.alice), doc, "", credentials.RightStatus, now); err != nil {
			t.Fatal(err)
		}
		if _, err := w.z.Authorize(w.caller(t, w.bob), doc, "", credentials.RightStatus, now); detail(t, err) != am.CredentialMismatch {
			t.Errorf("#31 replayed by another caller: %v", err)
		}
		if _, err := w.z.Authorize(w.caller(t, w.alice), doc, "", credentials.RightAllocate, now); detail(t, err) != am.NoDetail {
			t.Errorf("another method: %v", err)
		}
		if _, err := w.z.Authorize(w.caller(t, w.alice), doc, "", credentials.RightStatus, now.Add(24*time.Hour)); detail(t, err) != am.CredentialExpired {
			t.Errorf("at its expiry: %v", err)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	w := newWorld(t)
	z := credentials.New(pki.Anchors(w.sa), credentials.Config{CacheSize: 2})
	var docs []string
	for i := range 4 {
		credential := w.sliceCredential()
		credential.Expires = fmt.Sprintf("2026-11-2%dT12:00:00Z", 2+i)
		docs = append(docs, credential.Signed(t))
	}
	done := make(chan error)
	for i := range 8 {
		go func() {
			var err error
			for j := range 20 {
				c := z.Identify(pki.Raw(w.alice), now)
				_, e := z.Authorize(c, sfa(docs[(i+j)%4]), "", credentials.RightAllocate, now)
				err = errors.Join(err, e)
				if j == 10 {
					z.SetAnchors(pki.Anchors(w.sa, w.alice))
				}
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestReasonsAreInTheOrderPresented mixes a credential that is another's with
// one for another slice, which only Over finds out.
func TestReasonsAreInTheOrderPresented(t *testing.T) {
	w := newWorld(t)
	elsewhere, anothers := w.sliceCredential(), w.sliceCredential()
	elsewhere.Target = []*pki.Entity{w.other, w.sa}
	anothers.Owner = []*pki.Entity{w.bob}
	_, err := w.over(t, credentials.RightStatus, elsewhere.Signed(t), anothers.Signed(t))
	e, ok := errors.AsType[*credentials.DeniedError](err)
	if !ok || len(e.Reasons) != 2 || e.Reasons[0].Credential != 1 || e.Reasons[1].Credential != 2 {
		t.Errorf("got %v", err)
	}
}
