package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// releases are the code names of Debian's releases, by number.
var releases = [...]string{11: "bullseye", 12: "bookworm", 13: "trixie", 14: "forky", 15: "duke"}

// packages are installed in addition to the essential packages and apt.
var packages = [...]string{
	"bash-completion", "bzip2", "ca-certificates", "curl", "ethtool", "iperf3", "iproute2", "iputils-ping", "less", "libcap2-bin",
	"nano", "netbase", "net-tools", "openssh-client", "procps", "psmisc", "python3", "rsync", "sudo", "tcpdump",
	"traceroute", "vim-tiny", "wget", "xz-utils",
}

// debianSuite returns the code name of the Debian release at the end of an image's name: bookworm for names
// such as debian-12, debian-bookworm and my-debian-12.
func debianSuite(name string) (string, error) {
	i := strings.LastIndex(name, "debian-")
	if i < 0 || i > 0 && name[i-1] != '-' {
		return "", fmt.Errorf("name a folder or a tarball, or choose a name that ends in a Debian release, such as debian-12")
	}
	suite := name[i+len("debian-"):]
	for n, code := range releases {
		if code != "" && (suite == code || suite == fmt.Sprint(n)) {
			return code, nil
		}
	}
	switch suite {
	case "stable", "testing", "sid":
		return suite, nil
	case "unstable":
		return "sid", nil
	}
	known := slices.DeleteFunc(slices.Clone(releases[:]), func(s string) bool { return s == "" })
	return "", fmt.Errorf("%q is not a known Debian release; known are 11 to %d, %s, stable, testing and unstable", suite, len(releases)-1, strings.Join(known, ", "))
}

// debian builds the Debian release at the end of name, by mmdebstrap in separate namespaces. So the
// processes of mmdebstrap end with this program, and the host does not see their mounts.
func (b *build) debian(ctx context.Context, name string, w io.Writer) error {
	suite, err := debianSuite(name)
	if err != nil {
		return err
	}
	program, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return errors.New("the program mmdebstrap, which makes Debian images, is not installed; install it: apt install mmdebstrap")
	}
	scratch := filepath.Join(b.dir, "tmp")
	if err := os.Mkdir(scratch, 0o755); err != nil {
		return err
	}
	fmt.Fprintf(w, "building Debian %s with mmdebstrap; it downloads about 70 MB\n", suite)
	out, err := newWriter(ctx, b.root)
	if err != nil {
		return err
	}
	defer out.close()
	if err := runMmdebstrap(ctx, program, suite, scratch, w, out.unpack); err != nil {
		return err
	}
	// mmdebstrap copies these files from this host.
	if err := out.unlink("etc/hostname"); err != nil {
		return err
	}
	if err := out.writeFile("etc/resolv.conf", meta{mode: 0o644}, strings.NewReader(resolvConf)); err != nil {
		return err
	}
	out.printSummary(w)
	return nil
}

// unlink succeeds for a missing file.
func (w *writer) unlink(path string) error {
	dir, name, err := w.openParent(path)
	if err != nil {
		return err
	}
	return clearName(dir, name)
}

// runMmdebstrap runs mmdebstrap in namespaces of its own, and calls unpack with the tarball that it writes.
func runMmdebstrap(caller context.Context, program, suite, scratch string, w io.Writer, unpack func(io.Reader) error) error {
	ctx, stop := context.WithCancel(caller)
	defer stop()
	// The shell is the first process of the pid namespace, so all others end with the shell.
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", `mount -t proc proc /proc && "$@"; exit $?`, "sh",
		program, "--mode=root", "--variant=minbase", "--format=tar", "--include="+strings.Join(packages[:], ","), suite, "-")
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LC_ALL=C.UTF-8", "TMPDIR=" + scratch, "DEBIAN_FRONTEND=noninteractive"}
	for _, name := range []string{"http_proxy", "https_proxy", "no_proxy"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID,
		Unshareflags: syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
	}
	// The kernel sends Pdeathsig when this thread ends, even if the process continues.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return unpackOutput(caller, cmd, stop, "mmdebstrap failed", textWriter{w}, unpack)
}

// textWriter replaces invalid UTF-8 in the output of a program.
type textWriter struct{ w io.Writer }

// Write never fails.
func (r textWriter) Write(b []byte) (int, error) {
	_, _ = io.WriteString(r.w, strings.ToValidUTF8(string(b), "?"))
	return len(b), nil
}
