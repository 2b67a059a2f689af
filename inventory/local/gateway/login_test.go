package gateway

import (
	"fmt"
	"strings"
	"testing"
)

func TestOnlyTheKeyOfTheAccountOpensTheDoor(t *testing.T) {
	t.Parallel()
	s, _, _ := newSite(t)
	alice, bob, carol := newKey(t), newKey(t), newKey(t)
	one := s.add("n1", Account{"alice", []string{alice.line}}, Account{"bob", []string{"# no key", bob.line}})
	two := s.add("n2", Account{"carol", []string{carol.line}}, Account{"empty", nil})
	for _, c := range []struct {
		name, user string
		key        key
		at         *machine
		opens      bool
	}{
		{"RightKey", "alice", alice, one, true},
		{"SecondLine", "bob", bob, one, true},
		{"WrongKey", "alice", newKey(t), one, false},
		{"RightKeyWrongUser", "bob", alice, one, false},
		{"RightKeyRoot", "root", alice, one, false},
		{"RightKeyGatewayUser", User, alice, one, false},
		{"OtherNodesKey", "alice", carol, one, false},
		{"OtherNodesUserAndKey", "carol", carol, one, false},
		{"KeyAtOtherNode", "alice", alice, two, false},
		{"AccountWithoutKeys", "empty", alice, two, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := s.client(c.key)
			p.knows("node", c.at.port, c.at.host, "")
			r := p.run("ssh", c.user+"@node", "echo $USER")
			switch {
			case c.opens && (r.status != 0 || r.out != c.user+"\n"):
				t.Errorf("status %d, said %q %q", r.status, r.out, r.err)
			case !c.opens && (r.status != 255 || !strings.Contains(r.err, "Permission denied (publickey)")):
				t.Errorf("status %d, said %q %q", r.status, r.out, r.err)
			}
		})
	}
}

func TestExitStatus(t *testing.T) {
	t.Parallel()
	s, _, _ := newSite(t)
	k := newKey(t)
	m := s.add("n1", Account{"alice", []string{k.line}})
	p := s.client(k)
	p.knows("node", m.port, m.host, "\tUser alice")
	for _, status := range []int{0, 7, 254, 255} {
		if r := p.run("ssh", "node", fmt.Sprintf("echo out; echo err >&2; exit %d", status)); r.status != status || r.out != "out\n" || r.err != "err\n" {
			t.Errorf("exit %d: %+v", status, r)
		}
	}
	if r := p.run("ssh", "node", "kill -TERM $$"); r.status != 255 {
		t.Errorf("killed: %+v", r)
	}
}
