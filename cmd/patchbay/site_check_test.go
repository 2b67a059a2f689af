package main

import (
	"os"
	"path/filepath"
	"strings"
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
		{"ProviderMissing", "inventory.yaml", "provider: simulated", "provider: rack", 1, `inventory.yaml:11: the provider "rack"`},
		{"ProviderMisspelt", "inventory.yaml", "provider: simulated", "provider: simulatd", 1, "did you mean simulated?"},
		{"UndottedName", "patchbay.yaml", "# public_url: https://testbed.example.org:8443", "public_url: https://testbed:8443", 0, "cannot resolve the name testbed"},
		{"OtherAuthority", "patchbay.yaml", "authority: testbed.example.org", "authority: other.example.org", 0, "this is the trial authority of testbed.example.org, but authority is other.example.org in "},
		{"NoInventory", "patchbay.yaml", "# inventory: inventory.yaml", "inventory: nowhere.yaml", 1, "patchbay.yaml:37: inventory: the file "},
		{"NoProvidersFolder", "patchbay.yaml", "# providers: providers", "providers: nowhere", 1, "patchbay.yaml:38: providers: the folder "},
		{"StateInNoFolder", "patchbay.yaml", "# state: state.db", "state: nowhere/state.db", 1, "patchbay.yaml:39: state: the folder "},
		{"NoCertificate", "patchbay.yaml", "certificate: server-rsa.pem", "certificate: nowhere.pem", 1, "patchbay.yaml:26: keys: the certificate "},
		{"BrokenAnchor", "trusted/trial.pem", "MII", "mii", 1, "trusted/trial.pem"},
		{"KeyOfAnother", "patchbay.yaml", "key: server-rsa-key.pem", "key: server-ecdsa-key.pem", 1, "server-rsa.pem"},
		{"LoopbackURL", "patchbay.yaml", "# public_url: https://testbed.example.org:8443", "public_url: https://localhost:8443", 0, "clients elsewhere cannot reach"},
		{"PortOutOfRange", "patchbay.yaml", "# public_url: https://testbed.example.org:8443", "public_url: https://testbed.example.org:84430", 1, "public_url: \"https://testbed.example.org:84430\" has the port 84430"},
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
	t.Run("ProviderWhoseGetFails", func(t *testing.T) {
		file := filepath.Join(dir, "providers", "rack.prov")
		metadata := strings.TrimSuffix(file, "prov") + "yaml"
		for name, text := range map[string]string{file: "#!/bin/sh\nexit 3\n", metadata: "provider:\n  type: node\n  invoke: json\n  suitable: true\n  actions: [get, set]\n  attributes:\n    name: {type: string}\n"} {
			if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(name)
		}
		code, out := tell(t, "check", "--config", dir)
		if code != 1 {
			t.Errorf("exit status %d", code)
		}
		has(t, out, "rack.prov: get fails: ", "exit status 3", "run it by hand", "stands above")
	})
	t.Run("ProviderThatCannotBeLoadedIsToldOnce", func(t *testing.T) {
		file := filepath.Join(dir, "providers", "simulated.prov")
		os.Chmod(file, 0o644)
		defer os.Chmod(file, 0o755)
		code, out := tell(t, "check", "--config", dir)
		if code != 1 {
			t.Errorf("exit status %d", code)
		}
		has(t, out, "chmod +x", "\n1 mistake.")
		if code, out := tell(t, "serve", "--config", dir); code != 1 || !strings.Contains(out, "chmod +x") {
			t.Errorf("it serves without a provider: %s", out)
		}
	})
	t.Run("TrustFolder", func(t *testing.T) {
		trusted := filepath.Join(dir, "trusted")
		pem := readFile(t, filepath.Join(trusted, "trial.pem"))
		server := readFile(t, filepath.Join(dir, "server-rsa.pem"))
		for name, text := range map[string]string{"root.crt": pem, "fed.authorities": "example.net\n", "fed.key": "x", "TWO.PEM": pem, "srv.pem": server} {
			file := filepath.Join(trusted, name)
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(file)
		}
		code, out := tell(t, "check", "--config", dir)
		if code != 0 {
			t.Errorf("exit status %d", code)
		}
		has(t, out, "root.crt: it is passed over", "fed.authorities: it says for whom fed.pem vouches", "PRIVATE KEYS", "TWO.PEM: it is passed over")
	})
	t.Run("WeakAnchor", func(t *testing.T) {
		file := filepath.Join(dir, "patchbay.yaml")
		before := readFile(t, file)
		defer os.WriteFile(file, []byte(before), 0o644)
		edit(t, file, "# credentials:\n#   sha1_signatures: true", "credentials:\n  min_rsa_bits: 8192")
		edit(t, file, "#   min_rsa_bits: 2048\n", "")
		_, out := tell(t, "check", "--config", dir)
		has(t, out, "bits, and credentials.min_rsa_bits is 8192")
	})
	t.Run("EmptyFile", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "request.xml")
		if err := os.WriteFile(file, []byte("\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		_, out := tell(t, "check", "--config", dir, file)
		has(t, out, "request.xml: it is empty")
	})
	t.Run("SlowProvider", func(t *testing.T) {
		real := filepath.Join(dir, "providers", "simulated.prov")
		text := readFile(t, real)
		script := "#!/bin/sh\n[ $1 = ral_action=get ] && sleep 1.6\n" + strings.TrimPrefix(text, "#!/bin/sh\n")
		if err := os.WriteFile(real, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.WriteFile(real, []byte(text), 0o755)
		code, out := tell(t, "check", "--config", dir)
		if code != 0 {
			t.Errorf("exit status %d", code)
		}
		has(t, out, "note     "+real+": slow: get took ")
	})
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
		{"Good", demoRequest, 0, "3 nodes and 1 link for this site"},
		{"NotWellFormed", request("<node>"), 1, "request.xml:3:1: "},
		{"UnknownSliverType", request(`<node client_id="a"><sliver_type name="mainframe"/></node>`), 1, "mainframe"},
		{"SomebodyElses", request(`<node client_id="a" component_manager_id="urn:publicid:IDN+other.example.org+authority+cm"/>`), 1, "urn:publicid:IDN+testbed.example.org+authority+cm"},
		{"TwiceTheSameName", request("<node client_id=\"a\"/>\n<node client_id=\"a\"/>"), 1, "request.xml:3:7: "},
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
			if strings.Contains(out, ": line ") {
				t.Errorf("the line is told twice: %s", out)
			}
		})
	}
}

