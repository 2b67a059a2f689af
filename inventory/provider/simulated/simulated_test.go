package simulated

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/inventory/provider"
)

func TestLifeOfANode(t *testing.T) {
	b := setUp(t, "")
	b.expect(0, "a", "absent")
	b.mustSet("[" + nodeUpdate("a", "PC_1", "off") + "]")
	b.expect(0, "a", "changing")
	b.expect(1999*time.Millisecond, "a", "changing")
	b.expect(time.Millisecond, "a", "ready")
	if got := b.getNode("a"); got["login"] != nil || got["host_keys"] != nil {
		t.Errorf("has endpoints while it is off: %v", got)
	}
	b.mustSet(`[{"name":"a","should":{"power":"on"}}]`)
	b.expect(1499*time.Millisecond, "a", "changing")
	b.expect(time.Millisecond, "a", "ready")
	up := b.getNode("a")
	if diff := cmp.Diff([]string{"pc-1.sim.example.org:22"}, up["login"]); diff != "" {
		t.Errorf("login (-want +got):\n%s", diff)
	}
	if o := provider.ObservedNode(up); len(o.Logins) != 1 || len(o.HostKeys) != 1 || len(o.Addresses) != 1 {
		t.Errorf("a manager would read %+v", o)
	}
	b.mustSet(`[{"name":"a","should":{"restart_serial":"1"}}]`)
	if b.expect(1999*time.Millisecond, "a", "changing"); b.getNode("a")["login"] != nil {
		t.Error("has endpoints while it restarts")
	}
	b.expect(time.Millisecond, "a", "ready")
	b.mustSet(`[{"name":"a","should":{"users":["{\"login\":\"u\"}"]}}]`)
	if b.expect(199*time.Millisecond, "a", "changing"); b.getNode("a")["login"] == nil {
		t.Error("lost its endpoints while accounts are updated")
	}
	b.expect(time.Millisecond, "a", "ready")
	b.mustSet(`[{"name":"a","should":{"power":"off"}}]`)
	b.expect(500*time.Millisecond, "a", "ready")
	b.mustSet(`[{"name":"a","should":{"hostname":"web","client_id":"w","slice_urn":"S","sliver_urn":"V","interfaces":["{}"],"restart_serial":"2"}}]`)
	b.expect(time.Second, "a", "ready")
	want := provider.Resource{
		"name": "a", "ensure": "present", "power": "off", "restart_serial": "2", "component": "PC_1", "sliver_type": "", "image": "",
		"hostname": "web", "client_id": "w", "slice_urn": "S", "sliver_urn": "V", "users": []string{`{"login":"u"}`}, "interfaces": []string{"{}"}, "state": "ready", "addresses": []string{"192.0.2.1"},
	}
	if diff := cmp.Diff(want, b.getNode("a")); diff != "" {
		t.Errorf("in the end (-want +got):\n%s", diff)
	}
	gone := `[{"name":"a","should":{"ensure":"absent"}}]`
	b.mustSet(gone)
	b.expect(499*time.Millisecond, "a", "changing")
	b.mustSet(gone) // again, which does not start it anew
	b.expect(time.Millisecond, "a", "absent")
	b.mustSet(gone)
	b.expect(0, "a", "absent")
}

func TestRefusals(t *testing.T) {
	b := setUp(t, "")
	b.mustSet("[" + nodeUpdate("a", "pc1", "on") + "," + nodeUpdate("leaving", "pc2", "on") + "]")
	b.mustSet(`[{"name":"leaving","should":{"ensure":"absent"}}]`)
	b.mustSet(`[{"name":"told","should":{"ensure":"present","component":"pc3","client_id":"w"}}]`)
	changes, err := b.accept(false, `[
		{"name":"nobody","should":{"power":"on"}},
		{"name":"homeless","should":{"ensure":"present"}},
		{"name":"a","should":{"image":"other"}},
		{"name":"leaving","should":{"power":"off"}},
		{"name":"told","should":{"client_id":"other"}},
		{"should":{"ensure":"present"}},
		`+nodeUpdate("b", "pc1", "on")+`]`)
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]string{"nobody": "unknown", "homeless": "failed", "a": "failed", "leaving": "failed", "told": "failed", "": "failed"} {
		if e, _ := changes[name]["error"].(map[string]any); e["kind"] != kind {
			t.Errorf("%q: %v, want kind %s", name, changes[name], kind)
		}
	}
	if changes["b"]["error"] != nil || b.stateOf("b") != "changing" {
		t.Errorf("b was not accepted beside them: %v", changes["b"])
	}
	if b.getNode("b")["login"] != nil {
		t.Error("b has endpoints too early")
	}
	b.now = b.now.Add(time.Minute)
	if a, b := b.getNode("a").List("login"), b.getNode("b").List("login"); slices.Equal(a, b) || len(b) != 1 {
		t.Errorf("two nodes of one component have the endpoints %v and %v", a, b)
	}
}

