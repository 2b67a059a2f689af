package experiment

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// manifestOf returns a manifest of one node with the given content of its services.
func manifestOf(name, services string) []byte {
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(name))
	return fmt.Appendf(nil, `<rspec type="manifest" xmlns="http://www.geni.net/resources/rspec/3" xmlns:p="http://jfed.iminds.be/proxy/1.0">
<node client_id="%s" sliver_id="urn:publicid:IDN+example.org+sliver+s1"><services>%s</services></node></rspec>`, escaped.String(), services)
}

// loginElement returns a login element with escaped attributes.
func loginElement(user, host, port string) string {
	var b strings.Builder
	for _, a := range [][2]string{{"username", user}, {"hostname", host}, {"port", port}} {
		fmt.Fprintf(&b, " %s=\"", a[0])
		_ = xml.EscapeText(&b, []byte(a[1]))
		b.WriteString(`"`)
	}
	return `<login authentication="ssh-keys"` + b.String() + "/>"
}

// TestTheLoginIsTheUsersOwn checks that the user's own first account is chosen among several.
func TestTheLoginIsTheUsersOwn(t *testing.T) {
	behind := `<p:proxy proxy="gw@gateway.example.org:22" for="alice@10.1.2.3:22"/>`
	for _, tt := range []struct{ name, services, login, gateway string }{
		{"a partner is named first", loginElement("bob", "pc1", "22") + loginElement("alice", "pc1", "22"), "alice@pc1:22", ""},
		{"a partner is named last", loginElement("alice", "pc1", "22") + loginElement("bob", "pc2", "22"), "alice@pc1:22", ""},
		{"only a partner", loginElement("bob", "pc1", "22") + loginElement("root", "pc1", "22"), "bob@pc1:22", ""},
		{"a port of its own, and a gateway", loginElement("alice", "pc1", "2001") + loginElement("alice", "10.1.2.3", "22") + behind, "alice@pc1:2001", ""},
		{"a partner's port, and a gateway", loginElement("bob", "pc1", "2001") + loginElement("alice", "10.1.2.3", "22") + behind, "alice@10.1.2.3:22", "gw@gateway.example.org:22"},
		{"behind a gateway, and a partner's port", loginElement("alice", "10.1.2.3", "22") + loginElement("bob", "pc1", "2001") + behind, "alice@10.1.2.3:22", "gw@gateway.example.org:22"},
	} {
		m, err := ReadManifest(manifestOf("server", tt.services), "alice")
		if err != nil {
			t.Fatal(err)
		}
		gateway := ""
		if m.Nodes[0].Gateway.Exists() {
			gateway = m.Nodes[0].Gateway.String()
		}
		if login := m.Nodes[0].Login.String(); login != tt.login || gateway != tt.gateway {
			t.Errorf("%s: login %q through %q, want %q through %q", tt.name, login, gateway, tt.login, tt.gateway)
		}
	}
}

