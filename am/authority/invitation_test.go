package authority

import (
	"strings"
	"testing"
	"time"

	"patchbay/am/api/xmlrpc"
)

func TestCodes(t *testing.T) {
	var c code
	for _, first := range []byte{0x00, 0xf8, 0xff} { // in base64: A, -, _
		c.root[0] = first
		s := c.String()
		if back, err := parseCode(" " + s + "\n"); err != nil || back != c || !strings.HasPrefix(s, "pb-") {
			t.Errorf("%s: %v, %v", s, back, err)
		}
		for _, wrong := range []string{"", s[1:], s[:40], s + "A", s[:len(s)-1] + "!"} {
			if _, err := parseCode(wrong); err == nil {
				t.Errorf("%q is accepted", wrong)
			}
		}
	}
}

// TestInvitations uses the certificates of members as those of new clients, whose keys the authority
// certifies.
func TestInvitations(t *testing.T) {
	f := newFixture(t)
	accept := func(who, code string) answer { return f.call(who, "/ma/2", "patchbay_accept", code) }
	invited := map[string]bool{}
	invite := func(name string) string {
		t.Helper()
		c, isReplaced, err := f.Invite(name, f.now)
		if err != nil || isReplaced != invited[name] {
			t.Fatalf("an invitation of %s replaces another: %v, %v", name, isReplaced, err)
		}
		invited[name] = true
		return c
	}
	dave := invite("dave")
	other := "A"
	if dave[3] == 'A' {
		other = "B"
	}
	for _, x := range []struct {
		rule, who, code string
		want            Code
		says            string
	}{
		{"without a certificate", "nobody", dave, Argument, "no certificate"},
		{"another secret", "eve", dave[:60] + "AAAAAAA", Authorization, "no such invitation"},
		{"another authority", "eve", "pb-" + other + dave[4:], Authorization, "another authority"},
		{"the first use", "eve", dave, None, ""},
		{"the same key again", "eve", dave, None, ""},
		{"another key", "portal", dave, Authorization, "has been used"},
	} {
		if a := accept(x.who, x.code); a.code != x.want || !strings.Contains(a.output, x.says) {
			t.Errorf("%s: %d %s", x.rule, a.code, a.output)
		}
	}
	replaced, late := invite("erin"), invite("erin")
	if a := accept("eve", replaced); a.code != Authorization {
		t.Errorf("a replaced invitation: %d %s", a.code, a.output)
	}
	f.now = f.now.Add(InvitationLife + time.Second)
	if a := accept("eve", late); a.code != Authorization || !strings.Contains(a.output, "expired") {
		t.Errorf("an expired invitation: %d %s", a.code, a.output)
	}
	for _, name := range []string{"dave", "alice", "../x"} {
		if _, _, err := f.Invite(name, f.now); err == nil {
			t.Errorf("%s is invited", name)
		}
	}
	again := invite("frank")
	f.Service.config.Invite = false
	if a := accept("eve", again); a.code != Authorization || !strings.Contains(a.output, "accepts no invitations") {
		t.Errorf("invitations are off: %d %s", a.code, a.output)
	}
}

// TestVerifyServer checks what a client believes of a server before it sends the code.
func TestVerifyServer(t *testing.T) {
	f := newFixture(t)
	c, _, err := f.Invite("dave", f.now)
	if err != nil {
		t.Fatal(err)
	}
	good := f.must("eve", "/ma/2", "patchbay_server").(xmlrpc.Struct)
	leaf := f.read("example.org", "authority.pem")[0].Raw // the listener's certificate in this fixture
	with := func(name string, v xmlrpc.Value) xmlrpc.Struct {
		var s xmlrpc.Struct
		for _, m := range good {
			if m.Name == name {
				m.Value = v
			}
			s = append(s, m)
		}
		return s
	}
	pem := func(path ...string) string {
		return string(encode(f.read(path...)[0].Raw))
	}
	if s, err := VerifyServer(good, c, leaf); err != nil || len(s.Certificates) == 0 {
		t.Errorf("the right server: %v", err)
	}
	for rule, x := range map[string]struct {
		answer xmlrpc.Value
		leaf   []byte
	}{
		"another root":                       {with("authority", pem("elsewhere.org", "authority.pem")), leaf},
		"a member authority of another root": {with("member_authority", pem("elsewhere.org", "ma.pem")), leaf},
		"another certificate shown":          {good, f.read("elsewhere.org", "authority.pem")[0].Raw},
		"one more certificate":               {with("server_certificates", []xmlrpc.Value{pem("elsewhere.org", "authority.pem")}), f.read("elsewhere.org", "authority.pem")[0].Raw},
		"no signature":                       {with("signature", []byte{}), leaf},
		"no answer":                          {"", leaf},
	} {
		if _, err := VerifyServer(x.answer, c, x.leaf); err == nil {
			t.Errorf("%s is believed", rule)
		}
	}
}
