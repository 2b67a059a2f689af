package agent

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
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

// file returns the content of a file of the node, "" if there is none.
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
	if len(facts.Problems) > 0 || !maps.Equal(facts.UserIDs, map[string]uint32{"alice": 10000, "bob": 1001}) {
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
	for _, account := range someKeys.Accounts {
		for _, key := range account.Keys {
			if got := n.file("root/.ssh/authorized_keys"); !strings.Contains(got, key+"\n") || n.file("root/.ssh/id_rsa") == "" {
				t.Errorf("root lacks %q in %q", key, got)
			}
		}
	}
}

// state returns each file of the node with its inode and times, for comparison.
func (n *node) state() string {
	n.t.Helper()
	return n.line("root", "find /etc /home /var /root -printf '%p %i %m %U %G %C@ %T@ %l\\n' | grep -v '^/etc/.pwd.lock ' | sort")
}

func TestConfigureAgainChangesNothing(t *testing.T) {
	n := newNode(t)
	n.configure(someKeys)
	before := n.state()
	facts := n.configure(someKeys)
	if after := n.state(); after != before {
		t.Errorf("%+v\n%s\nbefore\n%s", facts, after, before)
	}
}

func TestConfigureKeepsWhatUsersWrote(t *testing.T) {
	n := newNode(t)
	n.configure(someKeys)
	n.line("root", `sed -i '1i 10.0.0.1 mine' /etc/hosts; echo '10.0.0.2 too' >> /etc/hosts; chmod 664 /etc/hosts
		echo 'ssh-rsa OWN alice' >> /home/alice/.ssh/authorized_keys
		echo OWN > /home/alice/.ssh/id_rsa; echo rsa > /home/alice/.ssh/id_rsa.pub
		echo 'carol:x:1003:1003::/home/carol:/bin/sh' >> /etc/passwd; echo '# note' >> /etc/group
		usermod() { sed -i 's|/home/alice:/bin/bash|/home/alice:/bin/dash|' /etc/passwd; }; usermod`)
	cfg := someKeys
	cfg.Accounts = []Account{{Login: "alice", Keys: []string{"ssh-ed25519 NEW alice"}}}
	cfg.Key, cfg.PublicKey = "ANOTHER\n", "another"
	cfg.Hosts = []string{"127.64.0.1\tbeta", "127.64.0.2\tgamma"}
	n.configure(cfg)
	for _, c := range []struct{ name, want string }{
		{"etc/hosts", "10.0.0.1 mine\n127.0.0.1\tlocalhost\n" + beginMark + "\n127.64.0.1\tbeta\n127.64.0.2\tgamma\n" + endMark + "\n10.0.0.2 too\n"},
		{"home/alice/.ssh/authorized_keys", beginMark + "\nssh-ed25519 NEW alice\n" + endMark + "\nssh-rsa OWN alice\n"},
		{"home/alice/.ssh/id_rsa", "OWN\n"},
		{"home/alice/.ssh/id_rsa.pub", "rsa\n"},
		{"etc/passwd", "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n" +
			"sh:x:1002:1001::/nowhere:/bin/sh\nalice:x:10000:10000::/home/alice:/bin/dash\ncarol:x:1003:1003::/home/carol:/bin/sh\n"},
		{"etc/group", "root:x:0:\ntty:x:5:\nlab:x:700:bob,eve\nalice:x:10000:\n# note\n"},
	} {
		if got := n.file(c.name); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	if got := n.line("root", "stat -c %a /etc/hosts"); got != "664" {
		t.Error("mode of /etc/hosts", got)
	}
}

func TestConfigureReplacesOnlyItsOwnKey(t *testing.T) {
	const mine, now = "PRIVATE\n", "ANOTHER\n"
	for _, tt := range []struct{ name, change, private, public string }{
		{"an unchanged key is replaced", "", now, "another\n"},
		{"a user's own pair is kept", "echo OWN > id_rsa; echo own > id_rsa.pub", "OWN\n", "own\n"},
		{"a user's own key beside the old public key is kept", "echo OWN > id_rsa", "OWN\n", "ssh-rsa BBBB experiment\n"},
		{"a link is kept", "mv id_rsa x; ln -s y id_rsa", "", "ssh-rsa BBBB experiment\n"},
		{"interrupted before the private key was removed", "rm id_rsa.pub", now, "another\n"},
		{"interrupted after both were removed", "rm id_rsa id_rsa.pub", now, "another\n"},
		{"interrupted before the private key was written", "rm id_rsa; echo another > id_rsa.pub", now, "another\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.configure(someKeys)
			n.line("alice", "cd ~/.ssh; "+tt.change)
			cfg := someKeys
			cfg.Key, cfg.PublicKey = now, "another"
			n.configure(cfg)
			private := ""
			if b, err := os.ReadFile(filepath.Join(n.root, "home/alice/.ssh/id_rsa")); err == nil {
				private = string(b)
			}
			if public := n.file("home/alice/.ssh/id_rsa.pub"); private != tt.private || public != tt.public {
				t.Errorf("private %q, public %q", private, public)
			}
			if got := n.file("root/.ssh/id_rsa"); got != now {
				t.Errorf("root has %q instead of %q", got, mine)
			}
		})
	}
}

