package doctor

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/sandbox"
)

func tryRoot(context.Context, *resources) (string, *trouble) {
	if uid := os.Geteuid(); uid != 0 {
		return "", &trouble{fmt.Sprintf("this is user %d; nodes need root, and so does most of this examination", uid), "sudo patchbay-local doctor"}
	}
	return "this is root", nil
}

func tryConfinement(context.Context, *resources) (string, *trouble) {
	if err := sandbox.Check(); err != nil {
		return "", &trouble{err.Error(), "use a kernel with CONFIG_SECCOMP_FILTER, as Debian's have; " + container}
	}
	return fmt.Sprintf("forbidden calls of %s programs are refused", runtime.GOARCH), nil
}

func tryTracing(context.Context, *resources) (string, *trouble) {
	return checkTracing("/proc/sys/kernel/yama/ptrace_scope")
}

// checkTracing reads the setting ptrace_scope in a file. The processes of a node trace
// their children when they start them. So nodes cannot run programs if only root of the
// host may trace (2), or no process may (3).
func checkTracing(file string) (string, *trouble) {
	text, err := os.ReadFile(file)
	scope := strings.TrimSpace(string(text))
	switch {
	case err != nil: // a kernel without the setting
		return "processes may trace their children", nil
	case scope == "2":
		return "", &trouble{"kernel.yama.ptrace_scope is 2, so no program can be run in nodes", "sysctl kernel.yama.ptrace_scope=1"}
	case scope == "3":
		return "", &trouble{"kernel.yama.ptrace_scope is 3, so no program can be run in nodes", "it cannot be lowered before the next boot: write kernel.yama.ptrace_scope=1 into the file in /etc/sysctl.d that sets it, and reboot"}
	}
	return "processes may trace their children: kernel.yama.ptrace_scope is " + scope, nil
}

// kinds are the namespaces of a node.
var kinds = [...]struct {
	flag uintptr
	name string
	most string // sysctl that limits their number
}{
	{unix.CLONE_NEWUSER, "user", "max_user_namespaces"},
	{unix.CLONE_NEWPID, "pid", "max_pid_namespaces"},
	{unix.CLONE_NEWNET, "net", "max_net_namespaces"},
	{unix.CLONE_NEWNS, "mount", "max_mnt_namespaces"},
	{unix.CLONE_NEWUTS, "uts", "max_uts_namespaces"},
	{unix.CLONE_NEWIPC, "ipc", "max_ipc_namespaces"},
	{unix.CLONE_NEWCGROUP, "cgroup", "max_cgroup_namespaces"},
}

// inNamespaces returns the attributes of a process in new namespaces of the kinds in
// flags. In a new user namespace, the process has the ids of probes.
func inNamespaces(flags uintptr) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: flags}
	if flags&unix.CLONE_NEWUSER != 0 {
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: base, Size: 65536}}
		a.UidMappings, a.GidMappings, a.GidMappingsEnableSetgroups = ids, ids, true
		a.Credential = &syscall.Credential{Uid: 0, Gid: 0}
	}
	return a
}

// tryNamespaces tests all namespaces of a node together. If that fails, it finds the
// kind that fails.
func tryNamespaces(ctx context.Context, b *resources) (string, *trouble) {
	var all uintptr
	for _, k := range kinds {
		all |= k.flag
	}
	words, t := probe(ctx, inNamespaces(all), nil, "namespaces")
	if t == nil {
		return words, nil
	}
	for _, k := range kinds {
		if _, one := probe(ctx, inNamespaces(k.flag), nil, "namespaces", k.name); one == nil {
			continue
		}
		if n, err := os.ReadFile("/proc/sys/user/" + k.most); err == nil && strings.TrimSpace(string(n)) == "0" {
			return "", &trouble{fmt.Sprintf("no %s namespace can be created: user.%s is 0", k.name, k.most), "sysctl -w user." + k.most + "=20000"}
		}
		return "", &trouble{fmt.Sprintf("no process can be started in a new %s namespace: %s", k.name, t.Words), container}
	}
	return "", t
}

// probeNamespaces checks what works in new namespaces. With an argument it checks
// nothing: then only the start of the process is the test.
func probeNamespaces(args []string) (string, *trouble) {
	if len(args) > 0 {
		return "", nil
	}
	if pid := os.Getpid(); pid != 1 {
		return "", &trouble{fmt.Sprintf("the first process of a pid namespace is number %d", pid), container}
	}
	if err := unix.Setresuid(65535, 65535, 0); err != nil {
		return "", failedTo("become user 65535 of a user namespace", err, "check whether a container around us limits user ids")
	}
	if err := unix.Setresuid(0, 0, 0); err != nil {
		return "", failedTo("become root of a user namespace again", err, container)
	}
	if err := unix.Sethostname([]byte("probe")); err != nil {
		return "", failedTo("give a uts namespace a name", err, container)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return "", failedTo("make the mounts of a mount namespace private", err, container)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return "", failedTo("mount proc of a pid namespace", err, "something is mounted over parts of /proc, as containers do; "+container)
	}
	return "user, pid, net, mount, uts, ipc and cgroup namespaces work", nil
}

func trySeparation(ctx context.Context, b *resources) (string, *trouble) {
	dir, t := b.scratch()
	if t != nil {
		return "", t
	}
	secret := dir + "/secret"
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		return "", failedTo("write to "+dir, err, "make room, or choose another folder: patchbay-local up --state DIR SETTINGS")
	}
	return probe(ctx, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: base, Gid: base}}, nil, "separation", secret)
}

// probeSeparation runs as a user without rights. It checks that it cannot read the file in
// its argument, nor become root.
func probeSeparation(args []string) (string, *trouble) {
	if unix.Getuid() != base || unix.Getgid() != base {
		return "", &trouble{"a process that was started as another user is not this user", container}
	}
	if f, err := os.Open(args[0]); err == nil {
		f.Close()
		return "", &trouble{"a user without rights reads files of root", "put the state on a file system that keeps owners and modes, such as ext4: patchbay-local up --state DIR SETTINGS"}
	}
	if err := unix.Setresuid(0, 0, 0); err == nil {
		return "", &trouble{"a user without rights became root again", container}
	}
	return fmt.Sprintf("user %d has no rights", base), nil
}

// probeUserNamespace returns the user namespace of a child. The caller must call end,
// which ends the child and closes the namespace.
func probeUserNamespace(ctx context.Context) (ns *os.File, end func(), t *trouble) {
	c, err := start(ctx, inNamespaces(unix.CLONE_NEWUSER), nil, "hold")
	if err != nil {
		return nil, nil, failedTo("make a user namespace", err, container)
	}
	ns, err = os.Open(fmt.Sprintf("/proc/%d/ns/user", c.cmd.Process.Pid))
	end = func() {
		ns.Close()
		c.in.Close()
		c.cmd.Process.Kill()
		c.cmd.Wait()
	}
	if err != nil {
		end()
		return nil, nil, failedTo("open a user namespace", err, "mount /proc: mount -t proc proc /proc")
	}
	return ns, end, nil
}
