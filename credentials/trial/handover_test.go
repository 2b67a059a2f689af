package trial_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/require"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/credentials/trial"
	"patchbay/credentials/trial/trialtest"
)

// cast is alice, who has the slice s1, bob and a portal.
type cast struct {
	a          *trial.Authority
	dir        string
	alice, bob trial.User
	portal     trial.Tool
	slice      trialtest.Slice
}

func newCast(t *testing.T, now time.Time) cast {
	t.Helper()
	c := cast{dir: filepath.Join(t.TempDir(), "authority")}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	c.a, err = trial.Create(c.dir, "example.org:lab", now)
	must(err)
	c.alice, err = c.a.User("alice", now)
	must(err)
	c.bob, err = c.a.User("bob", now)
	must(err)
	c.portal, err = c.a.Tool("Portal", now)
	must(err)
	c.slice, err = trialtest.NewSlice(c.a, "s1", "alice", now.Add(48*time.Hour), now)
	must(err)
	return c
}

func geni(docs ...[]byte) (p []credentials.Presented) {
	for _, doc := range docs {
		p = append(p, credentials.Presented{Type: "geni_sfa", Version: "3", Text: string(doc)})
	}
	return p
}

func TestDelegatedCredentialsAreAcceptedByOurOwnServer(t *testing.T) {
	c := newCast(t, now)
	z := authorizer(t, c.a)
	soon := now.Add(time.Hour)
	for _, tt := range []struct {
		to      []byte
		urn     urn.URN
		expires time.Time
		want    time.Time
	}{
		{c.bob.Certificate, c.bob.URN, time.Time{}, c.slice.Expires},
		{c.bob.Certificate, c.bob.URN, soon, soon},
		{c.portal.Certificate, c.portal.URN, soon, soon},
	} {
		doc, err := trial.Delegate(c.slice.Credential, c.alice, tt.to, tt.expires)
		if err != nil {
			t.Fatal(err)
		}
		g, err := z.Authorize(z.Identify(rawChain(t, tt.to), now), geni(doc), "", credentials.RightAllocate, now)
		if err != nil || g.Caller() != tt.urn {
			t.Fatalf("%s: %v", tt.urn, err)
		}
		if until, err := g.Over(c.slice.URN); err != nil || !until.Equal(tt.want) {
			t.Errorf("%s until %v, %v; want %v", tt.urn, until, err, tt.want)
		}
		if _, err := z.Authorize(z.Identify(rawChain(t, c.alice.Certificate), now), geni(doc), "", credentials.RightAllocate, now); err == nil {
			t.Errorf("what %s was given is still alice's", tt.urn)
		}
	}
}

