package am

import (
	"strings"
	"testing"

	"patchbay/am/urn"
)

func TestLoginName(t *testing.T) {
	long := "a" + strings.Repeat("b", 31)
	for in, want := range map[string]string{
		"alice": "alice", "Alexander": "alexander", "alice_a": "alice_a", "bob-2": "bob-2", long: long, long + "c": long,
		"Root": "root2", "lp": "lp2", "irc": "irc2", "MySQL": "mysql2", "systemd.resolve": "systemd-resolve2",
		"9lives": "u9lives", "a.b": "a-b", "_a": "a", "$(reboot)": "reboot",
	} {
		if got := LoginName(urn.URN{Authority: "example.org", Type: urn.User, Name: in}, func(string) bool { return false }); got != want {
			t.Errorf("LoginName(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestLoginsOfOneSliceDiffer checks that names which differ only in characters that a login cannot
// have are numbered, and stay valid logins of Linux.
func TestLoginsOfOneSliceDiffer(t *testing.T) {
	long := strings.Repeat("b", 32)
	taken := map[string]bool{}
	for i, want := range []string{"alice-a", "alice_a", "alice-a2", "alice-a3", long, long[:31] + "2"} {
		in := []string{"alice.a", "alice_a", "alice-a", "ALICE-A", long, long + "-other"}[i]
		got := LoginName(urn.URN{Authority: "example.org", Type: urn.User, Name: in}, func(s string) bool { return taken[s] })
		if got != want {
			t.Errorf("LoginName(%q) = %q, want %q", in, got, want)
		}
		taken[got] = true
	}
}

func TestFits(t *testing.T) {
	host := Amount{Cores: 8, GPUs: 2, Memory: 1000}
	for _, tt := range []struct {
		used, need Amount
		want       int64
	}{
		{Amount{}, Amount{Cores: 2, Memory: 100}, 4},
		{Amount{Cores: 7}, Amount{Cores: 2, Memory: 100}, 0},
		{Amount{Cores: 9}, Amount{Cores: 1}, 0},
		{Amount{}, Amount{Memory: 400}, 2},
		{Amount{GPUs: 1}, Amount{GPUs: 1}, 1},
		{Amount{}, Amount{Slots: 1}, 50},
	} {
		if got := Fits(host, tt.used, tt.need, 50); got != tt.want {
			t.Errorf("Fits(%v used, %v) = %d, want %d", tt.used, tt.need, got, tt.want)
		}
	}
}
