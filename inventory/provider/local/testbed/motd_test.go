package testbed

import (
	"strings"
	"testing"
	"unicode"
)

// A client_id cannot control the terminal of a login, nor add lines, which the agent would refuse
// together with all accounts.
func TestMotdIsPlainText(t *testing.T) {
	lines := motd(record{Desired: desired{ClientID: "a\nb\u009b2J\u202e\x1bc"}}, "n1", true)
	if !strings.HasPrefix(lines[0], "This is a?b?2J??c, a container") {
		t.Errorf("%q", lines[0])
	}
	for _, line := range lines {
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", line)
		}
	}
}
