package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRequestedChecksAreNeeded covers checks that are needed only if the settings request
// what they test.
func TestRequestedChecksAreNeeded(t *testing.T) {
	no := func(context.Context, *resources) (string, *trouble) {
		return "", &trouble{"there is none", "make one; without it nodes work; it is for others"}
	}
	var list []check
	for _, name := range []string{"delay", "tunnel", "outside"} {
		list = append(list, check{name, name, false, false, no})
	}
	for _, tt := range []struct {
		place  Place
		needed string
		remedy string
	}{
		{Place{}, "", ""},
		{Place{Emulator: "auto"}, "", ""},
		{Place{Emulator: "netem"}, "delay", "make one; or set emulator: auto instead of netem"},
		{Place{Emulator: "vswitch"}, "tunnel", "make one; or set emulator: auto instead of vswitch"},
		{Place{Outbound: true}, "outside", "make one; or set outbound: no"},
	} {
		findings := examine(t.Context(), tt.place, list, nil)
		needed, remedy := "", ""
		for _, f := range findings {
			if f.Needed {
				needed += f.Name
				remedy = f.Remedy
			}
		}
		if needed != tt.needed || remedy != tt.remedy || (CheckNeeded(findings) == nil) != (tt.needed == "") {
			t.Errorf("%+v: needed is %q, %q; %v", tt.place, needed, remedy, CheckNeeded(findings))
		}
	}
}

func TestConflictingSettingsAreReported(t *testing.T) {
	list := []check{{"settings", "", false, false, trySettings}}
	f := examine(t.Context(), Place{Conflicts: []string{"one; drop it", "two; drop it"}}, list, nil)[0]
	if f.OK || f.Needed || !strings.Contains(f.Remedy, "one; drop it\n") || !strings.Contains(f.Remedy, "two; drop it") {
		t.Errorf("%+v", f)
	}
	if f := examine(t.Context(), Place{}, list, nil)[0]; !f.OK || f.Remedy != "" {
		t.Errorf("%+v", f)
	}
}

func TestMissingTools(t *testing.T) {
	usr := t.TempDir()
	for i, tool := range tools {
		dir := filepath.Join(usr, []string{"bin", "sbin", "local/bin"}[i%3])
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o755)
		if tool[0] == "curl" {
			mode = 0o644
		}
		if err := os.WriteFile(filepath.Join(dir, tool[0]), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if got := toolReport(usr); !strings.Contains(got, "lacks curl (") || !strings.HasSuffix(got, ": apt install curl") {
		t.Errorf("without curl: %s", got)
	}
	for _, dir := range []string{"bin", "sbin", "local/bin"} {
		os.Chmod(filepath.Join(usr, dir, "curl"), 0o755)
	}
	if got := toolReport(usr); strings.Contains(got, "lack") {
		t.Errorf("with all: %s", got)
	}
	if got := toolReport(t.TempDir()); !strings.Contains(got, "apt install iproute2 iputils-ping traceroute") || !strings.HasSuffix(got, "tcpdump iperf3 iptables ethtool sudo vim") {
		t.Errorf("with none: %s", got)
	}
}
