package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/am/client"
	"patchbay/am/testkit/program"
	"patchbay/am/testkit/require"
	"patchbay/am/urn"
	"patchbay/credentials/trial"
)

// servedSite is a site that the built program serves.
type servedSite struct {
	t    testing.TB
	dir  string
	bin  string
	name string
	cmd  *exec.Cmd
	user *syscall.Credential // the user of the server; nil for the test's
	url  string
	// admin is the URL of the admin listener, and pages that of the pages; "" for none.
	admin, pages string
	log          *os.File
}

// newServedSite creates a site with simulated nodes that trusts f.
func newServedSite(t testing.TB, name string, f *federation, root *identity) *servedSite {
	t.Helper()
	s := &servedSite{t: t, name: name, dir: filepath.Join(t.TempDir(), "site")}
	program.NewSiteAt(t, s.dir, []string{"init", "--authority", name, "--public-url", "https://am.example.org:8443"})
	if root != nil {
		program.Write(t, filepath.Join(s.dir, "trusted", "theirs.pem"), program.ReadFile(t, root.cert))
	}
	s.open()
	return s
}

// serve serves a site that exists.
func serve(t testing.TB, dir string) *servedSite {
	t.Helper()
	s := &servedSite{t: t, dir: dir}
	s.open()
	s.start()
	return s
}

// open opens the log of the server. When the test ends, it ends the server and examines its log.
func (s *servedSite) open() {
	s.t.Helper()
	t := s.t
	var err error
	if s.bin, err = program.Build(); err == nil {
		s.log, err = os.Create(filepath.Join(s.dir, "log"))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		b, _ := os.ReadFile(s.log.Name())
		if bytes.Contains(b, []byte("WARNING: DATA RACE")) {
			t.Errorf("the race detector found:\n%s", b[max(0, len(b)-8000):])
		} else if t.Failed() {
			t.Logf("the server's log ends with:\n%s", b[max(0, len(b)-4000):])
		}
		s.log.Close()
	})
}

// appendSettings replaces the settings of the simulated provider.
func (s *servedSite) appendSettings(text string) {
	s.t.Helper()
	program.Write(s.t, filepath.Join(s.dir, "providers", "simulated.yaml"), text)
}

// start starts the server, and waits for the line with its addresses.
func (s *servedSite) start() {
	s.t.Helper()
	var at program.Addresses
	s.cmd, at = program.Serve(s.t, s.dir, s.log, s.user, "--listen", "127.0.0.1:0")
	u, err := url.Parse(at.API)
	if err != nil {
		s.t.Fatal(err)
	}
	s.url = "https://" + net.JoinHostPort("127.0.0.1", u.Port())
	s.admin, s.pages = at.Admin, at.Pages
}

func (s *servedSite) kill() {
	if s.cmd != nil {
		s.cmd.Process.Signal(syscall.SIGKILL)
		s.cmd.Wait()
		s.cmd = nil
	}
}

// stop stops the server as an operator does.
func (s *servedSite) stop() {
	s.t.Helper()
	s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("the server did not stop well: %v", err)
	}
	s.cmd = nil
}

// client returns a client with an identity's certificate, with or without the chain.
func (s *servedSite) client(id *identity, chain bool) *client.Client {
	s.t.Helper()
	file := id.cert
	if chain {
		file = id.full
	}
	c, err := client.New(client.Config{URL: s.url + "/am/3.0", CertFile: file, KeyFile: id.key, Timeout: time.Minute})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

func signedCredentials(texts ...string) []client.Credential {
	var list []client.Credential
	for _, t := range texts {
		list = append(list, client.Credential{Text: t})
	}
	return list
}

// sshKey returns a new public key.
func sshKey(t testing.TB) string {
	t.Helper()
	require.SSH(t)
	dir := t.TempDir()
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice@home", "-f", dir+"/k").CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v %s", err, out)
	}
	line := strings.TrimSpace(program.ReadFile(t, dir+"/k.pub"))
	if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line)); err != nil {
		t.Fatal(err)
	}
	return line
}

