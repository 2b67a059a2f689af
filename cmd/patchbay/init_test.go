package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/testkit/program"
)

func TestInitCreatesValidSite(t *testing.T) {
	dir := program.NewSite(t)
	for name, mode := range map[string]fs.FileMode{
		"authority": 0o700 | fs.ModeDir, "authority/authority.key": 0o400, "authority/sa.key": 0o600, "server-rsa-key.pem": 0o600,
		"server-ecdsa-key.pem": 0o600, "patchbay.yaml": 0o644, "inventory.yaml": 0o644,
		"trusted/trial.pem": 0o644, "providers/simulated.prov": 0o755, "providers/simulated.yaml": 0o644,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if info.Mode() != mode {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), mode)
		}
	}
	for _, kind := range []string{"ecdsa", "rsa"} {
		block, _ := pem.Decode([]byte(program.ReadFile(t, filepath.Join(dir, "server-"+kind+".pem"))))
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"localhost", "127.0.0.1", "::1"} {
			if err := c.VerifyHostname(host); err != nil {
				t.Errorf("%s certificate: %v", kind, err)
			}
		}
		if got := c.PublicKeyAlgorithm.String(); !strings.EqualFold(got, kind) {
			t.Errorf("the %s certificate has a key of %s", kind, got)
		}
	}
	code, out := runCommand(t, "check", "--config", dir)
	if code != 0 || strings.Contains(out, "error") {
		t.Errorf("check: %d\n%s", code, out)
	}
	program.WantTexts(t, out, "24 components (20 exclusive)", "covers testbed.example.org and below", "provider simulated of type node", "RSA certificate", "ECDSA certificate")
}

func TestPrintedCommandsRunAsPrinted(t *testing.T) {
	before := display.Program
	defer func() { display.Program = before }()
	display.Program = "../my tools/patchbay"
	dir := filepath.Join(t.TempDir(), "my site")
	code, out := runCommand(t, "init", "--authority", "testbed.example.org", "--public-url", "https://testbed:8443", dir)
	if code != 0 {
		t.Fatal(out)
	}
	file := "'" + dir + "'"
	program.WantTexts(t, out, "'../my tools/patchbay' serve --config "+file, "'../my tools/patchbay' slice first --owner alice --config "+file,
		"Clients will use https://testbed:8443", "cannot resolve testbed", "--public-url", "request.xml")
	_, out = runCommand(t, "user", "alice", "--config", dir)
	program.WantTexts(t, out, "'../my tools/patchbay' slice first --owner alice --config "+file)
	_, out = runCommand(t, "slice", "first", "--owner", "alice", "--config", dir)
	program.WantTexts(t, out, "'../my tools/patchbay' call --user alice --slice first --config "+file)
	_, out = runCommand(t, "serve", "--colour")
	program.WantTexts(t, out, "see: '../my tools/patchbay' serve --help")
	if code, out := runCommand(t, "check", "--config", dir, filepath.Join(dir, "request.xml")); code != 0 {
		t.Error(out)
	}
}

// TestNewSitesAcceptWhatTheyList checks one request for each sliver type with its images, and for
// each link type, and features that users write without knowing the site.
func TestNewSitesAcceptWhatTheyList(t *testing.T) {
	for kind, args := range map[string][]string{"simulated": nil, "local": {"--provider", "local"}} {
		dir := filepath.Join(t.TempDir(), kind)
		if code, out := runCommand(t, append([]string{"init", "--authority", "testbed.example.org", "--public-url", "https://localhost:8443", dir}, args...)...); code != 0 {
			t.Fatal(out)
		}
		c, err := site.ReadConfig(filepath.Join(dir, site.ConfigName))
		if err != nil {
			t.Fatal(err)
		}
		inv, err := c.LoadInventory()
		if err != nil {
			t.Fatal(err)
		}
		requests := map[string]string{}
		for _, s := range inv.SliverTypes {
			for _, i := range s.Images {
				requests[s.Name+" with "+i.Name] = fmt.Sprintf(`<node client_id="n"><sliver_type name=%q><disk_image name=%q/></sliver_type></node>`, s.Name, i.Name)
			}
		}
		for _, l := range inv.LinkTypes {
			requests[l] = fmt.Sprintf(`<node client_id="a"><interface client_id="a:0"/></node><node client_id="b"><interface client_id="b:0"/></node>
				<link client_id="l"><interface_ref client_id="a:0"/><interface_ref client_id="b:0"/><link_type name=%q/></link>`, l)
		}
		for name, body := range requests {
			file := filepath.Join(t.TempDir(), "request.xml")
			text := `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request">` + body + `</rspec>`
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if code, out := runCommand(t, "check", "--config", dir, file); code != 0 {
				t.Errorf("%s: %s: %s", kind, name, out)
			}
		}
		radl := filepath.Join(t.TempDir(), "small.radl")
		text := "network net (outbound = 'no')\nsystem small (\n  cpu.arch = 'AMD64' and\n  cpu.count >= 1 and\n  memory.size >= 512M and\n  net_interface.0.connection = 'net' and\n  disk.0.os.name = 'linux' and\n  disk.0.free_size >= 1G\n)\ndeploy small 1\n"
		if runtime.GOARCH != "amd64" {
			text = strings.Replace(text, "AMD64", runtime.GOARCH, 1)
		}
		if err := os.WriteFile(radl, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, out := runCommand(t, "check", "--config", dir, radl); code != 0 {
			t.Errorf("%s: %s", kind, out)
		}
	}
}
