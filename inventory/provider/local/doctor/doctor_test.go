package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
)

// traces returns what examinations could leave on the host.
func traces(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return nil
		}
		// Another examination may be running on this host.
		ours := strings.HasPrefix(e.Name(), fmt.Sprint(os.Getpid())+"-") || !alive(e.Name())
		if ours && strings.HasSuffix(filepath.Dir(path), "/patchbay-local/doctor") {
			found = append(found, "group "+path)
		}
		return nil
	})
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), scratchPrefix) {
			found = append(found, "folder "+path)
		}
		return nil
	})
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, dir+"/"+scratchPrefix) { // another examination may be running
			found = append(found, "mount "+line)
		}
	}
	loops, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, l := range loops {
		if b, err := os.ReadFile(l); err == nil && strings.Contains(string(b), dir+"/"+scratchPrefix) {
			found = append(found, "device "+l+" "+string(b))
		}
	}
	return found
}

// waitNoTraces waits until no trace is left: the kernel removes some of them with a
// delay.
func waitNoTraces(t *testing.T, dir string) {
	t.Helper()
	var found []string
	for range 1500 {
		if found = traces(t, dir); len(found) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("left behind:\n%s", strings.Join(found, "\n"))
}

func TestThisHostPasses(t *testing.T) {
	require.Root(t)
	require.NetNS(t)
	dir := t.TempDir()
	var reported []Finding
	found := Examine(t.Context(), Place{State: filepath.Join(dir, "not", "yet"), First: 10000, Last: 10019}, func(f Finding) { reported = append(reported, f) })
	if err := CheckNeeded(found); err != nil {
		t.Error(err)
	}
	if CheckNeeded(nil) == nil {
		t.Error("a host that was not examined is fit")
	}
	if !slices.Equal(found, reported) || len(found) != len(checks()) {
		t.Errorf("reported %d findings, returned %d", len(reported), len(found))
	}
	for _, f := range found {
		if f.Needed && !f.OK || f.Message == "" || f.OK != (f.Remedy == "") {
			t.Errorf("%+v", f)
		}
	}
	waitNoTraces(t, dir)
	if es, _ := os.ReadDir(dir); len(es) != 0 {
		t.Errorf("left in the folder: %v", es)
	}
}

func TestSeveralExaminationsAtOnce(t *testing.T) {
	require.Root(t)
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := CheckNeeded(Examine(t.Context(), Place{State: dir}, nil)); err != nil {
				t.Error(err)
			}
		})
	}
	if found := examineHandicapped(t, "all", dir, &syscall.SysProcAttr{}, nil); CheckNeeded(found) != nil {
		t.Errorf("another process: %v", CheckNeeded(found))
	}
	wg.Wait()
	waitNoTraces(t, dir)
}

func TestKilledExaminationsLeaveNothing(t *testing.T) {
	require.Root(t)
	dir := t.TempDir()
	for i := range 8 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = []string{handicapped, "all", dir}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(10+i*70) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
	}
	if err := CheckNeeded(Examine(t.Context(), Place{State: dir}, nil)); err != nil {
		t.Error(err)
	}
	waitNoTraces(t, dir)
}

