package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
)

// crl creates a CRL of an issuer with openssl.
func (f *federation) crl(issuer *identity, revoked ...*identity) string {
	f.t.Helper()
	f.serial++
	base := filepath.Join(f.dir, fmt.Sprintf("%d.ca", f.serial))
	var index strings.Builder
	for _, x := range revoked {
		serial := strings.TrimSpace(strings.TrimPrefix(f.run(f.openssl, "x509", "-noout", "-serial", "-in", x.cert), "serial="))
		fmt.Fprintf(&index, "R\t301231235959Z\t260101000000Z,keyCompromise\t%s\tunknown\t/CN=x\n", serial)
	}
	os.WriteFile(base+".index", []byte(index.String()), 0o600)
	os.WriteFile(base, fmt.Appendf(nil, "[ca]\ndefault_ca=a\n[a]\ndatabase=%s.index\ndefault_md=sha256\ndefault_crl_days=7\n", base), 0o600)
	return f.run(f.openssl, "ca", "-gencrl", "-config", base, "-keyfile", issuer.key, "-cert", issuer.cert)
}

// trust writes a file into the trust folder atomically; "" removes it.
func (s *servedSite) trust(name, text string) {
	s.t.Helper()
	file := filepath.Join(s.dir, "trusted", name)
	if text == "" {
		os.Remove(file)
		return
	}
	program.Write(s.t, file+".new", text)
	if err := os.Rename(file+".new", file); err != nil {
		s.t.Fatal(err)
	}
}

// TestTrustChangesWhileServing revokes, denies and removes authorities of a served site, with
// CRLs made by openssl. The next calls over the same connection follow each change. The
// tests of credentials/cert and am/site have the rules.
func TestTrustChangesWhileServing(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newFederation(t, "fed.example.org")
	root := f.issue(f.urn("authority", "ca"), true, nil)
	user := f.issue(f.urn("user", "alice"), false, root)
	cred := signedCredentials(f.sign(statement{owner: user, target: user, privileges: []string{"*"}}, root))
	s := newServedSite(t, "testbed.example.org", f, root)
	s.start()
	c := s.client(user, true)
	next := func(why string, want am.Code, text string) {
		t.Helper()
		var r client.Reply
		wait.Clear(t, func() string {
			if _, r, _ = c.ListResources(t.Context(), cred, client.Options{}); r.Code == want && strings.Contains(r.Output, text) {
				return ""
			}
			return fmt.Sprintf("%s: code %d, %q; want %d, %q", why, r.Code, r.Output, want, text)
		})
	}
	next("at first", am.Success, "")
	s.trust("fed.crl", f.crl(root, user))
	next("a CRL", am.Forbidden, "revoked")
	s.trust("fed.crl", "")
	next("no CRL", am.Success, "")
	s.trust("denied", user.urn+"\n")
	next("a deny list", am.Forbidden, "denied")
	s.trust("denied", "")
	next("no deny list", am.Success, "")
	s.trust("theirs.pem", "")
	next("no anchor", am.Forbidden, "not an authority that this server trusts")
	s.trust("theirs.pem", program.ReadFile(t, root.cert))
	next("the anchor is back", am.Success, "")
	s.trust("denied", user.urn+"\n")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	next("after SIGHUP", am.Forbidden, "denied")
	s.stop()
}
