package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// In the guest this program has three roles:
//
//   - PID 1, which mounts the disks, reaps processes and switches the machine off
//   - the runner, a child of PID 1, which runs the commands
//   - "go", for tests that build programs: see goInside

const (
	runner   = "guest-runner"
	compiler = "go"
	path     = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/guest/bin"
	console  = "/dev/ttyS0"
	report   = "/dev/ttyS1" // the serial line on which the host gets the exit status
)

// bootInside runs as PID 1 of the guest. It does not return.
func bootInside() {
	status, o, err := 0, orders{}, error(nil)
	if o, err = prepare(); err == nil {
		status, err = startRunner()
	}
	if err != nil {
		fmt.Println("guest: cannot boot:", err)
	} else if err := os.WriteFile(report, fmt.Appendf(nil, "status %d\n", status), 0); err != nil {
		fmt.Println("guest:", err)
	}
	if f, err := os.OpenFile(report, os.O_RDWR|unix.O_NOCTTY, 0); err == nil {
		unix.IoctlSetInt(int(f.Fd()), unix.TCSBRK, 1) // wait until everything was sent
	}
	if !o.Cut {
		unix.Sync()
	}
	unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // QEMU has the option -no-reboot, so it ends
	select {}
}

func prepare() (o orders, err error) {
	for _, m := range [][3]string{{"proc", "/proc", "proc"}, {"sys", "/sys", "sysfs"}, {"dev", "/dev", "devtmpfs"}} {
		// The kernel may have mounted /dev itself.
		if err := unix.Mount(m[0], m[1], m[2], 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return o, fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	text, err := os.ReadFile("/orders.json")
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return o, err
	}
	for _, name := range o.Modules {
		if err := load(filepath.Join("/modules", name)); err != nil {
			fmt.Printf("guest: module %s: %v\n", name, err)
		}
	}
	if err := mountDisk("/dev/vda", "/root"); err != nil {
		return o, err
	}
	if err := mountDisk("/dev/vdb", "/root/guest"); err != nil {
		return o, err
	}
	for _, name := range []string{"proc", "sys", "dev"} {
		if err := unix.Mount("/"+name, "/root/"+name, "", unix.MS_MOVE, ""); err != nil {
			return o, fmt.Errorf("move /%s: %w", name, err)
		}
	}
	self, err := os.ReadFile("/init")
	if err != nil {
		return o, err
	}
	if err := os.Remove("/init"); err != nil { // frees its memory
		return o, err
	}
	if err := os.Chdir("/root"); err != nil {
		return o, err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return o, fmt.Errorf("move the root: %w", err)
	}
	if err := errors.Join(unix.Chroot("."), os.Chdir("/")); err != nil {
		return o, err
	}
	for _, name := range []string{"/sbin/guest", "/usr/local/bin/" + compiler} {
		if err := os.WriteFile(name, self, 0o755); err != nil {
			return o, err
		}
	}
	if err := os.WriteFile("/run-orders.json", text, 0o600); err != nil {
		return o, err
	}
	return o, mountSystem(o)
}

func load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// mountDisk waits a few seconds at most until the disk exists.
func mountDisk(device, target string) error {
	var err error
	for range 500 {
		if err = unix.Mount(device, target, "ext4", 0, ""); !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENXIO) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("mount %s: %w", device, err)
	}
	return nil
}

