package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"patchbay/am/testkit/wait"
)

func TestOnlyTheKeyOfTheAccountOpensTheEndpoint(t *testing.T) {
	t.Parallel()
	s, _, _ := newSite(t)
	alice, bob, carol := newKey(t), newKey(t), newKey(t)
	one := s.add("n1", Account{Login: "alice", Keys: []string{alice.line}}, Account{Login: "bob", Keys: []string{"# no key", bob.line}})
	two := s.add("n2", Account{Login: "carol", Keys: []string{carol.line}}, Account{Login: "empty", Keys: nil})
	for _, c := range []struct {
		name, user string
		key        key
		at         *testNode
		opens      bool
	}{
		{"RightKey", "alice", alice, one, true},
		{"SecondLine", "bob", bob, one, true},
		{"WrongKey", "alice", newKey(t), one, false},
		{"RightKeyWrongUser", "bob", alice, one, false},
		{"RightKeyRoot", "root", alice, one, false},
		{"RightKeyGatewayUser", User, alice, one, false},
		{"OtherNodesKey", "alice", carol, one, false},
		{"OtherNodesUserAndKey", "carol", carol, one, false},
		{"KeyAtOtherNode", "alice", alice, two, false},
		{"AccountWithoutKeys", "empty", alice, two, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := s.client(c.key)
			p.addKnownHost("node", c.at.port, c.at.host, "")
			r := p.run("ssh", c.user+"@node", "echo $USER")
			switch {
			case c.opens && (r.status != 0 || r.out != c.user+"\n"):
				t.Errorf("status %d, said %q %q", r.status, r.out, r.err)
			case !c.opens && (r.status != 255 || !strings.Contains(r.err, "Permission denied (publickey)")):
				t.Errorf("status %d, said %q %q", r.status, r.out, r.err)
			}
		})
	}
}

func ecdsaKey(t testing.TB) key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return key{pem.EncodeToMemory(block), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))), signer}
}

// Clients without Ed25519 get another host key.
func TestEndpointShowsEachHostKey(t *testing.T) {
	t.Parallel()
	s, _, _ := newSite(t)
	alice, old := newKey(t), ecdsaKey(t)
	m := s.add("n1", Account{Login: "alice", Keys: []string{alice.line}})
	m.endpoint.HostKey = slices.Concat(m.host.pem, old.pem)
	if err := s.manager.SetEndpoint(m.endpoint, m.public, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.manager.VerifyLogin(verifyContext(t), "n1"); err != nil {
		t.Error(err)
	}
	for algorithm, host := range map[string]key{"ecdsa-sha2-nistp256": old, "ssh-ed25519": m.host} {
		p := s.client(alice)
		p.addKnownHost("n1", m.port, host, "\tUser alice")
		if r := p.run("ssh", "-o", "HostKeyAlgorithms="+algorithm, "n1", "true"); r.status != 0 {
			t.Errorf("%s: %+v", algorithm, r)
		}
	}
	for _, text := range []string{"", "none", string(m.host.pem) + "more"} {
		if _, err := parseHostKeys([]byte(text)); err == nil {
			t.Errorf("%.10q… holds host keys", text)
		}
	}
}

// loggedLogin is the end of a log line about a login.
var loggedLogin = regexp.MustCompile(`msg="gateway: login" from=127\.0\.0\.1 key=SHA256:[A-Za-z0-9+/]{43} node=n1 user=alice\n`)

// The log has each login with its key, and the reason of each refused login.
func TestFailedLoginsAreLogged(t *testing.T) {
	t.Parallel()
	s, _, _ := newSite(t)
	alice := newKey(t)
	m := s.add("n1", Account{Login: "alice", Keys: []string{alice.line}})
	p := s.client(alice)
	p.addKnownHost("n1", m.port, m.host, "\tUser alice")
	if r := p.run("ssh", "n1", "true"); r.status != 0 {
		t.Fatalf("alice: %+v", r)
	}
	wait.Holds(t, func() bool { return loggedLogin.MatchString(s.log.String()) }, func() string { return "no line reports the login: " + s.log.String() })
	p = s.client(newKey(t))
	p.addKnownHost("n1", m.port, m.host, "\tUser alice")
	if r := p.run("ssh", "n1", "true"); r.status != 255 {
		t.Fatalf("a stranger: %+v", r)
	}
	wait.Holds(t, func() bool {
		text := s.log.String()
		return strings.Contains(text, "login failed") && strings.Contains(text, "user=alice") && strings.Contains(text, "from=127.0.0.1")
	}, func() string { return "no line tells of it" })
}
