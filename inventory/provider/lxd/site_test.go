package lxd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/service/maintenance"
	"patchbay/inventory"
)

// newSite returns a server, and the folder of a site whose provider lxd uses it.
func newSite(t *testing.T, inventory string) (f *fake, site string) {
	t.Helper()
	f, dir := newFake(t)
	site = t.TempDir()
	if err := os.Rename(dir, filepath.Join(site, "providers")); err != nil {
		t.Fatal(err)
	}
	writeTest(t, filepath.Join(site, "patchbay.yaml"), "")
	writeTest(t, filepath.Join(site, inventoryFile), inventory)
	return f, site
}

func writeTest(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readTest(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestNewInventory is accepted as a server reads it.
func TestNewInventory(t *testing.T) {
	_, site := newSite(t, "provider: simulated\ncomponents:\n  - name: pc1\n")
	path := filepath.Join(site, inventoryFile)
	if err := UpdateInventory(t.Context(), InventoryOptions{Site: site, Name: "lxd", Replace: true, Progress: t.Logf}); err != nil {
		t.Fatal(err)
	}
	inv, err := inventory.Load(path, "example.org")
	if err != nil {
		t.Fatal(err)
	}
	c, ok := inv.ComponentNamed("m1")
	if !ok || c.Provider != "lxd" || len(inv.Components) != 1 || c.Capacity.Slots != 200 || c.Capacity.Memory != 64<<10 || c.Capacity.Disk != 400<<10 {
		t.Errorf("%+v", c)
	}
	if old := readTest(t, path+".old"); !strings.Contains(old, "pc1") {
		t.Errorf("the former inventory is\n%s", old)
	}
}

func TestInventoryKeepsExistingEntries(t *testing.T) {
	const mine = "- name: m1\n  provider: lxd\n  exclusive: false\n  sliver_types: [\"container\"]\n  capacity: {slots: 200, memory: 65536M, disk: 409600M}\n"
	for _, tt := range []struct{ rule, before, after string }{
		{"at the end", "components: # mine\n  - {name: pc1, provider: simulated} # old\n", "components: # mine\n  - {name: pc1, provider: simulated} # old\n  " + strings.ReplaceAll(strings.TrimSpace(mine), "\n", "\n  ") + "\n"},
		{"before another key", "components:\n- name: pc1\nprovider: simulated\n", "components:\n- name: pc1\n" + mine + "provider: simulated\n"},
		{"no line end", "components:\n- name: pc1", "components:\n- name: pc1\n" + mine},
		{"the member is there", "provider: lxd\ncomponents:\n- names: m1..m4\n", "provider: lxd\ncomponents:\n- names: m1..m4\n"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			_, site := newSite(t, tt.before)
			if err := UpdateInventory(t.Context(), InventoryOptions{Site: site, Name: "lxd", Progress: t.Logf}); err != nil {
				t.Fatal(err)
			}
			if got := readTest(t, filepath.Join(site, inventoryFile)); got != tt.after {
				t.Errorf("got\n%s\nwant\n%s", got, tt.after)
			}
		})
	}
	_, site := newSite(t, "components: [{name: pc1}]\n")
	err := UpdateInventory(t.Context(), InventoryOptions{Site: site, Name: "lxd", Progress: t.Logf})
	if err == nil || !strings.Contains(err.Error(), "add these lines") {
		t.Errorf("a list that cannot be extended: %v", err)
	}
}

// TestLostMemberIsDrained with the reason, and is back by itself. Drains of operators stay.
func TestLostMemberIsDrained(t *testing.T) {
	f, site := newSite(t, "components:\n- {name: m1, provider: lxd}\n- {name: pc1, provider: simulated}\n")
	file := filepath.Join(site, "maintenance.yaml")
	look := func(status string) *maintenance.Drain {
		f.mu.Lock()
		f.status = status
		f.mu.Unlock()
		_ = os.Remove(filepath.Join(site, "providers", "lxd.members"))
		get(t, filepath.Join(site, "providers"))
		plan, err := maintenance.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		return plan.Drain("m1")
	}
	if d := look("Online"); d != nil {
		t.Errorf("drained: %+v", d)
	}
	if d := look("Offline"); d == nil || d.By != "lxd.prov" || d.Text != `the member is "Offline"` {
		t.Errorf("not drained with the reason: %+v", d)
	}
	if d := look("Online"); d != nil {
		t.Errorf("still drained: %+v", d)
	}
	if _, err := maintenance.Change(file, func(d *maintenance.Draft) error {
		d.AddDrain(maintenance.Drain{Components: []string{"m1"}, Since: time.Now(), By: "alice"})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, status := range []string{"Offline", "Online"} {
		if d := look(status); d == nil || d.By != "alice" {
			t.Errorf("%s: alice's drain is now %+v", status, d)
		}
	}
}

func TestMetrics(t *testing.T) {
	_, dir := newFake(t)
	set(t, dir, false, present)
	finish(t, dir)
	var b bytes.Buffer
	if err := WriteMetrics(t.Context(), dir, "lxd", &b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`patchbay_lxd_member_online{provider="lxd",member="m1"} 1`, `patchbay_lxd_nodes_running{provider="lxd",member="m1"} 1`,
		`patchbay_lxd_memory_used_bytes{provider="lxd",member="m1"} 5368709120`, `patchbay_lxd_link_bridges{provider="lxd"} 1`,
	} {
		if !strings.Contains(b.String(), line+"\n") {
			t.Errorf("no line %s in\n%s", line, &b)
		}
	}
}

// TestNextRemote is used when the first one does not answer.
func TestNextRemote(t *testing.T) {
	f, dir := newFake(t)
	writeTest(t, filepath.Join(dir, "lxd.yaml"), "remote: [https://127.0.0.1:1, "+f.URL+"]\n")
	set(t, dir, false, present)
	finish(t, dir)
	if r := get(t, dir); r["state"] != "ready" {
		t.Errorf("%v", r)
	}
}
