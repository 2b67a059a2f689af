package gateway

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am/testkit/require"
)

func verifyContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestVerifyLoginTriesEachAccount(t *testing.T) {
	t.Parallel()
	s, _, _ := newSite(t)
	m := s.add("n1", Account{Login: "alice", Keys: []string{newKey(t).line}}, Account{Login: "bob", Keys: []string{newKey(t).line}})
	if err := s.manager.VerifyLogin(verifyContext(t), "n1"); err != nil {
		t.Error("with a public endpoint:", err)
	}
	if err := s.manager.SetEndpoint(m.endpoint, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.manager.VerifyLogin(verifyContext(t), "n1"); err != nil {
		t.Error("without a public endpoint:", err)
	}
	if err := s.manager.VerifyLogin(verifyContext(t), "n2"); err == nil {
		t.Error("a node without an endpoint is proven")
	}
	s.mu.Lock()
	delete(s.nodes, "n1")
	s.mu.Unlock()
	if err := s.manager.VerifyLogin(verifyContext(t), "n1"); err == nil || !strings.Contains(err.Error(), "alice") {
		t.Error("a node without an agent is proven:", err)
	}
}

// VerifyLogin succeeds when the shell was started, even if the user's start-up files fail.
func TestVerifyLoginWithFailingShell(t *testing.T) {
	t.Parallel()
	s, _, _ := newSite(t)
	s.add("n1", Account{Login: "alice", Keys: []string{newKey(t).line}})
	for line, proven := range map[string]bool{
		"exit 1": true, "echo no >&2; exit 127": true, "kill -9 $$": true,
		`test -z "$SSH_CLIENT$SSH_CONNECTION" || exit 255`: true,  // by which bash knows to read the user's files
		"echo cannot start >&2; exit 255":                  false, // as when it cannot be started
	} {
		s.mu.Lock()
		s.nodes["n1"] = &node{t: t, home: s.home("n1"), line: line}
		s.mu.Unlock()
		if err := s.manager.VerifyLogin(verifyContext(t), "n1"); (err == nil) != proven {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestVerifyLoginAtAddress(t *testing.T) {
	t.Parallel()
	s, _, _ := newSite(t)
	far := s.add("far", Account{Login: "alice", Keys: []string{newKey(t).line}})
	d := Endpoint{Node: "near", Address: far.public.Addr().String()}
	public := listen(t)
	for _, l := range []net.Listener{public, nil} {
		if err := s.manager.SetEndpoint(d, l, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.manager.VerifyLogin(verifyContext(t), "near"); err != nil {
			t.Error(err)
		}
	}
	deaf := listen(t)
	d.Address = deaf.Addr().String()
	deaf.Close()
	if err := s.manager.SetEndpoint(d, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.manager.VerifyLogin(verifyContext(t), "near"); err == nil {
		t.Error("an address where nothing listens is proven")
	}
}

// VerifyLogin removes its key afterwards, and many concurrent calls succeed.
func TestConcurrentVerifyLogins(t *testing.T) {
	t.Parallel()
	require.SSH(t)
	s, _, _ := newSite(t)
	k := newKey(t)
	for i := range 40 {
		s.add(fmt.Sprintf("n%d", i), Account{Login: "alice", Keys: []string{k.line}}, Account{Login: "bob", Keys: []string{k.line}})
	}
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if err := s.manager.VerifyLogin(verifyContext(t), fmt.Sprintf("n%d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