const oneNode = `<?xml version="1.0" encoding="UTF-8"?>
<rspec xmlns="http://www.geni.net/resources/rspec/3" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:j="http://jfed.iminds.be/rspec/ext/jfed/1" xsi:schemaLocation="http://www.geni.net/resources/rspec/3 http://www.geni.net/resources/rspec/3/request.xsd" type="request" generated_by="jFed RSpec Editor" generated="2026-01-01T12:00:00.123+01:00">
  <!-- one node -->
  <node client_id='node0' component_manager_id="urn:publicid:IDN+testbed.example.org+authority+am" exclusive="true"><sliver_type name="raw-pc"/><j:location x="100.0" y="50.5"/></node>
  <node client_id="theirs" component_manager_id="urn:publicid:IDN+other.example.org+authority+cm"><sliver_type   name="x"/></node>
</rspec>`

// TestOutsideLife runs a whole experiment with independent tools: openssl creates
// certificates with the access method that Go's parser refuses, xmlsec1 signs
// credentials, and the calls are those of jFed's automated test.
func TestOutsideLife(t *testing.T) {
	for _, sub := range []bool{false, true} { // whether the authority of user and slice is a sub-authority
		t.Run(fmt.Sprintf("sub-authority %v", sub), func(t *testing.T) {
			t.Parallel() // it mostly waits
			f := newFederation(t, "fed.example.org")
			root := f.issue(f.urn("authority", "ca"), true, nil)
			issuer := root
			if sub {
				f.name = "fed.example.org:proj"
				issuer = f.issue(f.urn("authority", "sa"), true, root)
				f.keyAlg = []string{"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"}
			}
			user := f.issue(f.urn("user", "alice"), false, issuer)
			slice := f.issue(f.urn("slice", "test_1.x"), false, issuer)
			if !sub {
				f.sigAlg, f.digAlg = "http://www.w3.org/2000/09/xmldsig#rsa-sha1", "http://www.w3.org/2000/09/xmldsig#sha1"
			}
			userCred := f.sign(statement{owner: user, target: user, privileges: []string{"*"}}, issuer)
			sliceCred := f.sign(statement{owner: user, target: slice, privileges: []string{"*"}}, issuer)

			s := newServedSite(t, "testbed.example.org", f, root)
			s.appendSettings("timing: {make: 1s, start: 1s, stop: 100ms, restart: 200ms, users: 100ms, remove: 50ms}\njitter: 0\n")
			s.start()
			jfedScript(t, (&clientTestSite{s, nil}).newClientOf(t, trial.User{
				URN: urn.MustParse(user.urn), Certificate: []byte(program.ReadFile(t, user.full)), Key: []byte(program.ReadFile(t, user.key)), Credential: []byte(userCred), SSHPublicKey: []byte(sshKey(t)),
			}, 3), slice.urn, sliceCred)
			s.stop()
		})
	}
}

// checkManifest checks that the manifest keeps everything foreign in the request
// unchanged.
func checkManifest(t *testing.T, manifest, sliver string) {
	t.Helper()
	_, theirs, _ := strings.Cut(oneNode, `<node client_id="theirs"`)
	program.WantTexts(t, manifest, `<node client_id="theirs"`+theirs, "<!-- one node -->", `<j:location x="100.0" y="50.5"/>`, "client_id='node0'",
		`sliver_id="`+sliver+`"`, "http://www.geni.net/resources/rspec/3/manifest.xsd", `type="manifest"`)
}

// patchbay runs the built program, and returns its output and exit status.
func (s *servedSite) patchbay(args ...string) (stdout, stderr string, status int) {
	s.t.Helper()
	var out, errs bytes.Buffer
	c := exec.Command(filepath.Join(s.bin, "patchbay"), args...)
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		s.t.Fatal(err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}
