package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
)

// printLimits sets the limits, after lowering the maximum of descriptors to its argument,
// and prints the limits of a program that it starts.
func printLimits() {
	if os.Args[1] != "" {
		var most uint64
		_, err := fmt.Sscan(os.Args[1], &most)
		must(err)
		must(unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}, nil))
		must(syscall.Setresuid(gatewayID, gatewayID, gatewayID))
	}
	must(SetLimits())
	must(syscall.Exec("/bin/sh", []string{"sh", "-c", `echo core: $(ulimit -Hc); echo soft: $(ulimit -Sn); echo hard: $(ulimit -Hn)
echo stack: $(ulimit -Ss); echo size: $(ulimit -f)`}, nil))
}

func TestLimits(t *testing.T) {
	require.Root(t)
	var sets [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0]); err != nil {
		t.Fatal(err)
	}
	var now unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &now); err != nil {
		t.Fatal(err)
	}
	most := uint64(512 * 1024)
	if sets[0].Effective&(1<<unix.CAP_SYS_RESOURCE) == 0 { // root of a container
		most = min(most, now.Max)
	}
	for _, c := range []struct{ name, most, want string }{
		{"Root", "", "core: 0\nsoft: 1024\nhard: " + fmt.Sprint(most) + "\nstack: 8192\nsize: unlimited\n"},
		{"WhatTheHostAllows", "4096", "core: 0\nsoft: 1024\nhard: 4096\nstack: 8192\nsize: unlimited\n"},
		{"LessThanWanted", "512", "core: 0\nsoft: 512\nhard: 512\nstack: 8192\nsize: unlimited\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := child(t, "limits", c.most).CombinedOutput()
			if err != nil || string(out) != c.want {
				t.Errorf("%v\n got %q\nwant %q", err, out, c.want)
			}
		})
	}
}

func TestEveryLimitIsListed(t *testing.T) {
	names, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		t.Fatal(err)
	}
	// One line of the file is a header; pending signals keep the host's limit.
	if got, want := len(limits())+1, strings.Count(string(names), "\n")-1; got != want {
		t.Errorf("%d limits are decided of %d", got, want)
	}
}

func TestCloseOnExec(t *testing.T) {
	var fds [3]int
	for i := range fds {
		fd, err := unix.Dup(1)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		fds[i] = fd
	}
	if err := CloseOnExec(fds[1]); err != nil {
		t.Fatal(err)
	}
	for i, fd := range fds {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := flags&unix.FD_CLOEXEC != 0, fd >= fds[1]; got != want {
			t.Errorf("descriptor %d of %v: closed %t, want %t", i, fds, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for range 2 {
		if err := Check(); err != nil {
			t.Fatal(err)
		}
	}
	// The check changed only its own thread.
	if err := exec.Command("/bin/sh", "-c", "grep -q '^NoNewPrivs:.0' /proc/self/status").Run(); err != nil {
		t.Errorf("a child of the process has no_new_privs: %v", err)
	}
	for _, s := range statuses(os.Getpid()) {
		if s["Pid"] == s["Tgid"] && s["Seccomp"] != "0" {
			t.Errorf("the main thread has seccomp %s", s["Seccomp"])
		}
	}
}
