package gateway

import (
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

func TestVariables(t *testing.T) {
	for _, c := range []struct {
		name, value string
		good        bool
	}{
		{"LANG", "C.UTF-8", true},
		{"LC_ALL", "", true},
		{"LC_", "x", false},
		{"LC_all", "x", false},
		{"LC_A=B", "x", false},
		{"LANGUAGE", "x", false},
		{"PATH", "/evil", false},
		{"LD_PRELOAD", "/evil", false},
		{"BASH_ENV", "/evil", false},
		{"LANG", "a\x00b", false},
		{"LANG", strings.Repeat("x", maxValue+1), false},
		{"LC_" + strings.Repeat("X", 64), "x", false},
	} {
		if got := isAllowedVariable(c.name, c.value); got != c.good {
			t.Errorf("%q=%.20q: %t", c.name, c.value, got)
		}
	}
}

func TestSignalNames(t *testing.T) {
	for number, want := range map[unix.Signal]string{
		unix.SIGTERM: "TERM", unix.SIGKILL: "KILL", unix.SIGUSR1: "USR1", unix.SIGSYS: "SYS@openssh.com", 99: "UNKNOWN@openssh.com",
	} {
		if got := signalName(int(number)); got != want {
			t.Errorf("%d: %s, want %s", number, got, want)
		}
	}
	for name, want := range map[string]unix.Signal{
		"INT": unix.SIGINT, "HUP": unix.SIGHUP, "KILL": unix.SIGKILL, "STOP": 0, "SYS@openssh.com": 0, "": 0, "SIGINT": 0, "int": 0,
	} {
		if got := signalNumber(name); got != int(want) {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
}

func TestKeyLines(t *testing.T) {
	good := newKey(t)
	ca, signed := newKey(t), newKey(t)
	cert := &ssh.Certificate{Key: signed.signer.PublicKey(), CertType: ssh.UserCert, ValidBefore: ssh.CertTimeInfinity}
	if err := cert.SignCert(strings.NewReader(strings.Repeat("x", 64)), ca.signer); err != nil {
		t.Fatal(err)
	}
	authority := "cert-authority " + newKey(t).line
	got := parseKeys([]string{
		authority, "", "# comment", "ssh-ed25519", "ssh-ed25519 AAAA broken", strings.Repeat("x", maxLine+1),
		string(ssh.MarshalAuthorizedKey(cert)), good.line + " a comment", "no-pty " + newKey(t).line,
	})
	if len(got) != 1 || !contains(got, good.signer.PublicKey().Marshal()) {
		t.Errorf("%d keys", len(got))
	}
}

// What a peer sends about a session changes only what it may.
func FuzzSession(f *testing.F) {
	for _, term := range []string{"xterm", strings.Repeat("x", 200<<10)} {
		f.Add("pty-req", ssh.Marshal(struct {
			Term       string
			A, B, C, D uint32
			Modes      string
		}{term, 80, 24, 0, 0, "\x03\x00\x00\x00\x08\x00"}))
	}
	f.Add("env", ssh.Marshal(struct{ Name, Value string }{"LC_ALL", "C"}))
	f.Add("exec", ssh.Marshal(struct{ Line string }{"true"}))
	f.Add("subsystem", ssh.Marshal(struct{ Line string }{"sftp"}))
	f.Add("signal", ssh.Marshal(struct{ Name string }{"TERM"}))
	f.Add("window-change", ssh.Marshal(struct{ A, B, C, D uint32 }{1, 2, 3, 4}))
	f.Add("auth-agent-req@openssh.com", []byte(nil))
	f.Fuzz(func(t *testing.T, kind string, payload []byte) {
		s := &session{c: &login{user: "alice"}, signalling: make(chan struct{}, 1)}
		r := &ssh.Request{Type: kind, Payload: payload}
		s.handleRequest(r)
		s.handleRequest(&ssh.Request{Type: "window-change", Payload: payload})
		for _, v := range s.env {
			if !strings.HasPrefix(v, "L") || strings.ContainsRune(v, 0) {
				t.Errorf("variable %q", v)
			}
		}
		if s.term != nil && len(s.term.Name)+len(s.term.Modes) > maxModes {
			t.Errorf("terminal %+v", s.term)
		}
		cmd, ok := s.parseCommand(r)
		if ok && (cmd.User != "alice" || cmd.Argv != nil || len(cmd.Line) > maxCommand || strings.ContainsRune(cmd.Line, 0)) {
			t.Errorf("command %+v", cmd)
		}
	})
}

// A forwarding request can only contain an address.
func FuzzForward(f *testing.F) {
	f.Add(ssh.Marshal(tcpForward{"localhost", 80}))
	f.Add(ssh.Marshal(unixForward{"/tmp/x"}))
	f.Add(ssh.Marshal(tcpOpen{"n1", 22, "127.0.0.1", 1}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		// Without a node nothing is opened: the request fails at that point.
		g := &gateway{agents: nowhere{}, manager: &sender{}}
		g.requests.close()
		c := &login{g: g, user: "alice"}
		if ok, _ := c.forwardTCP(payload, &forwards{}); ok {
			t.Error("it listens")
		}
		if c.forwardUnix(payload, &forwards{}) {
			t.Error("it listens")
		}
		var to tcpOpen
		if ssh.Unmarshal(payload, &to) == nil {
			c.findEndpoint(to.Host)
		}
	})
}

// nowhere has no agents.
type nowhere struct{ nodeAgents }

func FuzzKeyLine(f *testing.F) {
	f.Add("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGxkeEJYfGCzLhGBiNbhLtnWeCHYYyPHTkWwYmOJ1LrM x")
	f.Fuzz(func(t *testing.T, line string) {
		for _, k := range parseKeys([]string{line}) {
			if _, err := ssh.ParsePublicKey(k); err != nil {
				t.Error(err)
			}
		}
	})
}