// TestLogins checks which login is read from a manifest, and that none is with a special
// meaning to OpenSSH.
func TestLogins(t *testing.T) {
	behind := `<p:proxy proxy="gw@gateway.example.org:22" for="me@10.1.2.3:22"/>`
	for _, tt := range []struct{ name, services, login, gateway string }{
		{"a login", loginElement("alice", "pc1.example.org", "2022"), "alice@pc1.example.org:2022", ""},
		{"no port is 22", `<login authentication="ssh-keys" hostname="10.0.0.1" username="alice"/>`, "alice@10.0.0.1:22", ""},
		{"an IPv6 address", loginElement("alice", "2001:db8::1", "22"), "alice@[2001:db8::1]:22", ""},
		{"behind a gateway that is listed first", behind + loginElement("gw", "gateway.example.org", "22") + loginElement("me", "10.1.2.3", "22"), "me@10.1.2.3:22", "gw@gateway.example.org:22"},
		{"behind a gateway that is listed last", loginElement("me", "10.1.2.3", "22") + loginElement("gw", "gateway.example.org", "22") + behind, "me@10.1.2.3:22", "gw@gateway.example.org:22"},
		{"a proxy for another login", loginElement("me", "10.9.9.9", "22") + behind, "me@10.9.9.9:22", ""},
		{"a hostile proxy", loginElement("me", "10.1.2.3", "22") + `<p:proxy proxy="gw@-oProxyCommand=id:22" for="me@10.1.2.3:22"/>`, "me@10.1.2.3:22", ""},
		{"none", "", "", ""},
		{"a host that is an option", loginElement("alice", "-oProxyCommand=touch /tmp/x", "22"), "", ""},
		{"a line end in the host", loginElement("alice", "pc1\nProxyCommand id", "22"), "", ""},
		{"a line end in the user", loginElement("alice\nLocalCommand id", "pc1", "22"), "", ""},
		{"a user that is an option", loginElement("-alice", "pc1", "22"), "", ""},
		{"a user with a blank", loginElement("alice bob", "pc1", "22"), "", ""},
		{"a token in the host", loginElement("alice", "%h.example.org", "22"), "", ""},
		{"a variable in the user", loginElement("${HOME}", "pc1", "22"), "", ""},
		{"a shell in the host", loginElement("alice", "`id`", "22"), "", ""},
		{"a pattern in the host", loginElement("alice", "*", "22"), "", ""},
		{"a quote", loginElement(`alice"`, "pc1", "22"), "", ""},
		{"a port that is text", loginElement("alice", "pc1", "22 -oX"), "", ""},
		{"port 0", loginElement("alice", "pc1", "0"), "", ""},
		{"port 65536", loginElement("alice", "pc1", "65536"), "", ""},
		{"no user", loginElement("", "pc1", "22"), "", ""},
		{"a host with a zone", loginElement("alice", "fe80::1%eth0", "22"), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := ReadManifest(manifestOf("server", tt.services), "")
			if err != nil {
				t.Fatal(err)
			}
			var login, gateway string
			if n := m.Nodes[0]; n.Login.Exists() {
				login = n.Login.String()
			}
			if n := m.Nodes[0]; n.Gateway.Exists() {
				gateway = n.Gateway.String()
			}
			if login != tt.login || gateway != tt.gateway {
				t.Errorf("login %q through %q, want %q through %q", login, gateway, tt.login, tt.gateway)
			}
			if tt.login == "" && strings.Contains(string(SSHConfig(Hosts("exp", m.Nodes), SSHFiles{"/k", "/h"})), "HostName") {
				t.Error("the configuration names a host all the same")
			}
		})
	}
}

// TestHosts checks that each node has names without special meaning to OpenSSH, which are its own.
func TestHosts(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		nodes []string
		names []string // of each node; of the slice Exp1
	}{
		{"as written", []string{"Client", "my_server"}, []string{"Client.Exp1 client.Exp1 Client.exp1 client.exp1", "my_server.Exp1 my-server.Exp1 my_server.exp1 my-server.exp1"}},
		{"equal without case", []string{"server", "Server"}, []string{"server.Exp1 server-2.Exp1 server.exp1 server-2.exp1", "Server.Exp1 server-3.Exp1 Server.exp1 server-3.exp1"}},
		{"equal after folding", []string{"a b", "a*b", "a-b"}, []string{"a-b-2.Exp1 a-b-2.exp1", "a-b-3.Exp1 a-b-3.exp1", "a-b.Exp1 a-b.exp1"}},
		{"options, patterns and line ends", []string{"-x", "!y", "", "a\nHost *"}, []string{"x.Exp1 x.exp1", "y.Exp1 y.exp1", "node.Exp1 node.exp1", "a-host.Exp1 a-host.exp1"}},
		{"the same twice", []string{"a", "a"}, []string{"a-2.Exp1 a-2.exp1", "a-3.Exp1 a-3.exp1"}},
		{"dots and numbers", []string{"a.b", "012"}, []string{"a.b.Exp1 a-b.Exp1 a.b.exp1 a-b.exp1", "012.Exp1 node-012.Exp1 012.exp1 node-012.exp1"}},
	} {
		var nodes []Node
		for _, name := range tt.nodes {
			nodes = append(nodes, Node{Name: name, Login: Login{Host: "h", Port: 22, User: "alice"}})
		}
		hosts := Hosts("Exp1", nodes)
		config := string(SSHConfig(hosts, SSHFiles{"/k", "/h"}))
		for i, want := range tt.names {
			want = strings.ReplaceAll(want, "xp1", "xp1.patchbay")
			if first, _, _ := strings.Cut(want, " "); !strings.Contains(config, "\nHost "+want+"\n") || hosts[i].Alias != first {
				t.Errorf("%s: no %q in\n%s", tt.rule, want, config)
			}
		}
	}
}

