package gateway

import (
	"strings"
	"testing"
)

func TestGatewayAccountLeadsToNodesOfTheKey(t *testing.T) {
	t.Parallel()
	s, port, host := newSite(t)
	alice, bob := newKey(t), newKey(t)
	one := s.add("n1", Account{Login: "alice", Keys: []string{alice.line}})
	two := s.add("n2", Account{Login: "bob", Keys: []string{bob.line}}, Account{Login: "alice", Keys: []string{alice.line}})
	three := s.add("n3", Account{Login: "bob", Keys: []string{bob.line}})
	if err := s.manager.SetEndpoint(three.endpoint, nil, nil); err != nil { // reachable only through the gateway account
		t.Fatal(err)
	}
	// Two nodes with the same short name, for Bob.
	four := s.add("n4", Account{Login: "bob", Keys: []string{bob.line}})
	four.endpoint.Names = []string{"n3.other.example.org"}
	if err := s.manager.SetEndpoint(four.endpoint, nil, nil); err != nil {
		t.Fatal(err)
	}
	hosts := map[string]key{"n1": one.host, "n2": two.host, "n3": three.host, "n3.slice.example.org": three.host, "n1.slice.example.org": one.host, "n4": four.host}
	for _, c := range []struct {
		name, gateway, user, node string
		key                       key
		want                      string // of the output, or of the error
		opens                     bool
	}{
		{"ByID", User, "alice", "n1", alice, "alice", true},
		{"ByName", User, "alice", "n1.slice.example.org", alice, "alice", true},
		{"OtherLetters", User, "alice", "N1.Slice.example.org", alice, "alice", true},
		{"AsOneself", "alice", "alice", "n2", alice, "alice", true},
		{"WithoutPublicEndpoint", User, "bob", "n3", bob, "bob", true},
		{"PlainNameTwice", User, "bob", "n3.slice.example.org", bob, "bob", true},
		{"OthersNode", User, "bob", "n3", alice, "your key opens no node", false},
		{"UnknownNode", User, "alice", "n9", alice, "your key opens no node", false},
		{"OthersAccountAtOwnNode", User, "bob", "n2", alice, "Permission denied", false},
		{"UnknownKey", User, "alice", "n1", newKey(t), "Permission denied", false},
		{"UnknownGatewayUser", "mallory", "alice", "n1", alice, "Permission denied", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := s.client(c.key)
			p.addKnownHost("gw", port, host, "\tUser "+c.gateway+"\n\tLogLevel INFO")
			for name, k := range hosts {
				p.append("known_hosts", name+" "+k.line+"\n")
			}
			r := p.run("ssh", "-J", "gw", c.user+"@"+c.node, "echo $USER")
			if c.opens != (r.status == 0) || !strings.Contains(r.out+r.err, c.want) {
				t.Errorf("%+v", r)
			}
		})
	}
	t.Run("AmbiguousName", func(t *testing.T) {
		four.endpoint.Names = []string{"twin.a.example.org"}
		three.endpoint.Names = []string{"twin.b.example.org"}
		for _, m := range []*testNode{three, four} {
			if err := s.manager.SetEndpoint(m.endpoint, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		p := s.client(bob)
		p.addKnownHost("gw", port, host, "\tUser "+User+"\n\tLogLevel INFO")
		if r := p.run("ssh", "-W", "twin:22", "gw"); r.status != 255 || !strings.Contains(r.err, "twin.a.example.org (n4), twin.b.example.org (n3)") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("OtherPort", func(t *testing.T) {
		p := s.client(alice)
		p.addKnownHost("gw", port, host, "\tUser "+User+"\n\tLogLevel INFO")
		if r := p.run("ssh", "-W", "n1:80", "gw"); r.status != 255 || !strings.Contains(r.err, "only port 22") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("W", func(t *testing.T) {
		p := s.client(alice)
		p.addKnownHost("gw", port, host, "\tUser "+User+"\n\tLogLevel INFO")
		if r := p.runWith([]byte("SSH-2.0-test\r\n"), "ssh", "-W", "n1:22", "gw"); !strings.HasPrefix(r.out, version) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("Shell", func(t *testing.T) {
		p := s.client(alice)
		p.addKnownHost("gw", port, host, "\tUser "+User+"\n\tLogLevel INFO")
		for _, args := range [][]string{{"gw"}, {"gw", "true"}, {"-tt", "gw"}, {"-s", "gw", "sftp"}} {
			r := p.run("ssh", args...)
			if r.status != 1 || !strings.Contains(r.out+r.err, "-J gateway@") || !strings.Contains(r.out+r.err, "Your nodes: n1.slice.example.org n2.slice.example.org") {
				t.Errorf("%q: %+v", args, r)
			}
		}
	})
}

func TestEndpointsWithAnAddress(t *testing.T) {
	t.Parallel()
	s, port, host := newSite(t)
	alice := newKey(t)
	far := s.add("far", Account{Login: "alice", Keys: []string{alice.line}})
	public := listen(t)
	near := Endpoint{Node: "near", Names: []string{"near.example.org"}, Accounts: far.endpoint.Accounts, Address: far.public.Addr().String()}
	if err := s.manager.SetEndpoint(near, public, nil); err != nil {
		t.Fatal(err)
	}
	p := s.client(alice)
	p.addKnownHost("near", portOf(public), far.host, "\tUser alice")
	if r := p.run("ssh", "near", "echo $USER"); r.out != "alice\n" {
		t.Errorf("by its port: %+v", r)
	}
	p.addKnownHost("gw", port, host, "\tUser "+User+"\n\tLogLevel INFO")
	p.append("known_hosts", "near.example.org "+far.host.line+"\n")
	if r := p.run("ssh", "-J", "gw", "alice@near.example.org", "echo $USER"); r.out != "alice\n" {
		t.Errorf("by the gateway account: %+v", r)
	}
	q := s.client(newKey(t))
	q.addKnownHost("near", portOf(public), far.host, "\tUser alice")
	if r := q.run("ssh", "near", "true"); r.status != 255 || !strings.Contains(r.err, "Permission denied") {
		t.Errorf("wrong key: %+v", r)
	}
}
