package main

import (
	"os/exec"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
	"patchbay/inventory/provider"
)

// typed is a command line in a node, with its expected result.
type typed struct {
	line, want string // of both outputs, in one
	status     int
}

// runLines runs each line as alice in a node, without a terminal.
func (b *testSite) runLines(t *testing.T, name string, lines []typed) {
	t.Helper()
	for _, l := range lines {
		args := append(b.sshArgs(t, name, "alice"), "exec 2>&1; "+l.line)
		r := finish(exec.CommandContext(t.Context(), "ssh", args...), strings.NewReader("typed\n"))
		if r.out != l.want || r.status != l.status || r.err != "" {
			t.Errorf("%s\n got %q (%d) %s\nwant %q (%d)", l.line, r.out, r.status, r.err, l.want, l.status)
		}
	}
}

// programsInside runs the programs that every node has: in a node of the image host, and in
// one of a minimal image.
func (s *loginSite) programsInside(t *testing.T) {
	t.Run("Figures", func(t *testing.T) { s.figuresInside(t) })
	t.Run("Unsupported", func(t *testing.T) {
		s.runLines(t, nodeA, []typed{
			{"sudo reboot", unsupportedMessage("reboot"), 1},
			{"systemctl status ssh", unsupportedMessage("systemctl"), 1},
			{"mount -t tmpfs tmpfs /mnt", unsupportedMessage("mount"), 1},
			{"mount | grep -c ' on / '", "1\n", 0},
		})
	})
	t.Run("Motd", func(t *testing.T) {
		r := s.run(t, "alice", "exit 3\n", "ssh", "-tt", "a")
		for _, text := range []string{"This is a, a container of a Patchbay testbed.", "1 CPU, 512 MiB memory, 4096 MiB disk, 1000 processes", "outside (geni_restart)"} {
			if r.status != 3 || !strings.Contains(r.out, text) {
				t.Errorf("%+v, want %q", r, text)
			}
		}
	})
	t.Run("Sudo", func(t *testing.T) { s.sudoInside(t) })
	t.Run("Ping", func(t *testing.T) {
		require.Tool(t, "ping")
		const rest = " -c 1 -W 5 127.0.0.1 | grep -c '1 received'"
		s.runLines(t, nodeA, []typed{
			{"which ping", "/usr/bin/ping\n", 0},
			{"ping" + rest, "1\n", 0},
			{"sudo ping" + rest, "1\n", 0},
			{"sudo setpriv --reuid daemon --clear-groups ping" + rest, "1\n", 0},
		})
	})
	t.Run("MinimalImage", func(t *testing.T) {
		smallImage(t, s.testSite, "small", "ping", "sudo", "reboot")
		s.node(t, nodeID(7), provider.Resource{"hostname": "s", "client_id": "s", "image": "small"})
		// The shell of busybox prefers its own programs to those in the PATH.
		lines := []typed{
			{"sudo id -u", "0\n", 0},
			{"sudo -u alice -i pwd", "/home/alice\n", 0},
			{"$P/ping -c 1 127.0.0.1", "ping: this node has no ping: install the package iputils-ping; nodes of the image host have what is installed on the host\n", 1},
			{"sudo sh -c 'printf \"#!/bin/sh\\necho installed\\n\" >/bin/ping; chmod +x /bin/ping'; $P/ping -c 1 127.0.0.1", "installed\n", 0},
			{"$P/patchbay-linktest serve 2>&1 | cut -d ';' -f 2", " on the host, patchbay-local linktest measures links\n", 0},
			{"$P/reboot", unsupportedMessage("reboot"), 1},
		}
		for i := range lines {
			lines[i].line = strings.ReplaceAll(lines[i].line, "$P", "/usr/local/bin")
		}
		s.runLines(t, nodeID(7), lines)
	})
}

// unsupportedMessage is the output of a command that cannot work in a node.
func unsupportedMessage(name string) string {
	return name + ": " + map[string]string{
		"reboot":    "a node cannot shut down or reboot itself, by design: restart it from outside with the action geni_restart; its files are kept",
		"systemctl": "there is no systemd in a node, by design: start the program itself, such as setsid PROGRAM >/tmp/log 2>&1 </dev/null &, or in an execute of the request",
		"mount":     "nothing can be mounted in a node, by design: it has only its own disk",
	}[name] + "\n"
}

// figuresInside checks that programs show the figures of the node, not of the host.
func (s *loginSite) figuresInside(t *testing.T) {
	s.runLines(t, nodeA, []typed{
		{"nproc", "1\n", 0},
		{"free -m | awk '/Mem/ {print $2, ($3+$4+$6 >= 510), ($3 < 100)}'; free -h | awk '/Mem/ {print $2}'", "512 1 1\n512Mi\n", 0},
		{"free -x", "free: usage: free [-b|-k|-m|-g|-h]; this is the testbed's free, which shows this node's memory\n", 1},
		{"awk '{print ($1 < 600)}' /proc/uptime", "1\n", 0},
	})
}

