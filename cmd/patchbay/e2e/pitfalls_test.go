package e2e

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
)

// These are the pitfalls of the AM API that need the built program; am/api tests the
// others.

// TestTrap20ReadyNodesHaveAccountsAndKeys checks that at the first geni_ready the provider has the accounts and
// keys, and the manifest has the login, also after a restart and after a new key.
func TestTrap20ReadyNodesHaveAccountsAndKeys(t *testing.T) {
	t.Parallel()
	s := newClientTestSite(t, "timing: {make: 100ms, start: 1s, stop: 100ms, restart: 1s, users: 1s, remove: 50ms}\njitter: 0\n")
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
			t.Errorf("%s: the states before geni_ready are %q, want %s", tt.action, waited, tt.through)
		}
		node := readSimulatedNode(t, s)
		if node.Power != "on" || now.Before(node.ReadyAt) {
			t.Errorf("%s: reported ready at %s, but the node with power %s is ready only at %s", tt.action, now, node.Power, node.ReadyAt)
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
	for line := range strings.SplitSeq(program.ReadFile(t, filepath.Join(s.dir, "providers", "simulated.state", "log")), "\n") {
		var entry struct {
			Node *simulatedNode `json:"node"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Node != nil {
			last = *entry.Node
		}
	}
	return last
}

// TestTrap32CertificatesOfTheFederation connects with certificates that Go's parser refuses, as
// leaf and in the chain, with every version of TLS and the key exchange of old clients. Their users
// have their rights.
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
	for block, rest := pem.Decode([]byte(program.ReadFile(t, user.full))); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err == nil {
			t.Fatal("Go's parser accepts this certificate: the test proves nothing")
		}
	}
	cred := f.sign(statement{owner: user, target: slice, privileges: []string{"*"}}, project)
	s := newServedSite(t, "testbed.example.org", f, root)
	s.start()

	grant := []xmlrpc.Value{labelledCredential("geni_sfa", "3", cred)}
	body := encoded(t, "Describe", urns(slice.urn), grant, rspec3("GENI"))
	request := fmt.Sprintf("POST /am/3.0 HTTP/1.0\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for _, options := range []string{"-tls1_3", "-tls1_2", "-tls1_2 -cipher AES128-SHA", "-tls1_3 -cert_chain " + user.full} {
		args := append([]string{"s_client", "-quiet", "-ign_eof", "-connect", strings.TrimPrefix(s.url, "https://"), "-cert", user.cert, "-key", user.key}, strings.Fields(options)...)
		c := exec.CommandContext(t.Context(), f.openssl, args...)
		c.Stdin = strings.NewReader(request)
		out, err := c.Output()
		head, body, _ := bytes.Cut(out, []byte("\r\n\r\n"))
		if !bytes.Contains(head, []byte(" 200 ")) {
			t.Fatalf("%s: %s, %v", options, head, err)
		}
		if a := (&wireClient{t: t}).read(body); a.code != am.Success {
			t.Errorf("%s: %d %s", options, a.code, a.output)
		}
	}
}

// TestTrap33OldHTTP checks that clients of HTTP 1.0 and 1.1 get each answer with its length and
// without chunks. Chunks from a client are accepted.
func TestTrap33OldHTTP(t *testing.T) {
	t.Parallel()
	s := newClientTestSite(t, instantNodes)
	v := s.newClient(t, "alice", 3)
	list := encoded(t, "ListResources", v.creds(string(v.Credential)), rspec3("GENI")) // the answer exceeds all buffers
	request := func(first, more string) string {
		return fmt.Sprintf("%s\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n%s\r\n%s", first, len(list), more, list)
	}
	for _, tt := range []struct {
		name, request string
		stays         bool // whether the connection stays open
	}{
		{"HTTP 1.0", request("POST /am/3.0 HTTP/1.0", ""), false},
		{"HTTP 1.0 keep-alive", request("POST /xmlrpc/am/3.0/ HTTP/1.0", "Connection: keep-alive\r\n"), true},
		{"HTTP 1.1", request("POST /RPC2 HTTP/1.1", "Host: am.example.org\r\n"), true},
		{"HTTP 1.1 close", request("POST / HTTP/1.1", "Host: am.example.org\r\nConnection: close\r\n"), false},
		{"chunks", fmt.Sprintf("POST /am/3.0 HTTP/1.1\r\nHost: am.example.org\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(list), list), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), &tls.Config{Certificates: []tls.Certificate{v.identity}, InsecureSkipVerify: true})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(time.Minute))
			in := bufio.NewReader(c)
			for range map[bool]int{true: 2, false: 1}[tt.stays] {
				if _, err := io.WriteString(c, tt.request); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode != http.StatusOK || resp.ContentLength != int64(len(body)) || resp.Header.Get("Content-Encoding") != "" {
					t.Fatalf("status %d, %d bytes of %d, %v; headers %v", resp.StatusCode, len(body), resp.ContentLength, err, resp.Header)
				}
				if a := v.read(body); a.code != am.Success {
					t.Errorf("code %d %s", a.code, a.output)
				}
			}
			if !tt.stays {
				if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
					t.Errorf("after the answer: %d bytes, %v", len(rest), err)
				}
			}
		})
	}
}