// TestCheckKnowsWhatIsOutOfService tells of a request what Allocate would refuse now.
func TestCheckKnowsWhatIsOutOfService(t *testing.T) {
	dir := made(t)
	request := filepath.Join(t.TempDir(), "request.xml")
	text := `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="a" component_id="urn:publicid:IDN+testbed.example.org+node+pc1"/></rspec>`
	if err := os.WriteFile(request, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule, plan string
		code       int
		want       string
	}{
		{"nothing is out of service", "", 0, "fits when enough is free"},
		{"drained", "drained:\n  - {components: [pc1]}\n", 1, "pc1 is out of service"},
		{"another is drained", "drained:\n  - {components: [pc2]}\n", 0, "fits when enough is free"},
		{"under maintenance", "planned:\n  - {components: [pc1], from: 2020-01-01T00:00:00Z, until: 2999-01-01T00:00:00Z, text: fan}\n", 1, "pc1 is under maintenance until 2999-01-01T00:00:00Z: fan"},
		{"maintenance to come", "planned:\n  - {components: [pc1], from: 2998-01-01T00:00:00Z, until: 2999-01-01T00:00:00Z, text: fan}\n", 0, "fits when enough is free"},
		{"locked down", "lockdown: {text: power cut}\n", 1, "this aggregate takes no new work for now, and what runs goes on: power cut"},
		{"a file with mistakes", "lokdown: {text: power cut}\n", 1, "lokdown"},
	} {
		if err := os.WriteFile(filepath.Join(dir, "maintenance.yaml"), []byte(c.plan), 0o644); err != nil {
			t.Fatal(err)
		}
		code, out := tell(t, "check", "--config", dir, request)
		if code != c.code || !strings.Contains(out, c.want) || (code != 0 && strings.Contains(out, "fits when")) {
			t.Errorf("%s: exit status %d\n%s", c.rule, code, out)
		}
	}
}