func TestInterfacesHaveHardwareAddresses(t *testing.T) {
	b := setUp(t, "")
	ports := []string{`{"client_id":"a:0","link":"l","vlan":101,"addresses":["10.128.0.1/24"]}`, `{"client_id":"a:\u003c1"}`, `{"role":"control","public_address":"192.0.2.10"}`, `eth7`}
	asked, _ := json.Marshal(ports)
	b.mustSet(`[{"name":"a","should":{"ensure":"present","component":"pc1","interfaces":` + string(asked) + `}},{"name":"b","should":{"ensure":"present","component":"pc1","interfaces":` + string(asked) + `}}]`)
	a, other := b.getNode("a"), b.getNode("b")
	macs := provider.ObservedNode(a).MACs
	if len(macs) != 2 || !strings.HasPrefix(macs["a:0"], "02:") || macs["a:0"] == macs["a:<1"] || macs["a:<1"] == "" {
		t.Errorf("hardware addresses %v of %q", macs, a["interfaces"])
	}
	if got := provider.ObservedNode(a).Emulators; len(got) != 1 || got["a:0"] != "simulated" {
		t.Errorf("emulators %v", got)
	}
	if provider.ObservedNode(other).MACs["a:0"] == macs["a:0"] {
		t.Error("two nodes have the same")
	}
	should := provider.Resource{"interfaces": ports}
	if diff := provider.Diff(a, should); len(diff) != 0 {
		t.Errorf("would be asked again for %q, is %q", diff, a["interfaces"])
	}
	b.now = b.now.Add(time.Hour)
	b.mustSet(`[{"name":"a","should":{"power":"off"}}]`)
	if diff := cmp.Diff(macs, provider.ObservedNode(b.getNode("a")).MACs); diff != "" {
		t.Errorf("they do not last (-before +after):\n%s", diff)
	}
}

func TestAddressesAreReserved(t *testing.T) {
	seen := map[string]bool{}
	for place := range 100_000 {
		a := address(place)
		seen[a] = true
		if p := strings.SplitN(a, ".", 4); len(p) != 4 || !slices.Contains([]string{"192.0.2", "198.51.100", "203.0.113"}, strings.Join(p[:3], ".")) && p[0]+"."+p[1] != "198.18" && p[0]+"."+p[1] != "198.19" {
			t.Fatalf("place %d has the address %s", place, a)
		}
	}
	if len(seen) != 100_000 {
		t.Errorf("%d addresses for 100000 places", len(seen))
	}
	if address(1<<30) == "" {
		t.Error("no address beyond the ranges")
	}
}

func TestZeroTimesAreReadyAtOnce(t *testing.T) {
	b := setUp(t, "timing: {make: 0s, start: 0s}")
	b.mustSet("[" + nodeUpdate("a", "pc1", "on") + "]")
	b.expect(0, "a", "ready")
}

func TestScript(t *testing.T) {
	if got, want := string(Script("/opt/bin/patchbay-local", "simulated")), "#!/bin/sh\nexec /opt/bin/patchbay-local simulated --name simulated \"$@\"\n"; got != want {
		t.Errorf("Script = %q, want %q", got, want)
	}
	if got := string(Script("/it's here/x", "y")); !strings.Contains(got, `'/it'\''s here/x'`) {
		t.Errorf("Script = %q", got)
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct{ rule, name, argument, in string }{
		{"a name that leads out", "../x", "ral_action=get", "{}"},
		{"no name", "", "ral_action=get", "{}"},
		{"not an action", "x", "get", "{}"},
		{"unknown action", "x", "ral_action=list", "{}"},
		{"input is no JSON", "x", "ral_action=get", "names"},
		{"input of the wrong form", "x", "ral_action=set", `{"updates":7}`},
	} {
		var out bytes.Buffer
		if err := Run(dir, tt.name, tt.argument, strings.NewReader(tt.in), &out); err == nil || out.Len() > 0 {
			t.Errorf("%s: %v, answered %q", tt.rule, err, &out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "x.yaml"), []byte("jitter: 7"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Run(dir, "x", "ral_action=get", strings.NewReader("{}"), &out); err != nil || !strings.Contains(out.String(), `"x.yaml:1: jitter is `) {
		t.Errorf("bad settings: %v, answered %q", err, &out)
	}
}

func FuzzSet(f *testing.F) {
	f.Add(`[{"name":"a","should":{"ensure":"present","component":"pc1","power":"on"}}]`, int64(3))
	f.Add(`[{"name":"a","should":{"ensure":"absent"}},{"name":"a","should":{"users":["x"]}}]`, int64(0))
	f.Add(`[{"name":"a","should":{"ensure":"present","component":"pc1","power":"on","setup":["{\"kind\":\"install\",\"url\":\"fail\"}","x"]}},{"name":"a","should":{"power":"off"}}]`, int64(9))
	f.Add(`[{"name":"a","should":{"ensure":"present","component":"pc1","power":"on","setup_stage":"1","setup":["{\"kind\":\"execute\",\"stage\":1,\"command\":\"fail once\"}"]}},{"name":"a","should":{"setup_stage":"0"}},{"name":"a","should":{"setup_stage":"1"}}]`, int64(9))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string, seconds int64) {
		var u []update
		if json.Unmarshal([]byte(text), &u) != nil {
			return
		}
		now := time.Unix(seconds%1e6, 0)
		s := &simulation{settings: defaults(), state: dir, now: func() time.Time { return now }}
		if o := s.set(u, false); o["error"] != nil {
			t.Fatal(o)
		}
		if o := s.get(nil); o["error"] != nil {
			t.Fatal(o)
		}
	})
}
