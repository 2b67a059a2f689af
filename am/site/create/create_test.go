package create

import (
	"regexp"
	"strings"
	"testing"

	"patchbay/inventory/local"
)

func TestInstanceNames(t *testing.T) {
	for authority, want := range map[string]string{
		"demo.example.org": "demo", "Testbed-of-Ours.example.org": "testbed-of", "example.org:sub": "example", "-_-.example.org": "site", "a_b.example.org": "ab", "x": "x",
	} {
		a, b := instanceName(authority), instanceName(authority)
		if !local.IsInstance(a) || !regexp.MustCompile("^"+want+"-[0-9a-f]{4}$").MatchString(a) {
			t.Errorf("%s: %s, want %s-….", authority, a, want)
		}
		if a == b && a == instanceName(authority) {
			t.Errorf("%s: always %s", authority, a)
		}
	}
}

func TestHostFacts(t *testing.T) {
	for host, want := range map[string]string{
		"lab7.example.org": "lab7", "Lab7": "lab7", "": "host1", "-x": "host1", "a_b.example.org": "host1", strings.Repeat("x", 64): "host1",
	} {
		if got := componentName(host); got != want {
			t.Errorf("%q is called %q, want %q", host, got, want)
		}
	}
	m := parseOSRelease("# x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID='12'\nID=debian\nnonsense\n")
	if m["PRETTY_NAME"] != "Debian GNU/Linux 12 (bookworm)" || m["VERSION_ID"] != "12" || m["ID"] != "debian" || len(m) != 3 {
		t.Errorf("%v", m)
	}
	h := hostFacts(t.Context())
	if h.Cores < 1 || h.Memory < 64<<20 || h.Disk <= 0 || h.Name == "" {
		t.Errorf("%+v", h)
	}
	if freeDisk("/none/such") != 0 {
		t.Error("disk of nothing")
	}
}
