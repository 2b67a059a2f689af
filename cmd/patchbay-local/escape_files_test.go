package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// fileAttempts returns attempts to find, read or write files of the host by name.
func fileAttempts() []attempt {
	reads := func(path string) func() string {
		return func() string {
			b, err := os.ReadFile(path)
			switch {
			case err != nil:
				return openError(err)
			case len(bytes.TrimSpace(b)) == 0:
				return "empty"
			}
			return fmt.Sprintf("%d bytes", len(b))
		}
	}
	var all []attempt
	for _, name := range []string{
		"mem", "kmem", "port", "kmsg", "console", "tty0", "ttyS0", "hda", "sda", "vda", "nvme0n1", "dm-0", "loop0", "loop-control",
		"kvm", "vsock", "vhost-vsock", "vhost-net", "net/tun", "fuse", "mapper/control", "hwrng", "rtc0", "nvram", "cpu/0/msr", "userfaultfd",
		"snapshot", "uinput", "input/event0", "dri/card0", "watchdog", "btrfs-control", "autofs", "zram0", "ppp", "mcelog", "raw/rawctl",
	} {
		all = append(all, attempt{"devices", "/dev/" + name, "ENOENT", 0, func() string {
			fd, err := unix.Open("/dev/"+name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
			if err == nil {
				unix.Close(fd)
			}
			return errnoText(err)
		}})
	}
	all = append(all,
		attempt{"devices", "all that is in /dev", "full null pts/ptmx random tty urandom zero", 0, devices},
		attempt{"devices", "chmod of the host's /dev/null", "EPERM", 0, func() string { return errnoText(unix.Chmod("/dev/null", 0)) }},
		attempt{"devices", "chown of the host's /dev/zero", "EPERM", 0, func() string { return errnoText(unix.Chown("/dev/zero", 0, 0)) }},
		attempt{"devices", "a time on the host's /dev/full", "EPERM", 0, func() string {
			return errnoText(unix.Utimes("/dev/full", []unix.Timeval{{}, {}}))
		}},
		attempt{"devices", "remove /dev/random", "EBUSY", 0, func() string { return errnoText(unix.Unlink("/dev/random")) }},
	)
	for _, name := range []string{
		"cmdline", "config.gz", "diskstats", "kallsyms", "kcore", "keys", "kmsg", "kpagecgroup", "kpagecount", "kpageflags", "latency_stats",
		"partitions", "sched_debug", "slabinfo", "sysrq-trigger", "timer_list", "vmallocinfo", "fs/ext4", "driver/rtc", "scsi/scsi", "acpi/wakeup", "irq/0", "bus/pci/devices",
	} {
		all = append(all, attempt{"/proc", "read " + name, "empty | ENOENT | EACCES | EPERM", 0, reads("/proc/" + name)})
	}
	for _, name := range []string{"environ", "maps", "smaps", "mem", "auxv", "io", "stack", "syscall", "pagemap", "personality", "numa_maps"} {
		all = append(all, attempt{"/proc/1", "read " + name, "EACCES | EPERM | ENOENT", 0, reads("/proc/1/" + name)})
	}
	for _, name := range []string{"root", "cwd", "exe", "fd/0", "fd/3", "ns/net", "ns/mnt", "ns/user", "ns/pid", "map_files/0"} {
		all = append(all, attempt{"/proc/1", "follow " + name, "EACCES | EPERM | ENOENT", 0, func() string {
			_, err := unix.Open("/proc/1/"+name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
			return errnoText(err)
		}})
	}
	all = append(all,
		attempt{"/proc/1", "where its descriptors lead", "none", 0, func() string { return links("/proc/1/fd") }},
		attempt{"/proc/1", "where those of its threads lead", "none", 0, func() string { return links("/proc/1/task/*/fd") }},
		attempt{"/proc/1", "uid_map", "EACCES | EPERM", 0, func() string { return write("/proc/1/uid_map", "0 0 1") }},
		attempt{"/proc/1", "timens_offsets", "EACCES | EPERM | ENOENT", 0, func() string { return write("/proc/1/timens_offsets", "monotonic 1 0") }},
		attempt{"/proc", "writable files outside of processes and sys", "none", 0, writableProc},
		attempt{"/sys", "writable files", "none", 0, writableSys},
		attempt{"/sys", "uevent of lo", "EROFS | EACCES", 0, func() string { return write("/sys/class/net/lo/uevent", "add") }},
		attempt{"/sys", "groups (cgroupfs)", "empty", 0, func() string { return listed("/sys/fs") }},
		attempt{"/sys", "debugfs and tracefs", "empty", 0, func() string { return listed("/sys/kernel/debug") + dashed(listed("/sys/kernel/tracing")) }},
		attempt{"/sys", "EFI variables", "empty | ENOENT", 0, func() string { return listed("/sys/firmware") }},
		attempt{"/sys", "disks", "empty", 0, func() string { return listed("/sys/block") }},
		attempt{"/sys", "power", "empty | ENOENT", 0, func() string { return listed("/sys/power") }},
		attempt{"sysctl", "writable ones that are not the node's own", "none", 0, writableSysctl},
		attempt{"sysctl", "writable ones, for an account", "none", alice, writableSysctl},
		attempt{"sysctl", "net.ipv4.ip_forward, which is the node's own", "done", 0, func() string { return write("/proc/sys/net/ipv4/ip_forward", "1") }},
	)
	for _, name := range []string{
		"kernel/core_pattern", "kernel/modprobe", "kernel/hotplug", "kernel/sysrq", "kernel/panic", "kernel/hostname", "kernel/kptr_restrict",
		"kernel/randomize_va_space", "kernel/yama/ptrace_scope", "kernel/ns_last_pid", "kernel/poweroff_cmd", "kernel/unprivileged_bpf_disabled",
		"kernel/threads-max", "kernel/pty/max", "fs/file-max", "fs/suid_dumpable", "fs/protected_symlinks", "fs/aio-max-nr", "fs/inotify/max_user_instances",
		"fs/binfmt_misc/register", "vm/overcommit_memory", "vm/drop_caches", "vm/swappiness", "vm/mmap_min_addr", "user/max_user_namespaces", "user/max_inotify_instances",
		"net/netfilter/nf_log_all_netns", "net/ipv4/tcp_mem", "net/core/bpf_jit_enable",
	} {
		all = append(all, attempt{"sysctl", name, "EACCES | EPERM | ENOENT | EROFS", 0, func() string {
			b, err := os.ReadFile("/proc/sys/" + name)
			if err != nil {
				b = []byte("0\n")
			}
			return write("/proc/sys/"+name, string(b)) // its present value
		}})
	}
	return append(all,
		attempt{"files", "names of the host's files, anywhere", "none", 0, findCanary},
		attempt{"files", "paths of the host in lists of mounts", "none", 0, func() string { return hidden("/proc/self/mountinfo", "/proc/self/mounts", "/proc/1/mountinfo") }},
		attempt{"files", "paths of the host in /proc/self", "none", 0, func() string {
			return hidden("/proc/self/cgroup", "/proc/self/maps", "/proc/self/environ", "/proc/1/cmdline", "/proc/1/cgroup", "/proc/net/unix", "/proc/locks", "/proc/swaps")
		}},
		attempt{"files", "groups: nothing of where they are", "none", 0, groups},
		attempt{"files", "passwords of the host in /etc/shadow", "none", 0, passwords},
		attempt{"files", "host keys in /etc/ssh", "none", 0, func() string { return globbed("/etc/ssh/*key*") }},
		attempt{"files", "what is in /home, /opt, /srv, /mnt, /media, /boot", "/home/alice", 0, func() string { return globbed("/home/*", "/opt/*", "/srv/*", "/mnt/*", "/media/*", "/boot/*") }},
		attempt{"files", "what is in /run", "/run/lock /run/patchbay", 0, func() string { return globbed("/run/*") }},
		attempt{"files", "what is in /usr/local/bin", "commands of ours", 0, ownCommands},
		attempt{"files", "state of testbeds", "none", 0, func() string {
			return globbed("/var/lib/patchbay-local*", "/run/patchbay-local*", "/disk*", "/upper*", "/assembly*")
		}},
		attempt{"files", "out of a root by an open folder (double chroot)", "the node's root", 0, doubleChroot},
		attempt{"files", "above the root by ..", "the node's root", 0, func() string { return sameRoot("/../../../../..") }},
		attempt{"files", "the program, for writing", "EROFS | ETXTBSY", 0, func() string { return write("/run/patchbay/bin/patchbay-local", "x") }},
		attempt{"files", "the program, removed", "EROFS", 0, func() string { return errnoText(unix.Unlink("/run/patchbay/bin/patchbay-local")) }},
		attempt{"files", "the program, replaced", "EROFS | EXDEV", 0, func() string { return errnoText(os.Rename("/etc/hostname", "/run/patchbay/bin/patchbay-local")) }},
		attempt{"files", "the program, chmod", "EROFS", 0, func() string { return errnoText(unix.Chmod("/run/patchbay/bin/patchbay-local", 0o777)) }},
		attempt{"files", "the program by /proc/PID/exe of a process of ours", "EROFS", 0, overwriteExe},
		attempt{"files", "the program by a link to it", "EXDEV", 0, func() string { return errnoText(unix.Link("/run/patchbay/bin/patchbay-local", "/run/patchbay/link")) }},
		attempt{"files", "a sparse file of 8 EB", "EFBIG", 0, sparse},
		attempt{"files", "/usr/bin/env, which becomes the node's own copy", "done", 0, changeEnv},
		attempt{"geni-get", "key, as root", "a key", 0, geniKey},
		attempt{"geni-get", "key, as alice", "a key", alice, geniKey},
		attempt{"geni-get", "key, as nobody", "refused", 65534, geniKey},
		attempt{"geni-get", "key, as www-data", "refused", 33, geniKey},
		attempt{"geni-get", "a line of 1 MB", "closed", 0, geniFlood},
	)
}

// openError is the error of a call, without the path.
func openError(err error) string {
	if e, ok := err.(*fs.PathError); ok {
		return errnoText(e.Err)
	}
	return errnoText(err)
}

func listed(path string) string {
	entries, err := os.ReadDir(path)
	switch {
	case err != nil:
		return openError(err)
	case len(entries) == 0:
		return "empty"
	}
	return entries[0].Name() + " and more"
}

// links returns the targets of links in readable folders.
func links(pattern string) string {
	var found []string
	paths, _ := filepath.Glob(pattern + "/*")
	for _, path := range paths {
		if to, err := os.Readlink(path); err == nil {
			found = append(found, to)
		}
	}
	return orNone(found)
}

func dashed(s string) string {
	if s == "empty" {
		return ""
	}
	return " - " + s
}

func globbed(patterns ...string) string {
	var all []string
	for _, p := range patterns {
		found, _ := filepath.Glob(p)
		all = append(all, found...)
	}
	return orNone(all)
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, " ")
}

// devices returns all devices and files in /dev, except terminals.
func devices() string {
	var all []string
	filepath.WalkDir("/dev", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Type()&fs.ModeSymlink == 0 && !(strings.HasPrefix(path, "/dev/pts/") && d.Name() != "ptmx") {
			all = append(all, strings.TrimPrefix(path, "/dev/"))
		}
		return nil
	})
	return strings.Join(all, " ")
}

