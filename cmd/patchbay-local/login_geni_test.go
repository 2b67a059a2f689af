package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"patchbay/inventory/provider"
)

// loginGeni asks inside a node what the node is part of.
func loginGeni(t *testing.T, s *loginSite) {
	const manifest = "<rspec type=\"manifest\">\n  <node client_id=\"a\"/> & umlauts \u00e4\u00f6\u00fc\n</rspec>\n"
	// The manager's stand-in answers at the socket that the settings name.
	l, err := net.Listen("unix", s.file("admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	manager := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/manifest" && r.URL.Query().Get("sliver") == "urn:publicid:IDN+example.org+sliver+"+loginNodes["a"] {
			fmt.Fprint(w, manifest)
			return
		}
		http.Error(w, "what "+r.URL.String(), http.StatusNotFound)
	})}
	go func() { _ = manager.Serve(l) }()
	t.Cleanup(func() { manager.Close() })
	alice, bob := s.client(t, "alice", "a", "b"), s.client(t, "bob", "a", "c")
	slice := "urn:publicid:IDN+example.org+slice+" + s.instance + "-one"
	for command, want := range map[string]string{
		"client_id": "a\n", "slice_urn": slice + "\n", "sliver_urn": "urn:publicid:IDN+example.org+sliver+" + loginNodes["a"] + "\n",
		"manifest": manifest, "user_urn": "urn:publicid:IDN+example.org+user+alice\n", "-a client_id": "a\n", "version": "1\n",
	} {
		t.Run(command, func(t *testing.T) {
			ask := "geni-get " + command
			alice.ssh("a", ask+"; sudo -n "+ask+"; sudo -n -u nobody "+ask+"; /usr/local/bin/"+ask).expectOutput(t, strings.Repeat(want, 4))
			bob.ssh("a", ask).expectOutput(t, want)
		})
	}
	t.Run("geni_user", func(t *testing.T) {
		r := alice.ssh("a", "geni-get geni_user")
		var users []struct {
			URN, Login string
			Keys       []struct{ Type, Key string }
		}
		if err := json.Unmarshal([]byte(r.out), &users); err != nil || r.status != 0 {
			t.Fatalf("%v, %+v", err, r)
		}
		if len(users) != 2 || users[0].Login != "alice" || users[1].URN != "urn:publicid:IDN+example.org+user+bob" || users[0].Keys[0].Key != publicKeyLine(t, "alice") {
			t.Errorf("%+v", users)
		}
	})
	t.Run("status", func(t *testing.T) {
		if r := alice.ssh("a", "geni-get status"); r.status != 0 || !strings.Contains(r.out, `"state": "ready"`) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("commands", func(t *testing.T) {
		for _, args := range []string{"", " commands", " --help"} {
			if r := alice.ssh("a", "geni-get"+args); r.status != 0 || !strings.Contains(r.out, "slice_urn") || !strings.Contains(r.out, "key") {
				t.Errorf("%+v", r)
			}
		}
		if r := alice.ssh("a", "geni-get nonsense"); r.status == 0 || r.out != "" || !strings.Contains(r.err, `no command "nonsense"`) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("all", func(t *testing.T) {
		r := alice.ssh("a", "geni-get -a")
		var all map[string]any
		if err := json.Unmarshal([]byte(r.out), &all); err != nil || all["client_id"] != "a" || all["manifest"] != manifest || strings.Contains(r.out, "PRIVATE") {
			t.Errorf("%v, %+v", err, r)
		}
	})
	t.Run("KeyAsScriptsUseIt", func(t *testing.T) {
		for _, c := range []*client{alice, bob} {
			r := c.ssh("a", `set -e; umask 077; mkdir -p ~/s; geni-get key >~/s/id_rsa; ssh-keygen -y -f ~/s/id_rsa >~/s/id_rsa.pub; cut -d" " -f1,2 ~/s/id_rsa.pub | cmp - <(cut -d" " -f1,2 ~/.ssh/id_rsa.pub); cmp ~/s/id_rsa ~/.ssh/id_rsa; cut -d" " -f1 ~/s/id_rsa.pub`)
			r.expectOutput(t, "ssh-rsa\n")
		}
		alice.ssh("a", "ssh -o BatchMode=yes -i ~/s/id_rsa -o IdentitiesOnly=yes b id -un").expectOutput(t, "alice\n")
		alice.ssh("a", "sudo -n geni-get key | ssh-keygen -y -f /dev/stdin >/dev/null && echo good").expectOutput(t, "good\n")
	})
	t.Run("KeyIsTheSameInAllNodesOfASliceOnly", func(t *testing.T) {
		sum := func(c *client, node string) string { return c.ssh(node, "geni-get key | sha256sum").out }
		if a, b, c := sum(alice, "a"), sum(alice, "b"), sum(bob, "c"); a != b || a == c {
			t.Errorf("a has %s b has %s c has %s", a, b, c)
		}
	})
	t.Run("KeyIsNotForServices", func(t *testing.T) {
		if r := alice.ssh("a", "sudo -n -u nobody geni-get key"); r.status == 0 || r.out != "" || !strings.Contains(r.err, "only root and the accounts") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("OtherSlicesManifest", func(t *testing.T) { // the stand-in knows the sliver of a only
		if r := bob.ssh("c", "geni-get manifest"); r.status == 0 || r.out != "" || !strings.Contains(r.err, "did not send the manifest") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("ManagerIsAway", func(t *testing.T) { // what it told last
		manager.Close()
		alice.ssh("a", "geni-get manifest").expectOutput(t, manifest)
	})
	t.Run("AfterARestart", func(t *testing.T) {
		const id = "13000000-0000-4000-8000-000000001073"
		s.add(t, id, "g", "five", provider.Resource{"users": loginUsers(t, "alice")})
		c := s.client(t, "alice", "g")
		before := c.ssh("g", "geni-get key").out
		s.set(t, id, provider.Resource{"restart_serial": "1"})
		s.await(t, id, provider.StateReady)
		c.ssh("g", "geni-get client_id; geni-get key").expectOutput(t, "g\n"+before)
	})
}