func mountSystem(o orders) error {
	type mount struct{ source, at, kind, data string }
	mounts := []mount{
		{"tmpfs", "/run", "tmpfs", "mode=755"}, {"shm", "/dev/shm", "tmpfs", "mode=1777"},
		{"devpts", "/dev/pts", "devpts", "gid=5,mode=620,ptmxmode=666"}, {"mqueue", "/dev/mqueue", "mqueue", ""},
	}
	const groups = "/sys/fs/cgroup"
	if o.CGroup == "v2" {
		mounts = append(mounts, mount{"cgroup2", groups, "cgroup2", ""})
	} else {
		mounts = append(mounts, mount{"tmpfs", groups, "tmpfs", "mode=755"})
		for _, c := range []string{"cpu,cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids"} {
			mounts = append(mounts, mount{"cgroup", groups + "/" + c, "cgroup", c})
		}
		mounts = append(mounts, mount{"cgroup", groups + "/systemd", "cgroup", "none,name=systemd"})
		if o.CGroup == "hybrid" {
			mounts = append(mounts, mount{"cgroup2", groups + "/unified", "cgroup2", ""})
		}
	}
	for _, m := range mounts {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.source, m.at, m.kind, 0, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	if err := unix.Mount("/guest/state", "/var/lib/patchbay-local", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	for _, l := range [][2]string{{"/proc/self/fd", "/dev/fd"}, {"/proc/self/fd/0", "/dev/stdin"}, {"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"}} {
		if err := os.Symlink(l[0], l[1]); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	if err := unix.Sethostname([]byte("guest")); err != nil {
		return err
	}
	if err := os.WriteFile("/etc/hosts", []byte("127.0.0.1 localhost guest\n::1 localhost\n"), 0o644); err != nil {
		return err
	}
	os.Setenv("PATH", path)
	return exec.Command("ip", "link", "set", "lo", "up").Run()
}

// startRunner reaps ended processes until the runner has ended, and returns the runner's exit
// status.
func startRunner() (int, error) {
	tty, err := os.OpenFile(console, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	c := &exec.Cmd{Path: "/sbin/guest", Args: []string{runner}, Stdin: tty, Stdout: tty, Stderr: tty, Env: []string{"PATH=" + path, "HOME=/root"}}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return 0, err
	}
	signal.Ignore(syscall.SIGINT)
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case pid == c.Process.Pid && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == c.Process.Pid:
			return status.ExitStatus(), nil
		}
	}
}

// runInside returns the first exit status that is not 0, or 0 if all commands succeed.
func runInside() int {
	text, err := os.ReadFile("/run-orders.json")
	var o orders
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		fmt.Println("guest:", err)
		return 1
	}
	var n unix.Utsname
	unix.Uname(&n)
	uptime, _ := os.ReadFile("/proc/uptime")
	fmt.Printf("guest: Linux %s, control groups %s, up after %s s\n", unix.ByteSliceToString(n.Release[:]), o.CGroup, strings.Fields(string(uptime) + " ?")[0])
	first := 0
	for _, line := range o.Commands {
		fmt.Println("guest: $", line)
		c := exec.Command("/bin/sh", "-c", line)
		c.Stdout, c.Stderr, c.Dir = os.Stdout, os.Stderr, "/guest"
		c.Env = append(os.Environ(), o.Env...)
		start := time.Now()
		status := 0
		if err := c.Run(); err != nil {
			status = 127
			if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
				status = exit.ExitCode()
			} else {
				fmt.Println("guest:", err)
			}
		}
		fmt.Printf("guest: exit status %d after %.1f s\n", status, time.Since(start).Seconds())
		if first == 0 {
			first = status
		}
	}
	return first
}

// goInside is the program go in the guest, for tests that build one of this project's programs. It
// copies the program, which was built on the host, to the path after -o.
func goInside(args []string) int {
	folder, err := os.Getwd()
	for i, arg := range args {
		if arg == "-o" && i+1 < len(args) && err == nil {
			name := filepath.Base(filepath.Join(folder, args[len(args)-1]))
			var b []byte
			if b, err = os.ReadFile(filepath.Join("/guest/bin", name)); err == nil {
				err = os.WriteFile(args[i+1], b, 0o755)
			}
			if err == nil {
				return 0
			}
		}
	}
	fmt.Fprintln(os.Stderr, "Go is not installed in the guest, and no such program was built on the host:", args, err)
	return 1
}
