package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"patchbay/inventory/node/agent"
	"patchbay/inventory/provider/local/sandbox"
)

// inner is the second stage. It becomes PID 1 of the node: root in the node, without rights
// on the host.
func inner(s stage) error {
	input, err := s.readInput()
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return fmt.Errorf("cannot separate the node's mounts: %w", err)
	}
	if err := enterRoot(input.Spec); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(input.Spec.Hostname)); err != nil {
		return fmt.Errorf("cannot set the host name: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("cannot enable lo: %w", err)
	}
	allowPing()
	writeLimits(input.Spec.Limits)
	linkCommands(input.Spec)
	// A cgroup namespace hides the path of the node's cgroups.
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("cannot separate the node's cgroups: %w", err)
	}
	// Leaves the keyring of the session in which the testbed was started. A kernel may have no
	// keyrings.
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && err != unix.ENOSYS {
		return fmt.Errorf("cannot leave the host's session keyring: %w", err)
	}
	if err := sandbox.CloseOnExec(3 + s.inherited); err != nil {
		return err
	}
	jobs := make([]string, 0, s.inherited-1)
	for i := 1; i < s.inherited; i++ {
		jobs = append(jobs, strconv.Itoa(3+i))
	}
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"GOMAXPROCS=1",         // one P takes less memory
		"GODEBUG=disablethp=1", // without this, the heap uses huge pages if they are the default, as on Debian
		"PATCHBAY_NODE=" + input.Spec.ID,
		"PATCHBAY_JOBS=" + strings.Join(jobs, ","),
	}
	syscall.Umask(0o022)
	if err := sandbox.Node(); err != nil {
		return fmt.Errorf("cannot drop rights: %w", err)
	}
	err = syscall.Exec(programInside, []string{agent.Argv0}, env)
	return fmt.Errorf("cannot run the agent: %w", err)
}

// enterRoot mounts /dev, /run, /proc and /sys in ./node, and makes ./node the root.
func enterRoot(s Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	// Mounts from the host's mount namespace cannot be moved, but a clone can.
	again, err := cloneMount("node", true)
	if err != nil {
		return err
	}
	if err := unix.MoveMount(again, "", unix.AT_FDCWD, "node", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("cannot mount the node's root: %w", err)
	}
	unix.Close(again)
	root, err := unix.Open("node", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if err := mountSystem(root, s); err != nil {
		return err
	}
	if err := mountDisks(root, s.Disks); err != nil {
		return err
	}
	if err := unix.Fchdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("cannot change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot leave the host's root: %w", err)
	}
	return os.Chdir("/")
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// allowPing lets all users of the node send ICMP echo requests. If the kernel refuses, only
// root can.
func allowPing() {
	os.WriteFile("/proc/sys/net/ipv4/ping_group_range", fmt.Append(nil, "0 ", idCount-1), 0)
}

// writeLimits writes the node's limits to a file for programs in the node.
func writeLimits(l Limits) {
	text, err := json.Marshal(agent.Limits(l))
	if err == nil {
		os.WriteFile(agent.LimitsFile, append(text, '\n'), 0o644)
	}
}

// hasProgram reports whether the image has a program that the node can execute. It checks
// only the first file with that name.
func hasProgram(name string) bool {
	for _, dir := range []string{"/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"} {
		if f, err := os.OpenFile(dir+name, os.O_RDONLY|unix.O_NONBLOCK, 0); err == nil { // the node can execute only files that it can read
			defer f.Close()
			stat, err := f.Stat()
			return err == nil && stat.Mode().IsRegular() && stat.Mode()&0o111 != 0
		}
	}
	return false
}

// linkCommands links the testbed's commands into the node: those of the agent, sudo, and an
// explanation in place of ping if the image has none. Nodes with the host's /usr always get the
// testbed's sudo; other images may have their own. An existing link stays and has precedence
// over a program that the host installs later, so that existing nodes do not change. If the
// disk is full or a name is taken, the node does not get the command.
func linkCommands(s Spec) {
	const dir = "/usr/local/bin/"
	if os.MkdirAll(dir, 0o755) != nil {
		return
	}
	for _, name := range agent.Commands() {
		if name != "ping" || !hasProgram(name) {
			os.Symlink(programInside, dir+name)
		}
	}
	if s.Image.Usr != "" || !agent.HasSudo() {
		os.Symlink(path.Join(path.Dir(programInside), agent.SudoName), dir+agent.SudoName)
	}
}
