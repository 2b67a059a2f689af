package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCheckExplains(t *testing.T) {
	dir := made(t)
	for _, c := range []struct {
		name           string
		file, old, new string
		code           int
		want           string
	}{
		{"UnknownKey", "patchbay.yaml", "listen:", "lisen:", 1, "did you mean listen?"},
		{"InventoryMistake", "inventory.yaml", "sliver_types: [raw-pc]", "sliver_typs: [raw-pc]", 1, "inventory.yaml:"},
		{"ProviderMissing", "inventory.yaml", "provider: simulated", "provider: rack", 1, `the inventory names a provider "rack"`},
		{"BrokenAnchor", "trusted/trial.pem", "MII", "mii", 1, "trusted/trial.pem"},
		{"KeyOfAnother", "patchbay.yaml", "key: server-rsa-key.pem", "key: server-ecdsa-key.pem", 1, "server-rsa.pem"},
		{"LoopbackURL", "patchbay.yaml", "# public_url: https://testbed.example.org:8443", "public_url: https://localhost:8443", 0, "clients elsewhere cannot reach"},
		{"ForeignHostInURL", "patchbay.yaml", "# public_url: https://testbed.example.org:8443", "public_url: https://am.example.net:8443", 0, "it is not for am.example.net"},
		{"MissingKey", "patchbay.yaml", "server-rsa-key.pem", "nowhere.pem", 1, "nowhere.pem"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(dir, c.file)
			before := readFile(t, file)
			defer os.WriteFile(file, []byte(before), 0o644)
			edit(t, file, c.old, c.new)
			code, out := tell(t, "check", "--config", dir)
			if code != c.code {
				t.Errorf("exit status %d, want %d", code, c.code)
			}
			has(t, out, c.want)
		})
	}
	t.Run("KeyForEverybody", func(t *testing.T) {
		file := filepath.Join(dir, "server-rsa-key.pem")
		os.Chmod(file, 0o644)
		defer os.Chmod(file, 0o600)
		code, out := tell(t, "check", "--config", dir)
		if code != 1 {
			t.Errorf("exit status %d", code)
		}
		has(t, out, "chmod 0600")
	})
	t.Run("EmptyTrust", func(t *testing.T) {
		file := filepath.Join(dir, "trusted", "trial.pem")
		before := readFile(t, file)
		os.Remove(file)
		defer os.WriteFile(file, []byte(before), 0o644)
		code, out := tell(t, "check", "--config", dir)
		if code != 1 {
			t.Errorf("exit status %d", code)
		}
		has(t, out, "nobody may call")
	})
}

func TestCheckReadsRequestsAsTheSiteWould(t *testing.T) {
	dir := made(t)
	request := func(body string) string {
		return `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3">` + "\n" + body + "\n</rspec>"
	}
	for _, c := range []struct {
		name, text string
		code       int
		want       string
	}{
		{"Good", demoRequest, 0, "2 nodes and 1 link for this site"},
		{"NotWellFormed", request("<node>"), 1, "request.xml:3: "},
		{"UnknownSliverType", request(`<node client_id="a"><sliver_type name="mainframe"/></node>`), 1, "mainframe"},
		{"SomebodyElses", request(`<node client_id="a" component_manager_id="urn:publicid:IDN+other.example.org+authority+cm"/>`), 1, "urn:publicid:IDN+testbed.example.org+authority+cm"},
		{"TwiceTheSameName", request("<node client_id=\"a\"/>\n<node client_id=\"a\"/>"), 1, "request.xml:3: "},
		{"OldVersion", `<rspec type="request" xmlns="http://www.protogeni.net/resources/rspec/2"/>`, 1, "GENI version 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "request.xml")
			if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			code, out := tell(t, "check", "--config", dir, file)
			if code != c.code {
				t.Errorf("exit status %d, want %d", code, c.code)
			}
			has(t, out, c.want)
		})
	}
}
