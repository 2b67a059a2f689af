package main

import (
	"regexp"
	"strings"
	"sync"
	"testing"
)

// loginLine is how the log tells of a login: from an address, or from a node.
var loginLine = regexp.MustCompile(` from=(127\.0\.0\.1|[0-9a-f-]{36}) key=SHA256:[A-Za-z0-9+/]{43} node=("?[0-9a-f-]{36}"?|"") user=[a-z]+\n$`)

// TestLogins comes to the nodes of a real testbed by every way with OpenSSH's
// own programs.
func TestLogins(t *testing.T) {
	s := newLoginSite(t, "login-t", "manifest_socket: admin.sock", "sliver_types:\n- name: container\n- name: tiny\n  pids: 32")
	s.addAll(t)
	t.Run("Together", func(t *testing.T) {
		var all sync.WaitGroup
		places := make(chan struct{}, 4) // clients mostly wait
		for _, group := range []struct {
			name string
			f    func(*testing.T, *loginSite)
		}{
			{"Ready", loginReady}, {"Sessions", loginSessions}, {"Files", loginFiles}, {"GeniGet", loginGeni},
			{"OnlyOwnNodes", loginMatrix}, {"Keys", loginKeys}, {"Forwards", loginForwards}, {"Inside", loginInside},
			{"Accounts", loginAccountChanges}, {"Endpoints", loginEndpoints}, {"Terminals", loginTerminals}, {"Behind", loginBehind},
		} {
			all.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				t.Run(group.name, func(t *testing.T) { group.f(t, s) })
			})
		}
		all.Wait()
	})
	t.Run("Restarts", func(t *testing.T) { loginRestarts(t, s) })
	t.Run("LogSaysFromWhere", func(t *testing.T) {
		n := 0
		for line := range strings.Lines(read(t, s.logs.Name())) {
			if strings.Contains(line, `msg="gateway: login"`) {
				if n++; !loginLine.MatchString(line) {
					t.Error(line)
				}
			}
		}
		if n < 50 {
			t.Errorf("%d logins are in the log", n)
		}
	})
}
