package main

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/testkit/program"
	"patchbay/credentials/trial"
)

// TestLoginChecksTheAnswer gives the answers of hostile authorities. What passes goes into files.
func TestLoginChecksTheAnswer(t *testing.T) {
	t.Parallel()
	now := time.Now()
	create := func(name string) (*trial.Authority, trial.User, *rsa.PublicKey) {
		a, err := trial.Create(t.TempDir(), name, now)
		if err != nil {
			t.Fatal(err)
		}
		u, err := a.User("alice", now)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(u.Key)
		key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return a, u, &key.PublicKey
	}
	a, alice, key := create("example.org")
	_, other, _ := create("elsewhere.org")
	const manager = "urn:publicid:IDN+example.org+authority+cm"
	certificate := string(alice.Certificate)
	for _, x := range []struct{ rule, certificate, manager, says string }{
		{"the right answer", certificate, manager, ""},
		{"texts between certificates", "[omni]\n" + strings.ReplaceAll(certificate, "-----END CERTIFICATE-----\n", "-----END CERTIFICATE-----\ncert = /etc/passwd\n"), manager, ""},
		{"a line break after the aggregate", certificate, manager + "\n[omni]\ndefault_cf = x", "aggregate"},
		{"a line break in the aggregate", certificate, "urn:publicid:IDN+example.org\n+authority+cm", "aggregate"},
		{"a second value", certificate, manager + ",https://attacker.example.org", "no URN of an aggregate"},
		{"a reference to another setting", certificate, manager + "%(key)s", "no URN of an aggregate"},
		{"a user as the aggregate", certificate, "urn:publicid:IDN+example.org+user+alice", "no URN of an aggregate"},
		{"no aggregate", certificate, "", "aggregate"},
		{"the certificate of another key", string(other.Certificate), manager, "not of your key"},
		{"no certificate", "", manager, "certificate"},
	} {
		got, err := readAccepted(xmlrpc.Struct{{Name: "certificate", Value: x.certificate}, {Name: "aggregate", Value: x.manager}}, key, a.Certificate())
		if x.says != "" {
			if err == nil || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%s: %v, want %q", x.rule, err, x.says)
			}
			continue
		}
		if err != nil || string(got.chain) != certificate || got.manager.String() != manager || got.user.Name != "alice" {
			t.Errorf("%s: %+v, %v", x.rule, got, err)
		}
	}
	foreign, _, _ := create("elsewhere.org")
	if _, err := readAccepted(xmlrpc.Struct{{Name: "certificate", Value: certificate}, {Name: "aggregate", Value: manager}}, key, foreign.Certificate()); err == nil {
		t.Error("a certificate of another authority is accepted")
	}
}

// TestShare gives a partner a login by the files of the site. The partner then
// sees the nodes, and the nodes have the partner's account.
func TestShare(t *testing.T) {
	t.Parallel()
	dir := program.NewSite(t, []string{"user", "alice", "bob"})
	program.RemoveSimulatedDelays(t, dir)
	s := serve(t, dir)
	defer s.stop()
	run := func(want string, args ...string) string {
		t.Helper()
		code, out := runCommand(t, args...)
		if !strings.Contains(out, want) || code != 0 {
			t.Fatalf("%v: %d\n%s", args, code, out)
		}
		return out
	}
	request := filepath.Join(dir, "request.xml")
	run("is its LEAD", "authority", "project", "course", "--lead", "alice", "--config", dir)
	run("course", "authority", "projects", "--config", dir)
	run("Removed", "authority", "project", "course", "--remove", "--config", dir)

	run("+alice until", strings.Fields("slice empty --owner alice --config "+dir)...)
	run("It has no nodes", strings.Fields("share empty bob --user alice --config "+dir+" --url "+s.url)...)
	run("NODE", "up", request, "--slice", "star", "--user", "alice", "--config", dir, "--url", s.url)
	for range 2 {
		run("has a login on its nodes", strings.Fields("share star bob --user alice --config "+dir+" --url "+s.url)...)
	}
	run("star, delegated to you", strings.Fields("status --user bob --config "+dir+" --url "+s.url)...)
	run(`username="bob"`, strings.Fields("call Describe -o - --user bob --slice star --config "+dir+" --url "+s.url)...)
}
