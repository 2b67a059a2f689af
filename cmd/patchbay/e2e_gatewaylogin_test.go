package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnHostLoginThroughAGateway logs in to a node without a port of its own, with
// "patchbay ssh" and with its ssh_config, also if another configuration includes that.
func TestOnHostLoginThroughAGateway(t *testing.T) {
	s := newLocalSite(t, "gateway.example.org")
	edit(t, s.settings, "publish: both", "publish: gateway")
	s.start()
	setPublicURL(t, s.dir, s.url)
	request := filepath.Join(s.dir, "lan.xml")
	write(t, request, `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3">
  <node client_id="server"><sliver_type name="container"/></node>
</rspec>
`)
	s.runOK("user", "alice")
	s.runOK("up", request, "--user", "alice")
	config := filepath.Join(s.dir, "users", "alice", "ssh_config")
	wantTexts(t, readFile(t, config), "ProxyJump")
	if out, err := exec.Command(filepath.Join(s.bin, "patchbay"), "ssh", "--config", s.dir, "--user", "alice", "server", "id", "-un").CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "alice" {
		t.Errorf("patchbay ssh: %v\n%s", err, out)
	}

	including := filepath.Join(t.TempDir(), "config")
	write(t, including, "Include "+config+"\n")
	for _, file := range []string{config, including} {
		out, err := exec.Command("ssh", "-F", file, "-o", "BatchMode=yes", "server.lan.patchbay", "geni-get client_id").CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != "server" {
			t.Fatalf("ssh -F %s: %v\n%s", file, err, out)
		}
	}
	copied := filepath.Join(t.TempDir(), "request.xml")
	if out, err := exec.Command("scp", "-F", config, "-o", "BatchMode=yes", request, "server.lan.patchbay:request.xml").CombinedOutput(); err != nil {
		t.Fatalf("scp to the node: %v\n%s", err, out)
	}
	if out, err := exec.Command("scp", "-F", config, "-o", "BatchMode=yes", "server.lan.patchbay:request.xml", copied).CombinedOutput(); err != nil {
		t.Fatalf("scp from the node: %v\n%s", err, out)
	}
	if readFile(t, copied) != readFile(t, request) {
		t.Error("the file has changed on its way")
	}
	s.runOK("down", "--user", "alice", "--yes")
}
