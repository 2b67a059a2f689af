package linktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/netspace"
	"patchbay/inventory/provider/local/sandbox"
)

// Node is an end of a measurement.
type Node struct {
	Network *os.File // its network namespace
	Base    uint32   // its first user id on the host
}

// nobody is the id of a user and a group of the node without rights. net.ipv4.ping_group_range
// lets the group use ping.
const nobody = 65534

// packages are the Debian packages of the programs.
var packages = map[string]string{"ping": "iputils-ping", "iperf3": "iperf3"}

func find(program string) (string, error) {
	for _, dir := range []string{"/usr/bin", "/usr/sbin"} { // no others are visible
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("this host has no %s; type: apt install %s", program, packages[program])
}

// run runs a program of the host in the node's network until it ends, or ctx does.
func (n Node) run(ctx context.Context, out, complaint io.Writer, program string, args ...string) error {
	path, err := find(program)
	if err != nil {
		return err
	}
	// Package os forks once to test the kernel. If it did so below, that child would be the first
	// process of the new namespace, which ends with it.
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Release()
	}
	return netspace.Inside(n.Network, func() error { // on a thread that nothing else uses
		if err := confine(); err != nil {
			return fmt.Errorf("cannot confine %s: %w", program, err)
		}
		c := exec.CommandContext(ctx, path, args...)
		c.Path, c.Dir, c.Env = path, "/", []string{"PATH=/usr/sbin:/usr/bin", "LC_ALL=C", "TMPDIR=/tmp"}
		c.Stdout, c.Stderr, c.WaitDelay = out, complaint, time.Second
		id := n.Base + nobody
		c.SysProcAttr = &syscall.SysProcAttr{
			Chroot: root, Credential: &syscall.Credential{Uid: id, Gid: id}, Pdeathsig: unix.SIGKILL,
		}
		if err := c.Start(); err != nil {
			return fmt.Errorf("cannot run %s: %w", program, err)
		}
		for resource, limit := range map[int]uint64{unix.RLIMIT_AS: 1 << 30, unix.RLIMIT_NPROC: 64, unix.RLIMIT_CORE: 0} {
			_ = unix.Prlimit(c.Process.Pid, resource, &unix.Rlimit{Cur: limit, Max: limit}, nil) // it fails when the process has ended
		}
		err := c.Wait()
		if ctx.Err() != nil {
			return fmt.Errorf("%s was stopped: %w", program, ctx.Err())
		}
		return err
	})
}

// root is where confine mounts the root of the programs.
const root = "/tmp"

// confine gives the calling thread namespaces in which a program sees the host's /usr, a
// small folder /tmp, /dev/urandom and no process of the host. It takes away the rights that processes of
// nodes do not have.
func confine() error {
	const private = unix.CLONE_NEWNS | unix.CLONE_FS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	const flags = unix.MS_NOSUID | unix.MS_NODEV
	const usr, random = root + "/usr", "/dev/urandom" // iperf3 reads it
	err := unix.Unshare(private)
	for _, step := range []func() error{
		func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return unix.Mount("tmpfs", root, "tmpfs", flags|unix.MS_NOEXEC, "size=4m,mode=755") },
		func() error { return os.Mkdir(usr, 0o755) },
		func() error { return unix.Mount("/usr", usr, "", unix.MS_BIND, "") },
		func() error { return unix.Mount("", usr, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, "") },
		func() error { return errors.Join(os.Mkdir(root+"/dev", 0o755), os.WriteFile(root+random, nil, 0o444)) },
		func() error { return unix.Mount(random, root+random, "", unix.MS_BIND, "") },
		func() error { return errors.Join(os.Mkdir(root+"/tmp", 0), os.Chmod(root+"/tmp", 0o777|os.ModeSticky)) },
		linkLibraries,
		func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) },
		sandbox.Node,
	} {
		if err == nil {
			err = step()
		}
	}
	return err
}

// linkLibraries makes the links from the root to /usr that the host has, such as /lib64.
func linkLibraries() error {
	links, err := filepath.Glob("/lib*")
	for _, name := range links {
		if to, e := os.Readlink(name); e == nil {
			err = errors.Join(err, os.Symlink(to, root+name))
		}
	}
	return err
}

// maxOutput limits the output of a program, in bytes.
const maxOutput = 256 << 10

// output keeps what a program writes. It closes found when the text has word.
type output struct {
	text  bytes.Buffer
	word  string
	found chan struct{}
}

func newOutput(word string) *output { return &output{word: word, found: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	if o.text.Len()+len(b) > maxOutput {
		return 0, fmt.Errorf("the output is longer than %d bytes", maxOutput)
	}
	o.text.Write(b)
	if o.word != "" && bytes.Contains(o.text.Bytes(), []byte(o.word)) {
		o.word = ""
		close(o.found)
	}
	return len(b), nil
}
