package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"patchbay/am"
	"patchbay/am/client"
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

// oldCRL creates a CRL that expired in 2020.
func (f *federation) oldCRL(issuer *identity, revoked ...*identity) string {
	f.t.Helper()
	f.crl(issuer, revoked...)
	return f.run(f.openssl, "ca", "-gencrl", "-config", filepath.Join(f.dir, fmt.Sprintf("%d.ca", f.serial)), "-keyfile", issuer.key, "-cert", issuer.cert,
		"-crl_lastupdate", "20200101000000Z", "-crl_nextupdate", "20200108000000Z")
}

// trust writes a file into the trust folder atomically; "" removes it.
func (s *servedSite) trust(name, text string) {
	s.t.Helper()
	file := filepath.Join(s.dir, "trusted", name)
	if text == "" {
		os.Remove(file)
		return
	}
	write(s.t, file+".new", text)
	if err := os.Rename(file+".new", file); err != nil {
		s.t.Fatal(err)
	}
}

func (s *servedSite) newLog() string {
	s.t.Helper()
	return readFile(s.t, s.log.Name())
}

// countConnections puts a forwarder in front of the server, which counts connections.
func (s *servedSite) countConnections() *atomic.Int64 {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { l.Close() })
	behind := strings.TrimPrefix(s.url, "https://")
	s.url = "https://" + l.Addr().String()
	var n atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			d, err := net.Dial("tcp", behind)
			if err != nil {
				c.Close()
				continue
			}
			go func() { io.Copy(d, c); d.Close() }()
			go func() { io.Copy(c, d); c.Close() }()
		}
	}()
	return &n
}