func (s *loginSite) sudoInside(t *testing.T) {
	const no = " is not an account of the experiment and may not use sudo; rules for single commands do not work here, but root can allow all: "
	const usage = "usage: sudo [-EHins] [-u USER] [VAR=VALUE] COMMAND; this is the testbed's sudo: no passwords, no other options"
	s.runLines(t, nodeA, []typed{
		{"readlink $(which sudo)", "/run/patchbay/bin/sudo\n", 0},
		{"sudo id", "uid=0(root) gid=0(root) groups=0(root)\n", 0},
		{"sudo -n sh -c 'exit 7'", "", 7},
		{"sudo cat", "typed\n", 0},
		{"sudo grep CapEff /proc/self/status > /tmp/mine; sudo sh -c 'grep CapEff /proc/$$/status' | cmp - /tmp/mine && rm /tmp/mine", "", 0},
		{"sudo sh -c 'kill -TERM $$'; echo $?", "Terminated\n143\n", 0},
		{"echo $(sudo sh -c 'ps -o pgid= -p $$') $(ps -o pgid= -p $$) | tr ' ' '\\n' | uniq | wc -l", "1\n", 0},
		{"A=1 B=2 LC_ALL=C sudo --preserve-env=B sh -c 'echo $A,$B,$LC_ALL,$C,$HOME,$USER,$SUDO_USER,$SUDO_UID' C=3", ",2,C,,/root,root,alice,10000\n", 0},
		{"sudo C=3 sh -c 'echo $C'", "3\n", 0},
		{"A=1 sudo -E sh -c 'echo $A $HOME'; A=1 sudo -EH sh -c 'echo $A $HOME'", "1 /home/alice\n1 /root\n", 0},
		{"A=1 sudo -i echo '$A' '\"' '~'; sudo -i pwd; sudo -s pwd", "\" ~\n/root\n/home/alice\n", 0},
		{"sudo sudo -u alice id -un; sudo -ualice id -un; sudo --user=alice -- id -un; sudo -u '#1' id -un", "alice\nalice\nalice\ndaemon\n", 0},
		{"printf 'echo from $0 $1' > /tmp/script; chmod +x /tmp/script; sudo /tmp/script it; rm /tmp/script", "from /tmp/script it\n", 0},
		{"sudo /etc/hostname; sudo nosuchcommand; sudo -u nobody-is-this id", "sudo: unable to execute /etc/hostname: permission denied\nsudo: nosuchcommand: command not found\nsudo: unknown user nobody-is-this\n", 1},
		{"sudo -X true", "sudo: " + usage + "\n", 1},
		{"sudo -u daemon sudo id -u", "sudo: daemon" + no + "daemon ALL=(ALL) NOPASSWD:ALL\n", 1},
		// Under any other name the setuid program is sudo, too.
		{"sudo -u daemon bash -c 'exec -a patchbay-node /run/patchbay/bin/sudo id -u'", "sudo: daemon" + no + "daemon ALL=(ALL) NOPASSWD:ALL\n", 1},
		{"sudo useradd -m carol && sudo -u carol sudo -n id -u; sudo userdel -r carol 2>/dev/null", "sudo: carol" + no + "carol ALL=(ALL) NOPASSWD:ALL\n", 0},
		{"sudo useradd -m carol && sudo sh -c 'mkdir -p /etc/sudoers.d; echo carol ALL=NOPASSWD: ALL >/etc/sudoers.d/lab'; sudo -u carol sudo -n id -u; sudo chmod o+w /etc/sudoers.d/lab; sudo -u carol sudo -n id -u; sudo rm /etc/sudoers.d/lab; sudo userdel -r carol 2>/dev/null", "0\nsudo: carol" + no + "carol ALL=(ALL) NOPASSWD:ALL\n", 0},
		{"sudo sh -c 'sed -i s/^alice:x:10000:/alice:x:3001:/ /etc/passwd; sudo -u alice sudo -n id -u; sed -i s/^alice:x:3001:/alice:x:10000:/ /etc/passwd'", "0\n", 0},
	})
	s.set(t, nodeA, provider.Resource{"users": []string{}})
	s.await(t, nodeA, provider.StateReady)
	if out, err := s.enter(nodeA, nil, "test ! -d /home/alice || setpriv --reuid 10000 --clear-groups sudo id && exit 1; exit 0"); err != nil {
		t.Errorf("a former account is root by sudo: %v, %s", err, out)
	}
	s.set(t, nodeA, provider.Resource{"users": []string{s.user("alice")}})
	s.await(t, nodeA, provider.StateReady)
}