// writable returns the files below a folder that can be opened for writing, except
// /dev/null.
func writable(root string, skip func(path string) bool) []string {
	var all []string
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if skip(path) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err != nil {
			return nil
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(1, 3) {
			all = append(all, path)
		}
		return nil
	})
	return all
}

func writableProc() string {
	return orNone(writable("/proc", func(path string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(path, "/proc/"), "/")
		return strings.Trim(name, "0123456789") == "" && name != "" || slices.Contains([]string{"sys", "self", "thread-self", "net"}, name)
	}))
}

func writableSys() string { return orNone(writable("/sys", func(string) bool { return false })) }

// writableSysctl skips the settings that each network or IPC namespace has of its own.
func writableSysctl() string {
	own := []string{"msgmax", "msgmnb", "msgmni", "sem", "shm_rmid_forced", "shmall", "shmmax", "shmmni"}
	return orNone(writable("/proc/sys", func(path string) bool {
		name := strings.TrimPrefix(path, "/proc/sys/")
		return name == "net" || name == "fs/mqueue" || strings.HasPrefix(name, "kernel/") && slices.Contains(own, name[len("kernel/"):])
	}))
}

// findCanary searches for a file whose name exists only on the host.
func findCanary() string {
	var found []string
	filepath.WalkDir("/", func(path string, d fs.DirEntry, err error) error {
		if path == "/proc" || path == "/sys" {
			return fs.SkipDir
		}
		if strings.Contains(path, told.Canary) || slices.ContainsFunc(told.Hidden, func(s string) bool { return strings.Contains(path, s) }) {
			found = append(found, path)
		}
		return nil
	})
	return orNone(found)
}

