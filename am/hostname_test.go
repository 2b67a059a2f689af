package am

import (
	"strings"
	"testing"

	"patchbay/am/urn"
)

func TestHostname(t *testing.T) {
	for in, want := range map[string]string{
		"node0":                             "node0",
		"My Node:1":                         "my-node-1",
		"../../etc":                         "etc",
		"a_b":                               "a-b-3",
		"éè":                                "node",
		"--x--":                             "x",
		strings.Repeat("x", 200):            strings.Repeat("x", 57),
		"a" + strings.Repeat("-", 80) + "b": "a-b-3",
	} {
		var h Hostnames
		h.Take("a-b")
		h.Take("a-b-2")
		if got := h.Assign(in); got != want {
			t.Errorf("For(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestHostnamesOfOneLabel: names that differ only in what a host name cannot
// say are numbered, and soon.
func TestHostnamesOfOneLabel(t *testing.T) {
	var h Hostnames
	seen := map[string]bool{}
	for i := range 100_000 { // at the square of that, this would take hours
		name := h.Assign(strings.Repeat("é", i%50))
		if seen[name] {
			t.Fatalf("%s is given out twice", name)
		}
		seen[name] = true
	}
	if !seen["node-100000"] || len("node-100000") > maxLabel {
		t.Error("they are not numbered through")
	}
}

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

// TestLoginsOfOneSliceDiffer: names that differ only in what a login cannot say
// are numbered, and stay logins of Linux.
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

func TestAssignDNS(t *testing.T) {
	var h Hostnames
	h.Assign("web")
	for _, tt := range []struct{ rule, name, want string }{
		{"the first part", "www.example.org", "www"},
		{"a name of one part", "db", "db"},
		{"another name with the same first part", "www.example.net", ""},
		{"the host name of a node", "web.example.org", ""},
		{"longer than names of hosts", "a." + strings.Repeat("b", 63), ""},
	} {
		if got, ok := h.AssignDNS(tt.name); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q, want %q", tt.rule, got, tt.want)
		}
	}
	if got := h.Assign("www"); got != "www-2" {
		t.Errorf("a node called www gets the host name %q", got)
	}
}