// TestTrustChangesWhileServing changes everything in the trust folder of a served site,
// with CRLs made by openssl. The next calls over the same connections follow the changes.
func TestTrustChangesWhileServing(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newFederation(t, "fed.example.org")
	root := f.issue(f.urn("authority", "ca"), true, nil)
	f.name = "fed.example.org:proj"
	sa := f.issue(f.urn("authority", "sa"), true, root)
	f.keyAlg = []string{"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"}
	user, friend := f.issue(f.urn("user", "alice"), false, sa), f.issue(f.urn("user", "friend"), false, sa)
	slice := f.issue(f.urn("slice", "s1"), false, sa)
	grant := func(g *federation, owner, target, signer *identity) []client.Credential {
		return signedCredentials(g.sign(statement{owner: owner, target: target, privileges: []string{"*"}}, signer))
	}
	// Another federation, whose authority has no URN.
	g := newFederation(t, "other.example.net")
	g.key, g.names = root.key, "email.1=ops@example.org\nURI.1=UUID\n"
	nameless := g.issue("", true, nil)
	g.key, g.names = sa.key, "URI.1=URN\nURI.2=https://other.example.net/sa\nemail.1=ops@example.org\nURI.3=UUID\n"
	theirSA := g.issue(g.urn("authority", "sa"), true, nameless)
	stranger := g.issue(g.urn("user", "anna"), false, theirSA)

	s := newServedSite(t, "testbed.example.org", f, root)
	s.start()
	connections := s.countConnections()
	type caller struct {
		c    *client.Client
		cred []client.Credential
	}
	callers := map[string]caller{
		"user":     {s.client(user, true), grant(f, user, user, sa)},
		"friend":   {s.client(friend, true), grant(f, friend, friend, sa)},
		"stranger": {s.client(stranger, true), grant(g, stranger, stranger, theirSA)},
	}
	call := func(who string) client.Reply {
		t.Helper()
		_, r, err := callers[who].c.ListResources(t.Context(), callers[who].cred, client.Options{})
		if err != nil && r.Code == am.Success {
			t.Fatalf("%s: %v", who, err)
		}
		return r
	}
	works := func(why, who string) {
		t.Helper()
		wait.Until(t, why+": "+who+" works", func() bool { return call(who).Code == am.Success })
	}
	refused := func(why, who string, texts ...string) {
		t.Helper()
		var r client.Reply
		defer func() {
			if t.Failed() {
				t.Logf("%s: %s got %d %q", why, who, r.Code, r.Output)
			}
		}()
		wait.Until(t, fmt.Sprintf("%s: %s is refused with %q", why, who, texts), func() bool {
			r = call(who)
			return r.Code == am.Forbidden && !slices.ContainsFunc(texts, func(want string) bool { return !strings.Contains(r.Output, want) })
		})
		if r.Detail != int(am.CredentialUntrusted) {
			t.Errorf("%s: am_code %d", why, r.Detail)
		}
	}
	overSlice := func(want am.Code) {
		t.Helper()
		cred := grant(f, user, slice, sa)
		wait.Until(t, fmt.Sprintf("Status answers %d", want), func() bool {
			_, r, _ := callers["user"].c.Status(t.Context(), []string{slice.urn}, cred, client.Options{})
			return r.Code == want
		})
	}
	works("at first", "user")
	works("at first", "friend")
	refused("not trusted yet", "stranger", "which is not an authority that this server trusts")

	// CRLs.
	s.trust("fed.crl", f.crl(sa, user))
	refused("a CRL of the authority between", "user", user.urn, "revoked", "fed.crl", "ask it for a new certificate")
	works("not in the CRL", "friend")
	whole := f.crl(sa, user, friend)
	s.trust("fed.crl", whole[:len(whole)/2])
	wait.Until(t, "the half is noticed", func() bool {
		return strings.Contains(s.newLog(), "without END line") && strings.Contains(s.newLog(), "stays in force")
	})
	refused("half a CRL", "user", "revoked")
	works("half a CRL", "friend")
	s.trust("fed.crl", whole)
	refused("the whole CRL", "friend", "revoked")
	s.trust("fed.crl", "")
	works("without CRL", "user")
	works("without CRL", "friend")
	s.trust("fed.crl", f.oldCRL(sa, user))
	refused("a CRL that is out of date", "user", "revoked")
	wait.Until(t, "the old CRL is told of", func() bool { return strings.Contains(s.newLog(), "a CRL is out of date") })
	s.trust("fed.crl", f.crl(root)+f.crl(sa, slice))
	overSlice(am.Forbidden)
	works("the slice is revoked, not its user", "user")
	s.trust("fed.crl", f.crl(root, sa))
	refused("a CRL of the root", "user", sa.urn, "revoked")
	s.trust("fed.crl", "")
	overSlice(am.SearchFailed)

	// The deny list.
	s.trust("denied", "# since yesterday\n"+user.urn+"\n")
	refused("denied", "user", user.urn, "denied", "operator")
	works("not denied", "friend")
	s.trust("denied", user.urn+"\nurn:publicid:IDN+fed\n"+friend.urn+"\n")
	refused("a line is bad, the others hold", "friend", "denied")
	refused("a line is bad, the others hold", "user", "denied")
	serial := strings.TrimSpace(strings.TrimPrefix(f.run(f.openssl, "x509", "-noout", "-serial", "-in", friend.cert), "serial="))
	issuer := strings.TrimSpace(strings.TrimPrefix(f.run(f.openssl, "x509", "-noout", "-issuer", "-nameopt", "RFC2253", "-in", friend.cert), "issuer="))
	s.trust("denied", "serial "+serial+" of "+issuer+"\n")
	refused("number of an issuer, as openssl prints them", "friend", "denied")
	works("another number", "user")
	_, fingerprint, _ := strings.Cut(strings.TrimSpace(f.run(f.openssl, "x509", "-noout", "-fingerprint", "-sha256", "-in", sa.cert)), "=")
	s.trust("denied", "sha256:"+fingerprint+"\n")
	refused("fingerprint of the authority", "user", sa.urn, "denied")
	s.trust("denied", root.urn+"\n")
	refused("the anchor", "user", root.urn, "denied")
	s.trust("denied", "")
	works("no deny list", "user")

	// Anchors with the authorities that they may sign for.
	s.trust("other.pem", readFile(t, nameless.cert))
	refused("an anchor without URN", "stranger", "which covers no authority on this server")
	s.trust("other.authorities", "other.example.com\n")
	refused("another authority listed", "stranger", "covers only other.example.com")
	s.trust("other.authorities", "# whom it speaks for\nother.example.net\n")
	works("the authority is listed", "stranger")
	s.trust("other.authorities", "other.example.netx\n")
	refused("taken back", "stranger")
	s.trust("other.pem", readFile(t, theirSA.cert))
	works("the authority between is the anchor", "stranger")
	s.trust("other.pem", "")
	refused("no anchor", "stranger", "not an authority that this server trusts")
	works("all the while", "user")

	// SIGHUP reads the folder too.
	s.trust("denied", friend.urn+"\n")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	refused("after SIGHUP", "friend", "denied")

	if n := connections.Load(); n != int64(len(callers)) {
		t.Errorf("%d connections for %d callers: the calls did not go over the same ones", n, len(callers))
	}
	s.stop()
}