// hidden returns which of the hidden texts are in files.
func hidden(paths ...string) string {
	var found []string
	for _, path := range paths {
		b, _ := os.ReadFile(path)
		if path == "/proc/self/environ" { // which contains them for this test
			b, _, _ = bytes.Cut(b, []byte(escapeFacts))
		}
		for _, s := range told.Hidden {
			if strings.Contains(string(b), s) {
				found = append(found, path+" has "+s)
			}
		}
	}
	return orNone(found)
}

// groups returns lines of /proc/self/cgroup that show more than the node's own root and
// its jobs.
func groups() string {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return openError(err)
	}
	var wrong []string
	for line := range strings.Lines(string(b)) {
		path := line[strings.LastIndexByte(line, ':')+1:]
		if path != "/\n" && path != "/../jobs\n" {
			wrong = append(wrong, line)
		}
	}
	return orNone(wrong)
}

func passwords() string {
	b, err := os.ReadFile("/etc/shadow")
	if err != nil {
		return openError(err)
	}
	var found []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(line, ":"); len(f) < 2 || f[1] != "*" && f[1] != "!" && f[1] != "!*" {
			found = append(found, f[0])
		}
	}
	return orNone(found)
}

func sameRoot(path string) string {
	var root, other unix.Stat_t
	if err := unix.Stat("/", &root); err != nil {
		return errnoText(err)
	}
	if err := unix.Stat(path, &other); err != nil {
		return errnoText(err)
	}
	if root.Dev != other.Dev || root.Ino != other.Ino {
		return "another folder"
	}
	return "the node's root"
}