func TestDelegationKeepsWithinTheCredential(t *testing.T) {
	c := newCast(t, now)
	doc, err := trial.Delegate(c.slice.Credential, c.alice, c.bob.Certificate, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"itself expires earlier":                   second(trial.Delegate(c.slice.Credential, c.alice, c.bob.Certificate, c.slice.Expires.Add(time.Second))),
		"belongs to":                               second(trial.Delegate(c.slice.Credential, c.bob, c.alice.Certificate, time.Time{})),
		"no privilege of the credential":           second(trial.Delegate(doc, c.bob, c.portal.Certificate, time.Time{})),
		"the certificate of the new owner":         second(trial.Delegate(c.slice.Credential, c.alice, []byte("junk"), time.Time{})),
		"the credential cannot be read":            second(trial.Delegate([]byte("junk"), c.alice, c.bob.Certificate, time.Time{})),
		"changed after it was signed":              second(trial.Delegate([]byte(strings.Replace(string(c.slice.Credential), "<name>info", "<name>pi", 1)), c.alice, c.bob.Certificate, time.Time{})),
		"after the user's certificate has expired": second(trial.SpeaksFor(c.alice, c.portal.Certificate, c.a.Expires().Add(time.Second))),
		"certificate of the tool":                  second(trial.SpeaksFor(c.alice, nil, now.Add(time.Hour))),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func second(_ []byte, err error) error { return err }

func TestSpeaksForIsAcceptedByOurOwnServer(t *testing.T) {
	c := newCast(t, now)
	z := authorizer(t, c.a)
	soon := now.Add(time.Hour)
	doc, err := trial.SpeaksFor(c.alice, c.portal.Certificate, soon)
	if err != nil {
		t.Fatal(err)
	}
	p := append([]credentials.Presented{{Type: "geni_abac", Version: "1", Text: string(doc)}}, geni(c.slice.Credential)...)
	g, err := z.Authorize(z.Identify(rawChain(t, c.portal.Certificate), now), p, c.alice.URN.String(), credentials.RightAllocate, now)
	if err != nil || g.Caller() != c.alice.URN || g.Speaker() != c.portal.URN {
		t.Fatalf("%s by %s, %v", g.Caller(), g.Speaker(), err)
	}
	if until, err := g.Over(c.slice.URN); err != nil || !until.Equal(soon) {
		t.Errorf("until %v, %v", until, err)
	}
	other, err := c.a.Tool("other", now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Authorize(z.Identify(rawChain(t, other.Certificate), now), p, c.alice.URN.String(), credentials.RightAllocate, now); err == nil {
		t.Error("another tool speaks by it")
	}
}

func TestToolIsMadeOnce(t *testing.T) {
	c := newCast(t, now)
	again, err := c.a.Tool("PORTAL", now.Add(time.Hour))
	if err != nil || string(again.Certificate) != string(c.portal.Certificate) || string(again.Key) != string(c.portal.Key) {
		t.Errorf("asking again made another tool: %v", err)
	}
	if info, err := os.Stat(filepath.Join(c.dir, "tools", "portal.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its key: %v, %v", info, err)
	}
	if c.portal.URN != urn.MustParse("urn:publicid:IDN+example.org:lab+tool+Portal") {
		t.Errorf("it is %s", c.portal.URN)
	}
	for _, name := range []string{"", "9tool", "../x", "a/b", "a b", "a\n", strings.Repeat("a", 65)} {
		if _, err := c.a.Tool(name, now); err == nil || !strings.Contains(err.Error(), "up to 63") {
			t.Errorf("tool %q: %v", name, err)
		}
	}
}

// TestXmlsec1AcceptsSignaturesOfUsers checks every signature of a delegated and of a
// speaks-for credential with the authority's certificate as the only root.
func TestXmlsec1AcceptsSignaturesOfUsers(t *testing.T) {
	xmlsec1 := require.Tool(t, "xmlsec1")
	c := newCast(t, time.Now())
	delegated, err := trial.Delegate(c.slice.Credential, c.alice, c.bob.Certificate, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	speaksFor, err := trial.SpeaksFor(c.alice, c.portal.Certificate, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	verify := func(doc, id string) error {
		file := filepath.Join(t.TempDir(), "credential.xml")
		if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		return exec.Command(xmlsec1, "--verify", "--node-id", id, "--trusted-pem", filepath.Join(c.dir, "authority.pem"), file).Run()
	}
	for _, tt := range []struct {
		rule, doc, id, part string
	}{
		{"the credential itself", string(delegated), "Sig_ref0", "true</can_delegate>"},
		{"what was made of it", string(delegated), "Sig_ref1", "false</can_delegate>"},
		{"speaks-for", string(speaksFor), "Sig_ref0", "</role>"},
	} {
		if err := verify(tt.doc, tt.id); err != nil {
			t.Errorf("%s: xmlsec1 refuses it: %v", tt.rule, err)
		}
		if verify(strings.Replace(tt.doc, tt.part, "0"+tt.part, 1), tt.id) == nil {
			t.Errorf("%s: xmlsec1 accepts it changed, so it proves nothing", tt.rule)
		}
	}
}
