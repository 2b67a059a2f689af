package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var someKeys = Configuration{
	Hostname: "alpha",
	Accounts: []Account{{Login: "alice", Keys: []string{"ssh-ed25519 AAAA alice"}}, {Login: "bob"}},
	Key:      "PRIVATE\n", PublicKey: "ssh-rsa BBBB experiment",
	Hosts:      []string{"127.64.0.1\tbeta"},
	KnownHosts: []string{"beta ssh-ed25519 CCCC"},
}

func (n *node) configure(cfg Configuration) Facts {
	n.t.Helper()
	facts, err := Configure(n.t.Context(), n.dial(), cfg)
	check(n.t, err)
	return facts
}

// file is the content of a file of the node, "" if it is not there.
func (n *node) file(name string) string {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.root, name))
	if err != nil && !os.IsNotExist(err) {
		n.t.Fatal(err)
	}
	return string(text)
}

func TestConfigure(t *testing.T) {
	n := newNode(t)
	facts := n.configure(someKeys)
	if !facts.Sudo || len(facts.Problems) > 0 {
		t.Errorf("facts %+v", facts)
	}
	for _, c := range []struct{ name, want string }{
		{"etc/hostname", "alpha\n"},
		{"etc/hosts", "127.0.0.1\tlocalhost\n" + beginMark + "\n127.64.0.1\tbeta\n" + endMark + "\n"},
		{"etc/ssh/ssh_known_hosts", beginMark + "\nbeta ssh-ed25519 CCCC\n" + endMark + "\n"},
		{"etc/passwd", nodeFiles["etc/passwd"] + "alice:x:10000:10000::/home/alice:/bin/bash\n"},
		{"etc/shadow", nodeFiles["etc/shadow"] + "alice:*:::::::\n"},
		{"etc/group", nodeFiles["etc/group"] + "alice:x:10000:\n"},
		{"etc/sudoers.d/90-patchbay", sudoersHeader + "alice ALL=(ALL:ALL) NOPASSWD: ALL\nbob ALL=(ALL:ALL) NOPASSWD: ALL\n"},
		{"var/lib/patchbay/accounts", "alice 10000\nbob 1001\n"},
		{"home/alice/.bashrc", "# empty\n"},
		{"home/alice/.ssh/authorized_keys", beginMark + "\nssh-ed25519 AAAA alice\n" + endMark + "\n"},
		{"home/alice/.ssh/id_rsa", "PRIVATE\n"},
		{"home/alice/.ssh/id_rsa.pub", "ssh-rsa BBBB experiment\n"},
		{"home/bob/.ssh/id_rsa", "PRIVATE\n"},
	} {
		if got := n.file(c.name); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	if got := n.line("alice", "hostname; stat -c '%n %a %u %g' ~ ~/.bashrc ~/.ssh ~/.ssh/*"); got != strings.Join([]string{
		"alpha", "/home/alice 755 10000 10000", "/home/alice/.bashrc 644 10000 10000", "/home/alice/.ssh 700 10000 10000",
		"/home/alice/.ssh/authorized_keys 600 10000 10000", "/home/alice/.ssh/id_rsa 600 10000 10000", "/home/alice/.ssh/id_rsa.pub 644 10000 10000",
	}, "\n") {
		t.Errorf("alice sees\n%s", got)
	}
	if got := n.line("root", "stat -c %a /etc/passwd /etc/shadow /etc/sudoers.d/90-patchbay"); got != "644\n644\n440" {
		t.Errorf("modes %q", got)
	}
}
