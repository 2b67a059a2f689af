package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/cgroup"
)

// The test binary runs again as a probe, and with handicaps: handicapped, with the name
// of a check, a folder and handicaps.
const handicapped = "handicapped"

func TestMain(m *testing.M) {
	switch os.Args[0] {
	case Argv0:
		ChildMain()
	case handicapped:
		handicappedMain(os.Args[1], os.Args[2], os.Args[3:])
	}
	// With the race detector, each of the many children would sleep for a second at its
	// end.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// handicappedMain applies the handicaps to itself and its children, and runs one check,
// or all. A handicap is mount:WHAT, cap:NUMBER, call:NUMBER:ERRNO or
// arg:NUMBER:INDEX:BITS:ERRNO.
func handicappedMain(name, dir string, handicaps []string) {
	runtime.LockOSThread()
	for _, h := range handicaps {
		word, rest, _ := strings.Cut(h, ":")
		var a, b, c, d int
		var err error
		switch word {
		case "umount":
			err = unix.Unmount(rest, unix.MNT_DETACH)
		case "readonly":
			err = unix.Mount("", rest, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
		case "empty":
			err = unix.Mount("none", rest, "tmpfs", 0, "mode=755")
		case "cap":
			fmt.Sscanf(rest, "%d", &a)
			err = drop(a)
		case "call":
			fmt.Sscanf(rest, "%d:%d", &a, &b)
			err = refuse(a, -1, 0, b)
		case "arg":
			fmt.Sscanf(rest, "%d:%d:%d:%d", &a, &b, &c, &d)
			err = refuse(a, b, c, d)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, h, err)
			os.Exit(1)
		}
	}
	place := Place{State: dir, First: 10000, Last: 10009}
	var found []Finding
	for _, c := range checks() {
		switch {
		case name == c.name:
			found = append(found, examine(context.Background(), place, []check{c}, nil)...)
		case name == "unlimited" && c.name == "limits":
			for _, l := range []cgroup.Limits{{PIDs: tryPIDs, CPUs: tryCPUs}, {Memory: tryMemory, CPUs: tryCPUs}, {Memory: tryMemory, PIDs: tryPIDs}} {
				c.try = func(ctx context.Context, b *resources) (string, *trouble) { return checkLimits(ctx, b, l) }
				found = append(found, examine(context.Background(), place, []check{c}, nil)...)
			}
		}
	}
	if name == "all" {
		found = Examine(context.Background(), place, nil)
	}
	json.NewEncoder(os.Stdout).Encode(found)
	os.Exit(0)
}

// drop drops a capability from this thread and its children.
func drop(capability int) error {
	if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0); err != nil {
		return err
	}
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	if err := unix.Capget(&h, &d[0]); err != nil {
		return err
	}
	bit := uint32(1) << (capability % 32)
	d[capability/32].Effective &^= bit
	d[capability/32].Permitted &^= bit
	return unix.Capset(&h, &d[0])
}

// refuse makes a system call fail on all threads: always, or if an argument has one of
// these bits.
func refuse(call, argument, bits, errno int) error {
	const load, equal, set, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	f := []unix.SockFilter{{Code: load, K: 0}}
	if argument < 0 {
		f = append(f, unix.SockFilter{Code: equal, K: uint32(call), Jf: 1})
	} else {
		f = append(f,
			unix.SockFilter{Code: equal, K: uint32(call), Jf: 3},
			unix.SockFilter{Code: load, K: uint32(16 + 8*argument)},
			unix.SockFilter{Code: set, K: uint32(bits), Jf: 1})
	}
	f = append(f, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(errno)}, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	p := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&p)))
	if e != 0 {
		return e
	}
	return nil
}

// examineHandicapped runs checks with handicaps, in a child process.
func examineHandicapped(t *testing.T, name, dir string, attr *syscall.SysProcAttr, env []string, handicaps ...string) []Finding {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args = append([]string{handicapped, name, dir}, handicaps...)
	cmd.SysProcAttr = attr
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var found []Finding
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return found
}
