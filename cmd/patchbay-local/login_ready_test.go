package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider"
)

const (
	smallNode  = "0f000000-0000-4000-8000-00000000106f"
	brokenNode = "10000000-0000-4000-8000-000000001070"
	fullNode   = "11000000-0000-4000-8000-000000001071"
)

// smallImage is an image of busybox and nothing else: it has no sudo.
func smallImage(t testing.TB, s *loginSite, name string, without ...string) {
	t.Helper()
	busybox := require.Tool(t, "busybox")
	list, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "root")
	for _, dir := range []string{"bin", "etc", "root"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile(busybox)
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "bin/busybox"), program, 0o755)
	}
	for _, link := range strings.Fields(string(list)) {
		if err == nil && link != "busybox" && !slices.Contains(without, link) {
			err = os.Symlink("busybox", filepath.Join(root, "bin", link))
		}
	}
	for file, text := range map[string]string{"passwd": "root:x:0:0:root:/root:/bin/sh\n", "group": "root:x:0:\n"} {
		if err == nil {
			err = os.WriteFile(filepath.Join(root, "etc", file), []byte(text), 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(binary(), "image", "add", "--state", s.state, "--from", root, s.settings, name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// loginReady demands that a node is ready when it can be logged in to, and only
// then, and that root logs in with the keys of all.
func loginReady(t *testing.T, s *loginSite) {
	t.Run("RootWithTheKeysOfAll", func(t *testing.T) {
		smallImage(t, s, "small")
		s.add(t, smallNode, "s", "four", provider.Resource{"image": "small", "users": loginUsers(t, "alice", "bob")})
		var published []string
		for _, login := range getNode(t, s.provider, smallNode).List(provider.AttrLogin) {
			if strings.HasPrefix(login, "root@") {
				published = append(published, login)
			}
		}
		if len(published) > 0 {
			t.Errorf("for root are published %q", published)
		}
		for _, user := range []string{"alice", "bob"} {
			c := s.client(t, user, "s")
			for _, way := range []string{"s", "by-s"} {
				c.ssh("-l", "root", way, "id -u; hostname").expectOutput(t, "0\ns\n")
				c.ssh(way, "id -un").expectOutput(t, user+"\n")
			}
		}
		alice := s.client(t, "alice", "s")
		alice.ssh("-l", "root", "s", "echo $HOME; touch /etc/x && geni-get client_id; cat /root/.ssh/authorized_keys | grep -c ssh-ed25519").expectOutput(t, "/root\ns\n2\n")
		s.client(t, "carol", "s").ssh("-l", "root", "s", "true").expectRefused(t, "Permission denied (publickey)")
		if r := alice.with(strings.NewReader("put "+s.settings+" settings\nls -l settings\n"), "sftp", "-q", "-b", "-", "-o", "User=root", "s"); r.status != 0 {
			t.Errorf("sftp without anything in the image: %+v", r)
		}
		s.set(t, smallNode, provider.Resource{"users": loginUsers(t, "bob")})
		s.await(t, smallNode, provider.StateReady)
		alice.ssh("-l", "root", "s", "true").expectRefused(t, "Permission denied (publickey)")
		s.client(t, "bob", "s").ssh("-l", "root", "s", "grep -c ssh-ed25519 /root/.ssh/authorized_keys").expectOutput(t, "1\n")
	})
	t.Run("OneAccountWithoutAShell", func(t *testing.T) {
		s.add(t, brokenNode, "x", "four", provider.Resource{"users": loginUsers(t, "alice")})
		alice := s.client(t, "alice", "x")
		alice.ssh("x", "sudo -n sed -i 's,^\\(alice:.*\\):/bin/bash$,\\1:/no/shell,' /etc/passwd").expectOutput(t, "")
		s.set(t, brokenNode, provider.Resource{"users": loginUsers(t, "alice", "bob")})
		s.expectFailed(t, brokenNode, "the logins do not work: account alice cannot log in", "cannot start /no/shell: no such file or directory")
		if err := s.enter(brokenNode, "sed -i s,/no/shell,/bin/bash, /etc/passwd"); err != nil {
			t.Fatal(err)
		}
		s.set(t, brokenNode, provider.Resource{"users": loginUsers(t, "alice")})
		s.await(t, brokenNode, provider.StateReady)
		alice.ssh("x", "id -un").expectOutput(t, "alice\n")
	})
	t.Run("NoShell", func(t *testing.T) {
		s.client(t, "alice", "x").ssh("x", "sudo -n chmod 0 /bin/bash").expectOutput(t, "")
		s.set(t, brokenNode, provider.Resource{"users": loginUsers(t, "bob")})
		s.expectFailed(t, brokenNode, "the logins do not work: account bob cannot log in", "cannot start /bin/bash: permission denied")
	})
	t.Run("FullOfProcesses", func(t *testing.T) { // the login works, and so the mess can be cleared
		s.add(t, fullNode, "f", "four", provider.Resource{"sliver_type": "tiny", "users": loginUsers(t, "alice")})
		alice := s.client(t, "alice", "f")
		// It takes each place that gets free, those of the looks below, too.
		startProgram(t, alice.command(t.Context(), "ssh", "f", `perl -e 'while (1) { $p = fork; if (!defined $p) { select undef, undef, undef, 0.02 } elsif (!$p) { sleep 800; exit } }'`))
		const fork = `perl -e 'defined(fork) or exit 9'`
		wait.Clear(t, func() string {
			if r := alice.ssh("f", fork); r.status != 9 {
				return "another process can be made"
			}
			return ""
		})
		s.set(t, fullNode, provider.Resource{"users": loginUsers(t, "alice", "bob")})
		s.await(t, fullNode, provider.StateReady)
		for _, user := range []string{"alice", "bob"} {
			for _, way := range []string{"f", "by-f"} {
				s.client(t, user, "f").ssh(way, "echo $USER").expectOutput(t, user+"\n")
			}
		}
		alice.ssh("f", "kill -KILL -1")
		alice.ssh("f", fork).expectOutput(t, "")
	})
	t.Run("NothingBeforeItIsReady", func(t *testing.T) { // as soon as get tells an endpoint, it opens
		const id = "12000000-0000-4000-8000-000000001072"
		s.set(t, id, node("localhost", s.should(t, id, "q", "four", provider.Resource{"power": "on", "users": loginUsers(t, "alice")})))
		for end := time.Now().Add(bedTime); ; {
			r := getNode(t, s.provider, id)
			endpoints := r.List(provider.AttrLogin)
			if ready := stateOf(r) == provider.StateReady; len(endpoints) > 0 {
				s.mu.Lock()
				s.names["q"] = id
				s.mu.Unlock()
				if c, err := s.dial(t, "q", "alice"); err != nil {
					t.Errorf("ready: %v; %v", ready, err)
				} else {
					c.Close()
				}
				return
			} else if ready || time.Now().After(end) {
				t.Fatalf("it has no endpoint: %v", r)
			}
		}
	})
}

// expectFailed demands that the node is never ready again, and says why, without endpoints.
func (s *loginSite) expectFailed(t testing.TB, id string, why ...string) {
	t.Helper()
	wait.Clear(t, func() string {
		r := getNode(t, s.provider, id)
		switch stateOf(r) {
		case provider.StateReady:
			t.Fatal("it is ready")
		case provider.StateFailed:
			for _, text := range why {
				if !strings.Contains(r.Text(provider.AttrMessage), text) {
					t.Fatalf("it says %q, not %q", r.Text(provider.AttrMessage), text)
				}
			}
			return ""
		}
		return fmt.Sprintf("it is %s (%s)", stateOf(r), r.Text(provider.AttrMessage))
	})
}

// enter runs a command as the operator.
func (s *loginSite) enter(id string, words ...string) error {
	out, err := exec.Command(binary(), append([]string{"enter", s.settings, id}, words...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
