package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/testkit/wait"
	"patchbay/am/xmlrpc"
)

// These are the pitfalls of the AM API that need the built program; am/api tests the
// others.

// TestTrap20ReadyIsAPromise: when geni_ready is first reported, the provider has the
// accounts and keys, and the manifest has the login. The same holds for a key that is
// added later, and after a restart.
func TestTrap20ReadyIsAPromise(t *testing.T) {
	t.Parallel()
	s := newClientTestSite(t, "timing: {make: 100ms, start: 2s, stop: 100ms, restart: 2s, users: 2s, remove: 50ms}\njitter: 0\n")
	v := s.newClient(t, "alice", 3)
	slice, cred, _ := v.slice("promise", 2)
	request := `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="request"><node client_id="n"/></rspec>`
	v.want("Allocate", am.Success, slice, v.creds(cred), request, xmlrpc.Struct{})
	v.want("Provision", am.Success, urns(slice), v.creds(cred), rspec3("GENI", option("geni_users", userAccounts(v.User))))
	act := func(action string, more ...xmlrpc.Member) {
		t.Helper()
		v.want("PerformOperationalAction", am.Success, urns(slice), v.creds(cred), action, xmlrpc.Struct(more))
	}
	// The wait ends with the first answer that reports the state.
	await := func(state string) (manifest string, waited []string) {
		t.Helper()
		wait.Until(t, state, func() bool {
			a := v.want("Describe", am.Success, urns(slice), v.creds(cred), rspec3("GENI"))
			got := member(v.slivers(a)[0], "geni_operational_status").(string)
			if manifest = member(a, "geni_rspec").(string); got != state {
				if len(waited) == 0 || waited[len(waited)-1] != got {
					waited = append(waited, got)
				}
				return false
			}
			return true
		})
		return manifest, waited
	}
	await("geni_notready")
	friend, err := s.authority.User("friend", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{strings.Fields(string(v.SSHPublicKey))[1]}
	for _, tt := range []struct{ action, through string }{
		{"geni_start", "geni_configuring"}, {"geni_restart", "geni_configuring"}, {"geni_update_users", "geni_updating_users"},
	} {
		if tt.action == "geni_update_users" {
			keys = append(keys, strings.Fields(string(friend.SSHPublicKey))[1])
			act(tt.action, option("geni_users", userAccounts(friend)))
		} else {
			act(tt.action)
		}
		manifest, waited := await("geni_ready")
		now := time.Now()
		if len(waited) != 1 || waited[0] != tt.through {
			t.Errorf("%s: on the way it was %q, want %s: the promise was not seen to be kept", tt.action, waited, tt.through)
		}
		node := readSimulatedNode(t, s)
		if node.Power != "on" || now.Before(node.ReadyAt) {
			t.Errorf("%s: ready at %s, but the node with its power %s is so only at %s", tt.action, now, node.Power, node.ReadyAt)
		}
		for _, k := range keys {
			if !strings.Contains(strings.Join(node.Users, " "), k) {
				t.Errorf("%s: ready, but the provider lacks a key", tt.action)
			}
			if !strings.Contains(manifest, k) {
				t.Errorf("%s: ready, but the manifest lacks a key", tt.action)
			}
		}
		if d := v.rspec(manifest, "manifest"); len(d.Nodes[0].Logins) != len(keys) {
			t.Errorf("%s: ready with %d logins, want %d", tt.action, len(d.Nodes[0].Logins), len(keys))
		}
	}
}

// simulatedNode is a node in the simulated provider's file.
type simulatedNode struct {
	Power   string    `json:"power"`
	Users   []string  `json:"users"`
	ReadyAt time.Time `json:"ready_at"`
}

// readSimulatedNode returns the node in the simulated provider's file.
func readSimulatedNode(t *testing.T, s *clientTestSite) (last simulatedNode) {
	t.Helper()
	for line := range strings.SplitSeq(readFile(t, filepath.Join(s.dir, "providers", "simulated.state", "log")), "\n") {
		var entry struct {
			Node *simulatedNode `json:"node"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Node != nil {
			last = *entry.Node
		}
	}
	return last
}

// TestTrap32CertificatesOfTheFederation: certificates that Go's parser refuses can
// connect, as leaf and in the chain, with every version of TLS and with the key exchange
// of old clients, and their users have their rights.
func TestTrap32CertificatesOfTheFederation(t *testing.T) {
	t.Parallel()
	f := newFederation(t, "fed.example.org")
	rsa, quick := f.keyAlg, []string{"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"}
	f.keyAlg = quick
	root := f.issue(f.urn("authority", "sa"), true, nil)
	f.name, f.keyAlg = "fed.example.org:proj", rsa
	project := f.issue(f.urn("authority", "sa"), true, root)
	user := f.issue(f.urn("user", "alice"), false, project)
	f.keyAlg = quick
	slice := f.issue(f.urn("slice", "odd"), false, project)
	for block, rest := pem.Decode([]byte(readFile(t, user.full))); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err == nil {
			t.Fatal("Go's parser takes this certificate: the test proves nothing")
		}
	}
	cred := f.sign(statement{owner: user, target: slice, privileges: []string{"*"}}, project)
	s := newServedSite(t, "testbed.example.org", f, root)
	s.start()

	post := func(path, method string, params ...xmlrpc.Value) string {
		body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("POST %s HTTP/1.0\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	}
	grant := []xmlrpc.Value{labelledCredential("geni_sfa", "3", cred)}
	for _, chain := range []struct {
		name string
		args []string
	}{{"leaf", nil}, {"leaf and its chain", []string{"-cert_chain", user.full}}} {
		for _, version := range [][]string{{"-tls1_3"}, {"-tls1_2"}, {"-tls1_2", "-cipher", "AES128-SHA"}} {
			what := chain.name + " " + strings.Join(version, " ")
			ask := func(request string) wireReply {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				args := append([]string{"s_client", "-quiet", "-ign_eof", "-connect", strings.TrimPrefix(s.url, "https://"), "-cert", user.cert, "-key", user.key}, chain.args...)
				c := exec.CommandContext(ctx, f.openssl, append(args, version...)...)
				c.Stdin = strings.NewReader(request)
				out, err := c.Output()
				head, body, ok := bytes.Cut(out, []byte("\r\n\r\n"))
				if !ok {
					t.Fatalf("%s: no answer: %v", what, err)
				}
				if !bytes.Contains(head, []byte(" 200 ")) {
					t.Fatalf("%s: %s", what, head)
				}
				return (&wireClient{t: t}).read(body)
			}
			if a := ask(post("/am/3.0", "GetVersion")); a.code != am.Success {
				t.Errorf("%s: GetVersion: %d %s", what, a.code, a.output)
			}
			if a := ask(post("/am/3.0", "Describe", urns(slice.urn), grant, rspec3("GENI"))); a.code != am.Success {
				t.Errorf("%s: Describe: %d %s", what, a.code, a.output)
			}
			if a := ask(post("/am/2.0", "SliverStatus", slice.urn, []xmlrpc.Value{cred}, xmlrpc.Struct{})); a.code != am.SearchFailed {
				t.Errorf("%s: SliverStatus of an empty slice: %d %s", what, a.code, a.output)
			}
		}
	}
}

// TestTrap33OldHTTP: clients of HTTP 1.0 and 1.1 without chunks get every answer with its
// length; chunks from a client are accepted.
func TestTrap33OldHTTP(t *testing.T) {
	t.Parallel()
	s := newClientTestSite(t, instantNodes)
	v := s.newClient(t, "alice", 3)
	encode := func(method string, params ...xmlrpc.Value) string {
		b, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	short := encode("GetVersion")
	long := encode("ListResources", v.creds(string(v.Credential)), rspec3("GENI")) // the answer exceeds all buffers
	head := func(first, more string, body string) string {
		return fmt.Sprintf("%s\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n%s\r\n%s", first, len(body), more, body)
	}
	right := func(what string, a rawResponse) {
		t.Helper()
		if !strings.Contains(a.status, " 200 ") {
			t.Errorf("%s: %s", what, a.status)
			return
		}
		if answer := v.read(a.body); answer.code != am.Success {
			t.Errorf("%s: %d %s", what, answer.code, answer.output)
		}
	}
	for name, body := range map[string]string{"a short answer": short, "a long answer": long} {
		h := v.rawConnection(nil)
		h.write(head("POST /am/3.0 HTTP/1.0", "", body))
		a := h.read()
		right("HTTP 1.0, "+name, a)
		if !strings.HasPrefix(a.status, "HTTP/1.0 ") && !strings.HasPrefix(a.status, "HTTP/1.1 ") {
			t.Errorf("status line %q", a.status)
		}
		h.wantClosed()

		h = v.rawConnection(nil)
		for range 2 {
			h.write(head("POST /xmlrpc/am/3.0/ HTTP/1.0", "Connection: keep-alive\r\n", body))
			if a = h.read(); !strings.EqualFold(a.head["connection"], "keep-alive") {
				t.Errorf("HTTP 1.0 keep-alive: Connection is %q", a.head["connection"])
			}
			right("HTTP 1.0 keep-alive, "+name, a)
		}
		for range 2 {
			h.write(head("POST /RPC2 HTTP/1.1", "Host: am.example.org\r\nUser-Agent: xmlrpclib.py/1.0.1 (by www.pythonware.com)\r\n", body))
			a = h.read()
			right("HTTP 1.1, "+name, a)
			if a.head["content-encoding"] != "" {
				t.Errorf("compressed by %s, unasked", a.head["content-encoding"])
			}
		}
		h.write(head("POST / HTTP/1.1", "Host: am.example.org\r\nAccept-Encoding: gzip\r\n", body))
		if a = h.read(); a.head["content-encoding"] == "gzip" {
			a.body = gunzip(t, a.body)
		}
		right("HTTP 1.1 with gzip, "+name, a)
		for _, size := range []int{1, 100, 1 << 20} {
			chunked := v.rawConnection(nil) // each is the last request on its connection
			chunked.write("POST /am/3.0 HTTP/1.1\r\nHost: am.example.org\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(body, size))
			if a = chunked.read(); a.head["connection"] != "close" {
				t.Errorf("chunks of %d bytes, %s: Connection is %q", size, name, a.head["connection"])
			}
			right(fmt.Sprintf("chunks of %d bytes, %s", size, name), a)
			chunked.wantClosed()
		}
		h.write(head("POST /am/3.0 HTTP/1.1", "Host: am.example.org\r\nExpect: 100-continue\r\n", body))
		if a = h.read(); strings.Contains(a.status, " 100 ") {
			a = h.read()
		}
		right("after 100 Continue, "+name, a)
		h.write(head("POST /am/3.0 HTTP/1.1", "Host: am.example.org\r\nConnection: close\r\n", body))
		right("the last one, "+name, h.read())
		h.wantClosed()
	}
	// Refusals below XML-RPC have a length too.
	for _, tt := range []struct{ request, status string }{
		{"GET /am/3.0 HTTP/1.0\r\n\r\n", "405"}, {head("POST /nowhere HTTP/1.0", "", short), "404"}, {head("POST /am/2.0 HTTP/1.0", "Content-Encoding: gzip\r\n", short), "415"},
	} {
		h := v.rawConnection(nil)
		h.write(tt.request)
		if a := h.read(); !strings.Contains(a.status, " "+tt.status+" ") || len(a.body) == 0 {
			t.Errorf("%q: %s with %d bytes", strings.SplitN(tt.request, "\r\n", 2)[0], a.status, len(a.body))
		}
	}
	// HTTP/2, the name of the server and TLS 1.3 are optional.
	for name, change := range map[string]func(*tls.Config){
		"it would speak HTTP/2": func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} },
		"names no protocol":     func(c *tls.Config) { c.NextProtos = nil },
		"TLS 1.2":               func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 },
		"RSA key exchange": func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}
		},
		"block ciphers and SHA-1": func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA}
		},
	} {
		h := v.rawConnection(change)
		h.write(head("POST /am/3.0 HTTP/1.1", "Host: am.example.org\r\n", short))
		right(name, h.read())
	}
}