// TestChainsOverTheWire sends chains of two to four certificates in part, as clients do,
// and chains below roots without URN. The missing certificates may be in the credentials.
// The tests of credentials/cert check the rules for chains.
func TestChainsOverTheWire(t *testing.T) {
	t.Parallel()
	f := newFederation(t, "fed.example.org")
	keys := []string{f.issue("urn:publicid:IDN+x+authority+sa", true, nil).key, f.issue("urn:publicid:IDN+x+authority+sa", true, nil).key}
	f.keyAlg = []string{"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"}
	s := newServedSite(t, "testbed.example.org", f, nil)
	const names = "URI.1=https://fed.example.org/xmlrpc\nURI.2=URN\nemail.1=ops@example.org\nURI.3=UUID\n" // old Emulab
	table := []struct {
		rule   string
		levels []string // authorities from the root; "" for one without URN
		anchor int      // the index of the anchor in the folder
		listed string   // its .authorities file
		user   string   // authority of the user
		shows  int      // certificates sent; 0 for all
		want   am.Code
		says   string
	}{
		{"two, leaf only", []string{"b.example"}, 0, "", "b.example", 1, am.Success, ""},
		{"three, without the root", []string{"d.example", "d.example:p"}, 0, "", "d.example:p", 2, am.Success, ""},
		{"three, leaf only", []string{"e.example", "e.example:p"}, 0, "", "e.example:p", 1, am.Success, ""},
		{"four, leaf and one", []string{"h.example", "h.example:p", "h.example:p:q"}, 0, "", "h.example:p:q", 2, am.Success, ""},
		{"the authority between is the anchor", []string{"i.example", "i.example:p"}, 1, "", "i.example:p", 0, am.Success, ""},
		{"the lowest is the anchor, leaf only", []string{"j.example", "j.example", "j.example:p"}, 2, "", "j.example:p", 1, am.Success, ""},
		{"root without URN, listed", []string{"", "m.example"}, 0, "m.example", "m.example", 0, am.Success, ""},
		{"root without URN, a part of the name listed", []string{"", "n.example:pq"}, 0, "n.example:p", "n.example:pq", 0, am.Forbidden, "covers only n.example:p"},
		{"root without URN, one below listed", []string{"", "o.example:p"}, 0, "o.example", "o.example:p", 0, am.Success, ""},
	}
	users := make([]identity, len(table)) // full is the file they send
	creds := make([][]client.Credential, len(table))
	for i, tt := range table {
		var chain []*identity
		var above *identity
		for j, l := range tt.levels {
			f.key = keys[j%2] // RSA, for xmlsec1; different from the level above
			f.names = names
			if l == "" {
				f.names = "URI.1=UUID\n"
			}
			above = f.issue("urn:publicid:IDN+"+l+"+authority+sa", true, above)
			chain = append(chain, above)
		}
		f.names, f.key = names, ""
		user := f.issue("urn:publicid:IDN+"+tt.user+"+user+u", false, above)
		creds[i] = signedCredentials(f.sign(statement{owner: user, target: user, privileges: []string{"*"}}, above))
		shown := ""
		slices.Reverse(chain)
		for j, x := range append([]*identity{user}, chain...) {
			if tt.shows == 0 || j < tt.shows {
				shown += readFile(t, x.cert)
			}
		}
		users[i] = *user
		users[i].full = user.full + ".part"
		os.WriteFile(users[i].full, []byte(shown), 0o600)
		base := fmt.Sprintf("chain%d", i)
		s.trust(base+".pem", readFile(t, chain[len(chain)-1-tt.anchor].cert))
		s.trust(base+".authorities", tt.listed)
	}
	s.start()
	for i, tt := range table {
		t.Run(tt.rule, func(t *testing.T) {
			c := s.client(&users[i], true)
			if r, err := c.Call(t.Context(), "GetVersion"); err != nil || r.Code != am.Success {
				t.Errorf("GetVersion is for everybody: %d %v", r.Code, err)
			}
			for range 2 { // the second time from a cache
				_, r, _ := c.ListResources(t.Context(), creds[i], client.Options{})
				if r.Code != tt.want || !strings.Contains(r.Output, tt.says) {
					t.Errorf("%d %q, want %d %q", r.Code, r.Output, tt.want, tt.says)
				}
			}
		})
	}
	s.stop()
}

