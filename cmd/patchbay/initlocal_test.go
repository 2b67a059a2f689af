package main

import (
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"patchbay/am/site"
	"patchbay/am/testkit/program"
	"patchbay/inventory"
	"patchbay/inventory/provider/local"
)

// initLocal creates a site with the local testbed, and returns its folder and the output
// of init.
func initLocal(t testing.TB, args ...string) (dir, out string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "site")
	code, out := runCommand(t, append([]string{"init", "--authority", "Testbed-of-Ours.example.org", "--provider", "local", "--listen", "127.0.0.1:0", dir}, args...)...)
	if code != 0 {
		t.Fatalf("init: %d\n%s", code, out)
	}
	return dir, out
}

func TestInitLocal(t *testing.T) {
	dir, out := initLocal(t)
	for name, mode := range map[string]fs.FileMode{"providers/local.prov": 0o755, "providers/local.yaml": 0o644, "inventory.yaml": 0o644, "request.xml": 0o644} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "providers", "*")); len(left) != 3 {
		t.Errorf("providers: %v", left)
	}
	settings := filepath.Join(dir, "providers", "local.yaml")
	s, err := local.ReadSettings(settings)
	if err != nil {
		t.Fatal(err)
	}
	inv, err := inventory.Load(filepath.Join(dir, "inventory.yaml"), "Testbed-of-Ours.example.org")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^testbed-of-[0-9a-f]{4}$`).MatchString(s.Instance) {
		t.Errorf("instance %q", s.Instance)
	}
	if s.PublicHost != "127.0.0.1" || s.Listen != netip.MustParseAddr("127.0.0.1") || s.ManifestSocket != filepath.Join(dir, "admin.sock") {
		t.Errorf("settings %+v", s)
	}
	c := inv.Components[0]
	if len(inv.Components) != 1 || s.Component != c.Name || c.SliverTypes[0].Name != s.SliverTypes[0].Name || c.Capacity.Slots < 50 {
		t.Errorf("the inventory offers %+v, the testbed %+v", c, s)
	}
	needs := c.SliverTypes[0].Needs
	if limits := s.SliverTypes[0]; needs.Memory<<20 != limits.Memory || needs.Disk<<20 != limits.Disk {
		t.Errorf("a node counts as %+v, and may take %+v", needs, limits)
	}
	companion, err := site.OpenCompanion(t.Context(), filepath.Join(dir, "providers"), "local")
	if err != nil || companion == nil {
		t.Fatalf("serve finds %v, %v", companion, err)
	}
	helper := companion.Command[0]
	sudo := ""
	if os.Geteuid() != 0 {
		sudo = "sudo "
	}
	program.WantTexts(t, out, "containers of this host", "\n  "+sudo+helper+" up "+settings+"\n", "\n  "+sudo+helper+" doctor\n", "request.xml", "patchbay serve --config "+dir)

	code, out := runCommand(t, "check", "--config", dir)
	if code != 0 {
		t.Errorf("check: %d", code)
	}
	program.WantTexts(t, out, "1 component (0 exclusive), 1 sliver type, 1 image", "the service of the provider local does not answer", "up "+settings, "doctor")
	program.Edit(t, settings, "publish: both", "publish: nowhere")
	code, out = runCommand(t, "check", "--config", dir)
	if code == 0 {
		t.Error("wrong settings pass")
	}
	program.WantTexts(t, out, `local.yaml:`, `publish is "nowhere"`)
}

func TestInitLocalWithFlags(t *testing.T) {
	dir, _ := initLocal(t, "--public-url", "https://lab.example.org:8443", "--listen", ":0", "--outbound", "yes")
	s, err := local.ReadSettings(filepath.Join(dir, "providers", "local.yaml"))
	if err != nil || s.PublicHost != "lab.example.org" || s.Listen.IsValid() || !s.Outbound {
		t.Errorf("endpoints at %q, listening at %v, outbound %v; %v", s.PublicHost, s.Listen, s.Outbound, err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--provider", "local", "--outbound", "maybe"}, "neither yes nor no"},
		{[]string{"--provider", "simulated", "--outbound", "yes"}, "needs real nodes"},
		{[]string{"--provider", "lokal"}, "init can set up local and simulated"},
	} {
		dir := filepath.Join(t.TempDir(), "site")
		code, out := runCommand(t, append([]string{"init", "--authority", "a.example.org", dir}, tt.args...)...)
		if _, err := os.Stat(dir); code != 2 && code != 1 || err == nil {
			t.Errorf("%v: exit status %d, folder %v", tt.args, code, err)
		}
		program.WantTexts(t, out, tt.want)
	}
}