func TestEachCheckReportsItsFailure(t *testing.T) {
	require.Root(t)
	ownMounts := &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	call := func(number int, errno syscall.Errno) string { return fmt.Sprintf("call:%d:%d", number, errno) }
	argument := func(number, index, bits int, errno syscall.Errno) string {
		return fmt.Sprintf("arg:%d:%d:%d:%d", number, index, bits, errno)
	}
	for _, c := range []struct {
		name, check   string
		attr          *syscall.SysProcAttr
		env           []string
		handicaps     []string
		words, remedy string // parts of the message and the remedy
	}{
		{"NotRoot", "root", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, nil, nil,
			"this is user 65534", "sudo patchbay-local doctor"},
		{"NoFilters", "confinement", nil, nil, []string{call(unix.SYS_SECCOMP, unix.EINVAL)},
			"system calls cannot be filtered", "CONFIG_SECCOMP_FILTER"},
		{"NoUserNamespace", "namespaces", nil, nil, []string{argument(unix.SYS_CLONE, 0, unix.CLONE_NEWUSER, unix.EPERM)},
			"new user namespace", "--privileged"},
		{"NoNetNamespace", "namespaces", nil, nil, []string{argument(unix.SYS_CLONE, 0, unix.CLONE_NEWNET, unix.EINVAL)},
			"new net namespace", "--privileged"},
		{"NoCgroupNamespace", "namespaces", nil, nil, []string{argument(unix.SYS_CLONE, 0, unix.CLONE_NEWCGROUP, unix.EINVAL)},
			"new cgroup namespace", "--privileged"},
		{"NoProc", "namespaces", nil, nil, []string{call(unix.SYS_MOUNT, unix.EPERM)},
			"cannot make the mounts", "--privileged"},
		{"NoAdministrator", "overlay", nil, nil, []string{fmt.Sprintf("cap:%d", unix.CAP_SYS_ADMIN)},
			"operation not permitted", "--privileged"},
		{"NoGroups", "limits", ownMounts, nil, []string{"umount:/sys/fs/cgroup"},
			"no cgroup controller", "mount -t cgroup2"},
		{"GroupsReadOnly", "limits", ownMounts, nil, []string{"umount:/sys/fs/cgroup/unified", "readonly:/sys/fs/cgroup/pids", "readonly:/sys/fs/cgroup/cpu"},
			"read-only file system", "mount -o remount,rw"},
		{"NoMountAttributes", "overlay", nil, nil, []string{call(unix.SYS_MOUNT_SETATTR, unix.ENOSYS)},
			"cannot shift the owners", "newer kernel"},
		{"OwnersOfThisFileSystemStay", "overlay", nil, nil, []string{call(unix.SYS_MOUNT_SETATTR, unix.EINVAL)},
			"cannot shift the owners", "df -T"},
		{"NoTrees", "overlay", nil, nil, []string{call(unix.SYS_OPEN_TREE, unix.ENOSYS)},
			"a second time", "newer kernel"},
		{"NoOverlay", "overlay", nil, nil, []string{argument(unix.SYS_MOUNT, 3, unix.MS_NODEV, unix.ENODEV)},
			"cannot mount an overlay", "modprobe overlay"},
		{"OverlayNotOnShifted", "overlay", nil, nil, []string{argument(unix.SYS_MOUNT, 3, unix.MS_NODEV, unix.EINVAL)},
			"files with shifted owners", "newer kernel"},
		{"NoFormatter", "disk", nil, []string{"PATH=/nonexistent"}, nil,
			"mke2fs", "apt install e2fsprogs"},
		{"NoLoop", "disk", ownMounts, nil, []string{"empty:/dev"},
			"loop devices", "modprobe loop"},
		{"LoopForbidden", "disk", nil, nil, []string{argument(unix.SYS_IOCTL, 1, unix.LOOP_CTL_GET_FREE&^0x4c00, unix.EPERM)},
			"loop device", "--privileged"},
		{"NoExt4", "disk", nil, nil, []string{argument(unix.SYS_MOUNT, 3, unix.MS_NOSUID, unix.ENODEV)},
			"as a disk", "modprobe ext4"},
		{"NoOtherUsers", "separation", nil, nil, []string{fmt.Sprintf("cap:%d", unix.CAP_SETUID)},
			"cannot start a process for it", "--privileged"},
		{"NoNetlink", "links", nil, nil, []string{argument(unix.SYS_SOCKET, 0, unix.AF_NETLINK, unix.EAFNOSUPPORT)},
			"nodes cannot be linked", "modprobe veth bridge"},
		{"NoTunnel", "tunnel", ownMounts, nil, []string{"empty:/dev"},
			"/dev/net/tun", "modprobe tun"},
		{"NoCapacity", "capacity", nil, nil, []string{argument(unix.SYS_SOCKET, 0, unix.AF_NETLINK, unix.EPERM)},
			"operation not permitted", "--privileged"},
		{"NoDelay", "delay", nil, nil, []string{argument(unix.SYS_SOCKET, 0, unix.AF_NETLINK, unix.EAFNOSUPPORT)},
			"address family not supported", "modprobe sch_netem"},
		{"NoBoundForStorms", "storms", nil, nil, []string{argument(unix.SYS_SOCKET, 2, unix.NETLINK_NETFILTER, unix.EPROTONOSUPPORT)},
			"nftables cannot limit the frames that nodes send", "nft_limit; without it"},
		{"NoWayOutside", "outside", nil, nil, []string{argument(unix.SYS_SOCKET, 2, unix.NETLINK_NETFILTER, unix.EPROTONOSUPPORT)},
			"nodes cannot be connected", "nft_masq"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			attr := &syscall.SysProcAttr{}
			if c.attr != nil {
				*attr = *c.attr
			}
			found := examineHandicapped(t, c.check, dir, attr, c.env, c.handicaps...)
			if len(found) != 1 {
				t.Fatalf("found %+v", found)
			}
			if f := found[0]; f.OK || !strings.Contains(f.Message, c.words) || !strings.Contains(f.Remedy, c.remedy) {
				t.Errorf("%+v\nwant words with %q, a remedy with %q", f, c.words, c.remedy)
			}
			if err := CheckNeeded(found); (err == nil) == found[0].Needed || found[0].Needed && !strings.Contains(err.Error(), c.remedy) {
				t.Errorf("CheckNeeded: %v", err)
			}
			if es, _ := os.ReadDir(dir); len(es) != 0 {
				t.Errorf("left in the folder: %v", es)
			}
		})
	}
}

func TestLimitsWithoutEffectAreReported(t *testing.T) {
	require.Root(t)
	dir := t.TempDir()
	found := examineHandicapped(t, "unlimited", dir, &syscall.SysProcAttr{}, nil)
	for range 5 { // on a busy host the group gets little processor time anyway
		if last := found[len(found)-1]; !last.OK {
			break
		}
		found = examineHandicapped(t, "unlimited", dir, &syscall.SysProcAttr{}, nil)
	}
	want := []string{"limited to 64 MiB of memory took 192 MiB", "limited to 24 processes took 96", "limited to 0.2 processors took"}
	for i, w := range want {
		if i >= len(found) || found[i].OK || !strings.Contains(found[i].Message, w) || found[i].Remedy == "" {
			t.Errorf("without limit %d: %+v, want %q", i, found, w)
		}
	}
	waitNoTraces(t, dir)
}

func TestChecksWithoutRoot(t *testing.T) {
	require.Root(t)
	found := examineHandicapped(t, "all", "/var", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, nil)
	var names []string
	for _, f := range found {
		names = append(names, f.Name)
		if f.Name == "root" && f.OK || f.Name != "root" && !f.OK {
			t.Errorf("%+v", f)
		}
	}
	if want := []string{"root", "tracing", "usr", "room", "ports", "clock", "kernel", "tools", "settings", "untested"}; !slices.Equal(names, want) {
		t.Errorf("reported %q, want %q", names, want)
	}
	if err := CheckNeeded(found); err == nil || !strings.Contains(err.Error(), "sudo patchbay-local doctor") {
		t.Errorf("CheckNeeded: %v", err)
	}
}