func TestConfigureWithoutAnythingLeavesNoBlock(t *testing.T) {
	n := newNode(t)
	n.configure(someKeys)
	n.configure(Configuration{Hostname: "alpha"})
	for _, c := range []struct{ name, want string }{
		{"etc/hosts", nodeFiles["etc/hosts"]},
		{"etc/ssh/ssh_known_hosts", ""},
		{"etc/sudoers.d/90-patchbay", sudoersHeader},
	} {
		if got := n.file(c.name); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestRemovedAccounts(t *testing.T) {
	n := newNode(t)
	n.configure(someKeys)
	// Processes that only SIGKILL ends, and that fork as fast as they can.
	p, _, out := n.start(Command{User: "alice", Line: `trap '' TERM HUP; echo data > ~/data; echo started
		f() { sleep 0.01; f & }; f & setsid sleep 1000 & while :; do sleep 0.01; done`})
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	cfg := someKeys
	cfg.Accounts = someKeys.Accounts[1:]
	n.configure(cfg)
	if exit, err := p.Wait(); err != nil || exit.Signal != 9 {
		t.Errorf("the command ended as %+v, %v", exit, err)
	}
	if got := n.line("root", "grep -l '^Uid:.10000' /proc/[0-9]*/status || true"); got != "" {
		t.Errorf("processes left: %s", got)
	}
	for _, name := range []string{"etc/passwd", "etc/shadow", "etc/group", "etc/sudoers.d/90-patchbay"} {
		if strings.Contains(n.file(name), "alice") {
			t.Errorf("%s still names alice", name)
		}
	}
	if got := n.file("home/alice/data"); got != "data\n" {
		t.Errorf("alice's file: %q", got)
	}
	if got := n.file("var/lib/patchbay/accounts"); got != "alice 10000 gone\nbob 1001\n" {
		t.Errorf("records: %q", got)
	}
	if _, err := Exec(t.Context(), n.dial(), Command{User: "alice", Terminal: &Terminal{}}, nil); err == nil {
		t.Error("alice still logs in")
	}
	t.Run("NobodyGetsTheirFiles", func(t *testing.T) {
		m := &node{t: t, path: n.path, root: n.root}
		cfg.Accounts = append(cfg.Accounts, Account{Login: "dora"})
		m.configure(cfg)
		if got := m.line("root", "id -u dora"); got != "10001" {
			t.Errorf("dora has the id %s", got)
		}
	})
	t.Run("WhoComesBackHasThem", func(t *testing.T) {
		m := &node{t: t, path: n.path, root: n.root}
		cfg.Accounts = append(cfg.Accounts, Account{Login: "alice"})
		m.configure(cfg)
		if got := m.line("alice", "id -u; cat ~/data"); got != "10000\ndata" {
			t.Errorf("alice: %s", got)
		}
	})
	t.Run("AlsoInANewAgent", func(t *testing.T) {
		m := startNode(t, n.root)
		m.configure(someKeys)
		if got := m.line("alice", "id -u; cat ~/data"); got != "10000\ndata" {
			t.Errorf("alice: %s", got)
		}
		if strings.Contains(m.file("etc/passwd"), "dora") {
			t.Error("dora is still there")
		}
	})
}

func TestConfigureStaysInsideHomes(t *testing.T) {
	n := newNode(t)
	n.line("root", "echo secret > /root/secret; chmod 600 /root/secret; mkdir -m 755 /etc/keep; chmod 777 /var/lib")
	cfg := someKeys
	cfg.Accounts = []Account{{Login: "bob", Keys: []string{"ssh-rsa BOB"}}, {Login: "alice"}}
	for _, c := range []struct{ rule, prepare, problem string }{
		{"FolderIsALinkToRoots", "ln -s /etc/keep ~/.ssh", "permission denied"},
		{"FolderIsALinkToNothing", "ln -s /etc/none ~/.ssh", "no such file"},
		{"FolderIsAFile", "touch ~/.ssh", "not a directory"},
		{"KeysAreALinkToRoots", "mkdir ~/.ssh; ln -s /root/secret ~/.ssh/authorized_keys", "permission denied"},
		{"KeysAreALinkToAPublicFile", "mkdir ~/.ssh; ln -s /etc/hostname ~/.ssh/authorized_keys", ""},
		{"KeysAreAPipe", "mkdir ~/.ssh; mkfifo ~/.ssh/authorized_keys", "not a regular file"},
		{"KeysAreADevice", "mkdir ~/.ssh; ln -s /dev/null ~/.ssh/authorized_keys", "not a regular file"},
		{"KeysAreAFolder", "mkdir -p ~/.ssh/authorized_keys", "is not a regular file"},
		{"KeysAreHuge", "mkdir ~/.ssh; truncate -s 1G ~/.ssh/authorized_keys", "larger than"},
		{"NewFileIsALink", "mkdir ~/.ssh; ln -s /etc/keep/x ~/.ssh/.authorized_keys.patchbay", ""},
		{"NewFileIsAFolder", "mkdir -p ~/.ssh/.authorized_keys.patchbay/x", "not empty"},
		{"FolderCannotBeEntered", "mkdir -m 0 ~/.ssh", "permission denied"},
		{"KeyIsALink", "mkdir ~/.ssh; ln -s /etc/keep/x ~/.ssh/id_rsa", ""},
		{"PublicKeyIsALink", "mkdir ~/.ssh; ln -s /etc/keep/x ~/.ssh/id_rsa.pub", ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			m := &node{t: t, path: n.path, root: n.root}
			m.line("bob", "chmod -R 700 ~; rm -rf ~/.ssh; "+c.prepare)
			facts := m.configure(cfg)
			got := strings.Join(facts.Problems, "\n")
			if c.problem == "" && got != "" || !strings.Contains(got, c.problem) || c.problem != "" && !strings.HasPrefix(got, "the home of bob: ") {
				t.Errorf("problems %q, want %q", got, c.problem)
			}
			if got := m.line("root", "cat /root/secret /etc/hostname; ls /etc/keep; stat -c %a /etc/keep; ls /etc/none 2>/dev/null; true"); got != "secret\nalpha\n755" {
				t.Errorf("root's files: %q", got)
			}
			if got := m.line("bob", "find ~ -not -user bob; test -f ~/.ssh/authorized_keys && head -c 100 ~/.ssh/authorized_keys; true"); strings.Contains(got, "secret") {
				t.Errorf("bob has %q", got)
			}
			if got := m.line("alice", "cat ~/.ssh/id_rsa"); got != "PRIVATE" {
				t.Errorf("alice, who did nothing, has %q", got)
			}
		})
	}
}

// A hard link to a file that its owner cannot read must not reveal it to the owner.
func TestConfigureReadsKeysAsTheAccount(t *testing.T) {
	n := newNode(t)
	n.line("root", "echo secret > /home/bob/secret; chmod 600 /home/bob/secret; mkdir /home/bob/.ssh; ln /home/bob/secret /home/bob/.ssh/authorized_keys; chown bob /home/bob/.ssh")
	facts := n.configure(someKeys)
	if len(facts.Problems) != 1 || !strings.Contains(facts.Problems[0], "permission denied") {
		t.Errorf("problems %q", facts.Problems)
	}
	if got := n.line("root", "cat /home/bob/.ssh/authorized_keys"); got != "secret" {
		t.Errorf("keys %q", got)
	}
}

// A system account is left unchanged, without keys or rights; the other accounts are added.
func TestConfigureLeavesSystemAccounts(t *testing.T) {
	n := newNode(t)
	before := n.file("etc/passwd")
	facts := n.configure(Configuration{Hostname: "alpha", Accounts: []Account{
		{Login: "daemon", Keys: []string{"ssh-rsa D"}}, {Login: "carol", Keys: []string{"ssh-rsa C"}},
	}})
	if len(facts.Problems) != 1 || !strings.Contains(facts.Problems[0], "the login daemon: is a system account of the image") {
		t.Errorf("problems %q", facts.Problems)
	}
	for _, c := range []struct{ name, want string }{
		{"etc/passwd", before + "carol:x:10000:10000::/home/carol:/bin/bash\n"},
		{"var/lib/patchbay/accounts", "carol 10000\n"},
		{"etc/sudoers.d/90-patchbay", sudoersHeader + "carol ALL=(ALL:ALL) NOPASSWD: ALL\n"},
		{"usr/sbin/.ssh/authorized_keys", ""},
		{"home/carol/.ssh/authorized_keys", beginMark + "\nssh-rsa C\n" + endMark + "\n"},
	} {
		if got := n.file(c.name); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestConfigureRefuses(t *testing.T) {
	n := newNode(t)
	before := n.state()
	account := func(login string, keys ...string) Configuration {
		return Configuration{Hostname: "alpha", Accounts: []Account{{Login: login, Keys: keys}}}
	}
	for _, c := range []struct {
		rule string
		cfg  Configuration
		want string
	}{
		{"NoHostname", Configuration{}, "host name"},
		{"HostnameWithASlash", Configuration{Hostname: "a/b"}, "host name"},
		{"HostnameWithALine", Configuration{Hostname: "a\nb"}, "host name"},
		{"LongHostname", Configuration{Hostname: strings.Repeat("a", 65)}, "host name"},
		{"EmptyLogin", account(""), "not a login"},
		{"LoginOfAPath", account("../root"), "not a login"},
		{"LoginWithAColon", account("a:b"), "not a login"},
		{"LoginWithALine", account("a\nb"), "not a login"},
		{"LoginWithAComma", account("a,b"), "not a login"},
		{"LoginInCapitals", account("Alice"), "not a login"},
		{"LoginBeginsWithAHyphen", account("-a"), "not a login"},
		{"LongLogin", account(strings.Repeat("a", 33)), "not a login"},
		{"KeyWithALine", account("alice", "ssh-rsa A\nssh-rsa B"), "single line"},
		{"KeyThatIsAMark", account("alice", endMark), "single line"},
		{"LongKey", account("alice", strings.Repeat("a", lineLimit+1)), "single line"},
		{"LoginTwice", Configuration{Hostname: "alpha", Accounts: []Account{{Login: "a"}, {Login: "a"}}}, "twice"},
		{"HostWithALine", Configuration{Hostname: "alpha", Hosts: []string{"1.2.3.4 a\n5.6.7.8 b"}}, "single line"},
		{"HostThatIsAMark", Configuration{Hostname: "alpha", Hosts: []string{beginMark}}, "single line"},
		{"KnownHostWithALine", Configuration{Hostname: "alpha", KnownHosts: []string{"\r\n"}}, "single line"},
		{"PublicKeyWithALine", Configuration{Hostname: "alpha", PublicKey: "a\nb"}, "single line"},
		{"TooManyAccounts", Configuration{Hostname: "alpha", Accounts: make([]Account, maxAccounts+1)}, "accounts are too many; at most"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			m := &node{t: t, path: n.path}
			if _, err := Configure(t.Context(), m.dial(), c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	after := n.state()
	keep := func(s string) (kept []string) { // these may exist: the host name and the testbed's empty folder
		for line := range strings.Lines(s) {
			if !strings.Contains(line, "/etc/hostname ") && !strings.HasPrefix(line, "/etc ") && !strings.Contains(line, "patchbay") && !strings.HasPrefix(line, "/var") {
				kept = append(kept, line)
			}
		}
		return kept
	}
	if !slices.Equal(keep(before), keep(after)) {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

func TestIncompleteImages(t *testing.T) {
	t.Run("Sudo", func(t *testing.T) {
		n := newNode(t)
		n.line("root", "rm /etc/sudoers")
		if n.configure(someKeys); n.file("etc/sudoers.d/90-patchbay") != "" {
			t.Error("it has rules for sudo")
		}
	})
	t.Run("SudoThatNobodyMayRead", func(t *testing.T) {
		require.Tool(t, "sudo")
		for mode, want := range map[uint32]bool{0o4755: true, 0o4111: false} {
			root := newRoot(t)
			path := filepath.Join(root, otherSudo) // belongs to the host's root
			check(t, os.WriteFile(path, nil, 0o600))
			check(t, unix.Chmod(path, mode))
			n := startNode(t, root)
			if n.configure(someKeys); (n.file("etc/sudoers.d/90-patchbay") != "") != want {
				t.Errorf("mode %o: rules for sudo %q", mode, n.file("etc/sudoers.d/90-patchbay"))
			}
		}
	})
	t.Run("SudoersFolderNotIncluded", func(t *testing.T) {
		n := newNode(t)
		n.line("root", "echo '# @includedir /etc/sudoers.d' > /etc/sudoers")
		if n.configure(someKeys); n.file("etc/sudoers.d/90-patchbay") != "" {
			t.Error("it has rules for sudo")
		}
	})
	t.Run("Shadow", func(t *testing.T) {
		n := newNode(t)
		n.line("root", "rm /etc/shadow")
		n.configure(someKeys)
		if got := n.file("etc/passwd"); !strings.Contains(got, "alice:*:10000:") || n.file("etc/shadow") != "" {
			t.Error(got)
		}
	})
	t.Run("Everything", func(t *testing.T) {
		n := newNode(t)
		n.line("root", "rm -rf /etc/* /home /var/lib")
		cfg := someKeys
		cfg.Accounts = append([]Account{{Login: "root", Keys: []string{"ssh-rsa ROOT"}}}, cfg.Accounts...)
		if facts := n.configure(cfg); len(facts.Problems) > 0 {
			t.Errorf("%+v", facts)
		}
		if got := n.line("alice", "echo ~; cat ~/.ssh/id_rsa"); got != "/home/alice\nPRIVATE" {
			t.Error(got)
		}
		if got := n.line("root", "grep ROOT ~/.ssh/authorized_keys"); got != "ssh-rsa ROOT" {
			t.Error(got)
		}
	})
}

// Programs such as useradd write the same files.
func TestConfigureLocksAccounts(t *testing.T) {
	n := newNode(t)
	_, in, out := n.start(Command{User: "root", Line: `perl -e 'use Fcntl; open(F, ">", "/etc/.pwd.lock");
		my $lock = pack("ssx4qqlx4", F_WRLCK, 0, 0, 0, 0); fcntl(F, F_SETLK, $lock) or die; $| = 1; print "locked\n"; <STDIN>;
		open(P, ">>", "/etc/passwd"); print P "carol:x:1003:1003::/:/bin/sh\n"; close(P);'`})
	b := make([]byte, 100)
	if k, err := out.Read(b); err != nil || string(b[:k]) != "locked\n" {
		t.Fatalf("%q, %v", b[:k], err)
	}
	done := make(chan error)
	go func() {
		_, err := Configure(t.Context(), n.dial(), someKeys)
		done <- err
	}()
	time.Sleep(50 * time.Millisecond)
	in.WriteString("\n")
	check(t, <-done)
	if got := n.file("etc/passwd"); !strings.Contains(got, "carol") || !strings.Contains(got, "alice") {
		t.Error(got)
	}
}
