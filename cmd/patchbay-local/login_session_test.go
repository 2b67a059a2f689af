package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/am/testkit/wait"
)

// loginSessions runs commands.
func loginSessions(t *testing.T, s *loginSite) {
	alice := s.client(t, "alice", "a", "b")
	t.Run("ExitStatus", func(t *testing.T) {
		if r := alice.ssh("a", "echo out; echo err >&2; exit 7"); r != (result{"out\n", "err\n", 7}) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("KilledBySignal", func(t *testing.T) {
		if r := alice.ssh("a", "kill -TERM $$; sleep 60"); r.status != 255 {
			t.Errorf("%+v", r)
		}
		c, err := s.dial(t, "a", "alice")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, signal := range []string{"TERM", "KILL", "HUP", "SEGV", "USR1"} {
			session, err := c.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			exit, is := errors.AsType[*ssh.ExitError](session.Run("kill -" + signal + " $$; sleep 60"))
			if !is || exit.Signal() != signal {
				t.Errorf("%s: %v", signal, exit)
			}
		}
	})
	t.Run("EndOfInput", func(t *testing.T) {
		alice.with(strings.NewReader("one\ntwo\n"), "ssh", "a", "wc -l; echo over").expectOutput(t, "2\nover\n")
		alice.ssh("-n", "a", "cat; echo over").expectOutput(t, "over\n")
	})
	t.Run("VeryLongCommand", func(t *testing.T) {
		const n = 100 << 10
		alice.ssh("a", "x="+strings.Repeat("x", n)+"; echo ${#x}").expectOutput(t, fmt.Sprintln(n))
	})
	t.Run("Environment", func(t *testing.T) {
		c := *alice
		c.env = []string{"LANG=de_DE.UTF-8", "LC_TIME=C", "LC_MONETARY=en_IE.UTF-8", "LD_PRELOAD=/evil.so", "SECRET=yes", "PATH=" + os.Getenv("PATH")}
		c.ssh("-o", "SendEnv=LANG LC_* SECRET", "a", `echo "$LANG|$LC_TIME|$LC_MONETARY|$SECRET|$LD_PRELOAD|$USER|$LOGNAME|$HOME|$SHELL"`).
			expectOutput(t, "de_DE.UTF-8|C|en_IE.UTF-8|||alice|alice|/home/alice|/bin/bash\n")
		c.ssh("-o", "SetEnv=BASH_ENV=/tmp/x", "a", `echo "$BASH_ENV"`).expectOutput(t, "\n")
		alice.ssh("a", "echo $LANG").expectOutput(t, "C.UTF-8\n")
	})
	t.Run("RootBySudoAndByKey", func(t *testing.T) {
		alice.ssh("a", "sudo -n true && sudo -n id -un && sudo -n -u bob id -un").expectOutput(t, "root\nbob\n")
		for _, to := range []string{"a", "by-a"} {
			alice.ssh("-l", "root", to, "id -un").expectOutput(t, "root\n")
		}
	})
	t.Run("HundredMegabytes", func(t *testing.T) {
		const n = 100 << 20
		begin := time.Now()
		in, out := sha256.New(), sha256.New()
		source := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{1}), n), in)
		cmd := alice.command(t.Context(), "ssh", "a", "cat")
		count := &byteCounter{Hash: out}
		cmd.Stdin, cmd.Stdout = source, count
		if err := cmd.Run(); err != nil || count.n != n || !bytes.Equal(in.Sum(nil), out.Sum(nil)) {
			t.Errorf("%v; %d bytes of %d came back", err, count.n, n)
		}
		t.Logf("100 MiB there and back took %v", time.Since(begin).Round(time.Millisecond))
	})
	t.Run("NohupSurvivesLogout", func(t *testing.T) {
		alice.ssh("a", "nohup sleep 1234 >/dev/null 2>&1 & echo $! >nohup.pid").expectOutput(t, "")
		alice.ssh("a", "sleep 0.2; kill -0 $(cat nohup.pid) && kill $(cat nohup.pid) && echo lived").expectOutput(t, "lived\n")
	})
	t.Run("AnsibleLikeUse", func(t *testing.T) {
		alice.ssh("-C", "-o", "KbdInteractiveAuthentication=no", "a", `/bin/sh -c 'echo ~alice && sleep 0'`).expectOutput(t, "/home/alice\n")
		alice.ssh("a", `/bin/sh -c '( umask 77 && mkdir -p "`+"` echo ~/.ansible/tmp `"+`" && mkdir "`+"` echo ~/.ansible/tmp/t-1 `"+`" && echo t="`+"` echo ~/.ansible/tmp/t-1 `"+`" ) && sleep 0'`).
			expectOutput(t, "t=/home/alice/.ansible/tmp/t-1\n")
		module := s.file("module")
		if err := os.WriteFile(module, []byte("#!/bin/sh\necho '{\"changed\": false, \"who\": \"'$(id -un)'\"}'\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := alice.with(strings.NewReader("put "+module+" /home/alice/.ansible/tmp/t-1/module\n"), "sftp", "-b", "-", "-C", "a")
		if r.status != 0 {
			t.Fatalf("%+v", r)
		}
		alice.ssh("a", `/bin/sh -c 'chmod u+x /home/alice/.ansible/tmp/t-1/ /home/alice/.ansible/tmp/t-1/module && sleep 0'`).expectOutput(t, "")
		r = alice.ssh("-tt", "a", `/bin/sh -c 'sudo -H -S -n  -u root /bin/sh -c '"'"'echo BECOME-SUCCESS-x ; /home/alice/.ansible/tmp/t-1/module'"'"' && sleep 0'`)
		r.expectOutput(t, "BECOME-SUCCESS-x\r\n{\"changed\": false, \"who\": \"root\"}\r\n")
		alice.ssh("a", `/bin/sh -c 'rm -f -r /home/alice/.ansible/tmp/t-1/ > /dev/null 2>&1 && sleep 0'`).expectOutput(t, "")
	})
	t.Run("SharedConnection", func(t *testing.T) {
		socket := s.file("control")
		shared := func(args ...string) result {
			return alice.ssh(append([]string{"-S", socket}, args...)...)
		}
		shared("-o", "ControlMaster=yes", "-o", "ControlPersist=60", "a", "true").expectOutput(t, "")
		if r := shared("-O", "check", "a"); r.status != 0 || !strings.Contains(r.err, "Master running") {
			t.Fatalf("%+v", r)
		}
		begin := time.Now()
		for i := range 10 {
			shared("a", "echo "+strconv.Itoa(i)).expectOutput(t, strconv.Itoa(i)+"\n")
		}
		t.Logf("a session of a shared connection takes %v", time.Since(begin)/10)
		alice.run("scp", "-q", "-o", "ControlPath="+socket, s.settings, "a:settings").expectOutput(t, "")
		shared("-O", "exit", "a").status0(t)
	})
}

func (r result) status0(t testing.TB) {
	t.Helper()
	if r.status != 0 {
		t.Errorf("%+v", r)
	}
}

// expect demands an output and a status.
func (r result) expect(t testing.TB, out string, status int) {
	t.Helper()
	if r.status != status || r.out != out {
		t.Errorf("status %d, output %.300q, complaint %.300q; want %d, %.300q", r.status, r.out, r.err, status, out)
	}
}

// byteCounter counts what is written.
type byteCounter struct {
	hash.Hash
	n int
}

func (c *byteCounter) Write(b []byte) (int, error) {
	c.n += len(b)
	return c.Hash.Write(b)
}

// loginTerminals sits at terminals.
func loginTerminals(t *testing.T, s *loginSite) {
	alice := s.client(t, "alice", "a", "b")
	t.Run("Shell", func(t *testing.T) {
		x := alice.terminal(t, 24, 80, "a")
		x.expect("$ ")
		// The job itself says when the terminal is its own: keys typed before are the shell's.
		x.write(`perl -e '$| = 1; $SIG{CONT} = sub { print 21*2, "\n" }; print 20*2, "\n"; sleep 600 while 1'` + "\r")
		x.expect("40\r\n")
		x.write("\x1a") // job control
		x.expect("Stopped")
		x.expect("$ ")
		x.write("fg\r")
		x.expect("42\r\n")
		x.write("\x03")
		x.expect("$ ")
		x.write("exit 7\r")
		if status := x.wait(); status != 7 {
			t.Errorf("status %d", status)
		}
	})
	t.Run("TerminalInATerminal", func(t *testing.T) {
		r := alice.ssh("a", `python3 -c 'import pty; pty.spawn(["tty"])' || script -qc tty /dev/null`)
		if r.status != 0 || !strings.HasPrefix(r.out, "/dev/pts/") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SudoAtATerminal", func(t *testing.T) {
		x := alice.terminal(t, 24, 80, "a", "sudo id -un")
		x.expect("root\r\n")
		x.wait()
	})
	t.Run("FromNodeToNode", func(t *testing.T) {
		wait.Clear(t, func() string {
			r := alice.ssh("a", "getent hosts b")
			if r.status != 0 {
				return "b is not known in a"
			}
			return ""
		})
		x := alice.terminal(t, 44, 99, "a", "ssh -t b 'stty size; hostname -s; read line; echo got $line'")
		x.expect("44 99\r\nb\r\n")
		x.write("that\r")
		x.expect("got that")
		if status := x.wait(); status != 0 {
			t.Errorf("status %d", status)
		}
	})
	t.Run("HangUpEndsJobs", func(t *testing.T) {
		x := alice.terminal(t, 24, 80, "a")
		x.expect("$ ")
		x.write("sleep 4321 &\r")
		x.expect("$ ")
		x.write("nohup sleep 4322 &\r")
		x.expect("$ ")
		x.write("setsid -f nohup sleep 4323 >/dev/null 2>&1; echo do''ne\r")
		x.expect("done")
		left := func() string { return alice.ssh("a", "pgrep -fa '^sleep 432[1-3]$'").out }
		wait.Clear(t, func() string { // until then they take signals as the shell does
			if n := strings.Count(left(), "sleep"); n != 3 {
				return fmt.Sprintf("%d jobs run", n)
			}
			return ""
		})
		_ = x.cmd.Process.Kill() // the client is gone without a word
		x.wait()
		wait.Clear(t, func() string {
			if jobs := left(); strings.Contains(jobs, "4321") || !strings.Contains(jobs, "4322") || !strings.Contains(jobs, "4323") {
				return fmt.Sprintf("left are %q", jobs)
			}
			return ""
		})
		alice.ssh("a", "pkill -f '^sleep 432[1-3]$'")
	})
	t.Run("LastWordsOfAJob", func(t *testing.T) {
		for range 5 {
			r := alice.ssh("-tt", "a", "seq 1 20000")
			if r.status != 0 || !strings.HasSuffix(r.out, "\r\n20000\r\n") {
				t.Errorf("status %d, it ends with %q", r.status, r.out[max(0, len(r.out)-40):])
			}
		}
	})
}