// doubleChroot leaves a root through a folder that was opened outside of it, and goes up
// as far as possible.
func doubleChroot() string {
	var root, top unix.Stat_t
	if err := unix.Stat("/", &root); err != nil {
		return errnoText(err)
	}
	fd, err := unix.Open("/", unix.O_RDONLY, 0)
	if err != nil {
		return errnoText(err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "root")
	if err != nil {
		return err.Error()
	}
	if err := unix.Chroot(dir); err != nil {
		return "chroot: " + errnoText(err)
	}
	if err := unix.Fchdir(fd); err != nil {
		return errnoText(err)
	}
	for range 100 {
		if err := unix.Chdir(".."); err != nil {
			return errnoText(err)
		}
	}
	if err := unix.Stat(".", &top); err != nil {
		return errnoText(err)
	}
	if root.Dev != top.Dev || root.Ino != top.Ino {
		return "another folder"
	}
	return "the node's root"
}

// overwriteExe keeps the executable of a testbed process open until the process has
// ended, and then opens it for writing.
func overwriteExe() string {
	c := exec.Command("/run/patchbay/bin/patchbay-local", "sftp")
	c.Args[0] = "patchbay-agent"
	c.Env = []string{"HOME=/"}
	in, err := c.StdinPipe()
	if err != nil {
		return err.Error()
	}
	if err := c.Start(); err != nil {
		return err.Error()
	}
	defer in.Close()
	var fd int
	for range 200 { // until it has executed that program
		if fd, err = unix.Open(fmt.Sprintf("/proc/%d/exe", c.Process.Pid), unix.O_RDONLY, 0); err != nil {
			return "exe: " + errnoText(err)
		}
		if path, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); strings.Contains(path, "patchbay-local") {
			break
		}
		unix.Close(fd)
		time.Sleep(time.Millisecond)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	for range 50 {
		_, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_WRONLY|unix.O_TRUNC, 0)
		if err != syscall.ETXTBSY {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return errnoText(err)
}

func sparse() string {
	f, err := os.Create("/var/tmp/sparse")
	if err != nil {
		return err.Error()
	}
	defer os.Remove(f.Name())
	defer f.Close()
	return openError(f.Truncate(1<<63 - 1))
}

func changeEnv() string {
	f, err := os.OpenFile("/usr/bin/env", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return openError(err)
	}
	defer f.Close()
	_, err = f.WriteString(told.Canary)
	if err != nil {
		return openError(err)
	}
	return "done"
}

func geniKey() string {
	out, err := exec.Command("/usr/local/bin/geni-get", "key").CombinedOutput()
	switch {
	case err == nil && strings.Contains(string(out), "PRIVATE KEY"):
		return "a key"
	case err != nil && strings.Contains(string(out), "only root and the accounts"):
		return "refused"
	}
	return fmt.Sprintf("%v %s", err, out)
}

// geniFlood sends an endless request and returns how the testbed ends it.
func geniFlood() string {
	c, err := net.Dial("unix", "/run/patchbay/geni")
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(8 * time.Second))
	for range 16 {
		if _, err = c.Write(bytes.Repeat([]byte("a"), 64<<10)); err != nil {
			break
		}
	}
	if err == nil {
		_, err = io.Copy(io.Discard, c)
	}
	if err, ok := errors.AsType[net.Error](err); ok && err.Timeout() {
		return "it listens on"
	}
	return "closed"
}

// ownCommands reports whether /usr/local contains only links to our program.
func ownCommands() string {
	var others []string
	for name := range strings.FieldsSeq(globbed("/usr/local/bin/*", "/usr/local/sbin/*")) {
		if to, _ := os.Readlink(name); filepath.Dir(to) != "/run/patchbay/bin" {
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		return strings.Join(others, " ")
	}
	return "commands of ours"
}