// TestOldCertificates proves that outdated certificates work with the right setting, and
// are otherwise refused with the reason in the answer.
func TestOldCertificates(t *testing.T) {
	t.Parallel()
	f := newFederation(t, "fed.example.org")
	root := f.issue(f.urn("authority", "sa"), true, nil)
	weakKey := []string{"-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"}
	strongKey := f.keyAlg
	type old struct {
		user *identity
		cred []client.Credential
		why  string // the reason without the setting
	}
	made := map[string]old{}
	for name, x := range map[string]struct {
		key, signing []string
		why          string
	}{
		"RSA-1024":             {weakKey, nil, "has an RSA key of 1024 bits, at least 2048 are needed"},
		"SHA-1":                {strongKey, []string{"-sha1"}, "is signed with SHA-1, which this server does not accept"},
		"RSA-1024 and SHA-1":   {weakKey, []string{"-sha1"}, "has an RSA key of 1024 bits"},
		"neither, beside them": {strongKey, nil, ""},
	} {
		f.keyAlg, f.signing = x.key, x.signing
		user := f.issue(f.urn("user", "u"), false, root)
		made[name] = old{user, signedCredentials(f.sign(statement{owner: user, target: user, privileges: []string{"*"}}, root)), x.why}
	}
	for _, allowed := range []bool{false, true} {
		s := newServedSite(t, "testbed.example.org", f, root)
		if allowed {
			file := filepath.Join(s.dir, "patchbay.yaml")
			text := readFile(t, file) + "\ncredentials: {sha1_certificates: true, min_rsa_bits: 1024}\n"
			write(t, file, text)
		}
		s.start()
		for name, x := range made {
			t.Run(fmt.Sprintf("%s, allowed %v", name, allowed), func(t *testing.T) {
				c := s.client(x.user, true)
				if r, err := c.Call(t.Context(), "GetVersion"); err != nil || r.Code != am.Success {
					t.Fatalf("GetVersion: %d %v", r.Code, err)
				}
				_, r, _ := c.ListResources(t.Context(), x.cred, client.Options{})
				if allowed || x.why == "" {
					if r.Code != am.Success {
						t.Errorf("%d %s", r.Code, r.Output)
					}
					return
				}
				if r.Code != am.Forbidden || !strings.Contains(r.Output, x.why) {
					t.Errorf("%d %q, want %q", r.Code, r.Output, x.why)
				}
			})
		}
		if got := strings.Contains(s.newLog(), "sha1=true"); got != allowed {
			t.Errorf("allowed %v: the use of SHA-1 is in the log: %v", allowed, got)
		}
		s.stop()
	}
}
