package main

import (
	"bufio"
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/require"
)

func TestArchiveIsWhatCpioReads(t *testing.T) {
	busybox := require.Tool(t, "busybox")
	var b bytes.Buffer
	a := &archive{w: bufio.NewWriter(&b)}
	a.add("folder", fs.ModeDir|0o755, nil)
	files := map[string]string{"folder/one": "1", "folder/five": "12345", "init": strings.Repeat("x", 10000), "empty": ""}
	for name, text := range files {
		a.add(name, 0o755, []byte(text))
	}
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(busybox, "cpio", "-i")
	c.Dir, c.Stdin = t.TempDir(), &b
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("cpio: %v: %s", err, out)
	}
	for name, text := range files {
		got, err := os.ReadFile(filepath.Join(c.Dir, name))
		if err != nil || string(got) != text {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(text))
		}
		if i, err := os.Stat(filepath.Join(c.Dir, name)); err == nil && i.Mode() != 0o755 {
			t.Errorf("%s has the mode %v", name, i.Mode())
		}
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"NothingToRun", nil, "no command is given"},
		{"UnknownGroups", []string{"--cgroup", "v3", "ls"}, `--cgroup must be v1, v2 or hybrid, not "v3"`},
		{"ACommand", []string{"ls"}, ""},
		{"ATest", []string{"--test", "a", "--test", "b=^TestX$"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var o options
			_, err := o.parse(c.args)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestKeptDiskTakesNoTests(t *testing.T) {
	require.Root(t)
	disk := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(disk, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := options{disk: disk, tests: list{"."}}
	if _, err := prepareDisk(t.Context(), &o, t.TempDir()); err == nil || !strings.Contains(err.Error(), "was created for an earlier boot") {
		t.Errorf("got %v", err)
	}
}

// boot runs a real guest; PATCHBAY_GUEST asks for that.
func boot(t *testing.T, args ...string) (status int, printed string) {
	t.Helper()
	if os.Getenv("PATCHBAY_GUEST") == "" {
		t.Skip("guests are only booted when PATCHBAY_GUEST is set, for they take long")
	}
	require.Root(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0], append([]string{"--cache", filepath.Join("..", "..", ".cache", "guest")}, args...)...)
	c.Env = append(os.Environ(), asProgram+"=1")
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

const asProgram = "GUEST_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getpid() == 1 || os.Getenv(asProgram) != "" || os.Args[0] == runner || filepath.Base(os.Args[0]) == compiler {
		main()
	}
	os.Exit(m.Run())
}

func TestGuestGivesStatusOfTheFirstThatFailed(t *testing.T) {
	status, out := boot(t, "true", "exit 7", "exit 3; echo not reached", "echo reached")
	if status != 7 || !strings.Contains(out, "\nreached\n") {
		t.Errorf("status %d:\n%s", status, out)
	}
}

func TestGuestHasTheControlGroupsAskedFor(t *testing.T) {
	for groups, command := range map[string]string{
		"v1":     "test -d /sys/fs/cgroup/memory && ! grep cgroup2 /proc/mounts",
		"v2":     "grep -w memory /sys/fs/cgroup/cgroup.controllers && ! grep 'cgroup cgroup ' /proc/mounts",
		"hybrid": "test -d /sys/fs/cgroup/memory && test -f /sys/fs/cgroup/unified/cgroup.procs",
	} {
		if status, out := boot(t, "--cgroup", groups, command); status != 0 {
			t.Errorf("%s: status %d:\n%s", groups, status, out)
		}
	}
}

func TestGuestKeepsOfItsDiskWhatWasSyncedBeforeThePowerCut(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "disk.img")
	status, out := boot(t, "--disk", disk, "--cut", "echo 1 >/guest/synced; sync; echo 2 >/guest/lost; echo 3 >/root/new")
	if status != 0 {
		t.Fatalf("first boot: status %d:\n%s", status, out)
	}
	status, out = boot(t, "--disk", disk, "cat /guest/synced && ! test -s /guest/lost && ! test -e /root/new")
	if status != 0 {
		t.Errorf("second boot: status %d:\n%s", status, out)
	}
}

func TestGuestThatPanicsIsAnError(t *testing.T) {
	status, out := boot(t, "echo c >/proc/sysrq-trigger")
	if status != 1 || !strings.Contains(out, "the guest ended before its commands") {
		t.Errorf("status %d:\n%s", status, out)
	}
}

// What the tests in cmd/patchbay-local ask for before, and find after.
func TestNodesLiveAfterAPowerCut(t *testing.T) {
	for _, before := range []string{"TestBeforeThePowerCut", "TestBeforeASuddenPowerCut"} {
		t.Run(before, func(t *testing.T) {
			disk := filepath.Join(t.TempDir(), "disk.img")
			status, out := boot(t, "--disk", disk, "--cut", "--env", "PATCHBAY_BOOT=/guest/boot", "--test", "../../../cmd/patchbay-local=^"+before+"$")
			if status != 0 || !strings.Contains(out, "--- PASS: "+before) {
				t.Fatalf("first boot: status %d:\n%s", status, out)
			}
			status, out = boot(t, "--disk", disk, "--env", "PATCHBAY_BOOT=/guest/boot",
				"cd /guest/src/cmd/patchbay-local && ./patchbay-local.test -test.v -test.run '^TestAfterThePowerCut$'")
			if status != 0 || !strings.Contains(out, "--- PASS: TestAfterThePowerCut") {
				t.Errorf("second boot: status %d:\n%s", status, out)
			}
		})
	}
}