// TestNamed checks which nodes a name on a command line means.
func TestNamed(t *testing.T) {
	var nodes []Node
	for _, name := range []string{"pc", "PC", "My_Server", "a-b", "a_b"} {
		nodes = append(nodes, Node{Name: name})
	}
	hosts := Hosts("Exp1", nodes)
	for name, want := range map[string]string{
		"pc": "pc", "PC": "PC", "Pc": "pc PC", "pc.Exp1": "pc", "PC.exp1.patchbay": "PC", "pc-3": "PC",
		"my_server": "My_Server", "MY_SERVER.EXP1": "My_Server", "my-server": "My_Server", "a-b": "a-b", "a_b": "a_b", "a-b-2": "a_b", "c": "",
	} {
		var got []string
		for _, h := range Named(hosts, name) {
			got = append(got, h.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s means %q, want %q", name, got, want)
		}
	}
}

// TestManyNodesOfOneName checks that naming very many nodes of one name does not take
// quadratic time.
func TestManyNodesOfOneName(t *testing.T) {
	hosts := Hosts("exp", make([]Node, 100_000))
	if last := hosts[len(hosts)-1].Alias; last != "node-100001.exp.patchbay" {
		t.Error(last)
	}
}

// TestKnownHosts checks that the keys of deleted nodes are removed, and all others kept.
func TestKnownHosts(t *testing.T) {
	hosts := Hosts("exp", []Node{{Name: "server", Sliver: "urn:publicid:IDN+example.org+sliver+s2"}})
	text := "s1.server.exp.patchbay ssh-ed25519 A\ns2.server.exp.patchbay ssh-ed25519 B\n[gateway.example.org]:22 ssh-ed25519 C\n"
	if got := string(PruneKnownHosts([]byte(text), hosts)); got != "s2.server.exp.patchbay ssh-ed25519 B\n[gateway.example.org]:22 ssh-ed25519 C\n" {
		t.Errorf("%q", got)
	}
}

// TestWithoutAKeyOpenSSHChooses checks that OpenSSH offers the keys of the agent and of
// ~/.ssh if there is no identity file.
func TestWithoutAKeyOpenSSHChooses(t *testing.T) {
	hosts := Hosts("exp", []Node{{Name: "server", Login: Login{Host: "pc1.example.org", Port: 22, User: "alice"}}})
	for key, want := range map[string]bool{"": false, "/key": true} {
		text := string(SSHConfig(hosts, SSHFiles{key, "/known"}))
		if !strings.Contains(text, "HostName") || strings.Contains(text, "IdentityFile") != want || strings.Contains(text, "IdentitiesOnly") != want {
			t.Errorf("with the key %q the configuration is\n%s", key, text)
		}
	}
}

// TestSSHFilesThatCannotBeQuoted checks that a path with a special meaning to OpenSSH is
// refused.
func TestSSHFilesThatCannotBeQuoted(t *testing.T) {
	for path, ok := range map[string]bool{"/a b/key": true, "/a%b/key": true, `/a"b`: false, "/a\nb": false, "/${x}": false, `/a\b`: false} {
		if err := (SSHFiles{Identity: path, KnownHosts: "/k"}).Check(); (err == nil) != ok {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// FuzzSSHConfig checks that a manifest adds only lines with known keywords to the
// configuration, whose values contain only names and numbers.
func FuzzSSHConfig(f *testing.F) {
	f.Add("server", "alice", "pc1", "22", "gw@gateway:22")
	f.Add("a\nb", "-a", "-oProxyCommand=x", "22", "gw@-o:22")
	f.Add("server", "alice", "2001:db8::1", "22", "gw@[::1]:22")
	f.Fuzz(func(t *testing.T, name, user, host, port, proxy string) {
		var escaped strings.Builder
		_ = xml.EscapeText(&escaped, []byte(proxy))
		text := manifestOf(name, loginElement(user, host, port)+fmt.Sprintf(`<p:proxy proxy="%s" for="%s@%s:%s"/>`, escaped.String(), "me", "x", "22"))
		m, err := ReadManifest(text, "")
		if err != nil {
			t.Skip()
		}
		config := string(SSHConfig(Hosts("exp", m.Nodes), SSHFiles{"/key", "/known"}))
		for line := range strings.Lines(config) {
			words := strings.Fields(line)
			if len(words) == 0 || words[0] == "#" {
				continue
			}
			switch words[0] {
			case "Host", "HostName", "Port", "User", "HostKeyAlias", "ProxyJump":
				if len(words) != 2 || strings.Trim(words[1], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-") != "" || words[1][0] == '-' {
					t.Errorf("line %q", line)
				}
			case "IdentityFile", "IdentitiesOnly", "UserKnownHostsFile", "StrictHostKeyChecking", "LogLevel":
			default:
				t.Errorf("line %q", line)
			}
		}
	})
}

// TestEveryManifestOfTheTestsIsRead reads the manifests of other tests, some of which come
// from real aggregates.
func TestEveryManifestOfTheTestsIsRead(t *testing.T) {
	files, err := filepath.Glob("../../../rspec/testdata/*.manifest.xml")
	if err != nil || len(files) == 0 {
		t.Fatal("no manifests", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadManifest(text, ""); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
