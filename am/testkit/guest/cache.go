package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// rootPackages are the packages that are installed in the guest in addition to Debian's
// minimum: programs that tests use, and programs that a host usually has.
const rootPackages = "openssh-client,openssh-server,rsync,sudo,procps,iproute2,iputils-ping,e2fsprogs,kmod,jq,openssl,busybox-static,runc,git," +
	"libxml2,mmdebstrap,netbase,ca-certificates,python3,bzip2,xz-utils,zstd,make,strace,less,man-db,locales"

// cache is the folder with the files from which guests are created.
type cache struct {
	dir     string
	host    string // folder with the unpacked packages, for programs that the host lacks
	kernel  string
	modules string // folder of the kernel's modules
	root    string // image of the root file system
	lock    *os.File
}

// openCache adds missing files to the cache. Several guests may use one cache at the same time.
func openCache(ctx context.Context, dir string) (*cache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	c := &cache{dir: dir, host: filepath.Join(dir, "host"), lock: lock}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	if err == nil {
		err = c.fill(ctx)
	}
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_SH)
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("cannot create the guest: %w", err)
	}
	return c, nil
}

func (c *cache) Close() error { return c.lock.Close() }

func (c *cache) fill(ctx context.Context) error {
	if _, err := os.Stat(c.host); errors.Is(err, fs.ErrNotExist) {
		if err := c.fetch(ctx); err != nil {
			return err
		}
	}
	for pattern, at := range map[string]*string{"boot/vmlinuz-*": &c.kernel, "lib/modules/*": &c.modules} {
		found, err := filepath.Glob(filepath.Join(c.host, pattern))
		if err != nil || len(found) == 0 {
			return fmt.Errorf("no kernel at %s: remove the folder to fetch it again", filepath.Join(c.host, pattern))
		}
		*at = found[0]
	}
	// The checksum in the name changes if the kernel or a package in the list changes, because
	// the root file system must then be made again.
	c.root = filepath.Join(c.dir, fmt.Sprintf("root-%08x.img", crc32.ChecksumIEEE([]byte(rootPackages+filepath.Base(c.modules)))))
	if _, err := os.Stat(c.root); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old, err := filepath.Glob(filepath.Join(c.dir, "root*.img*"))
	for _, path := range old {
		err = errors.Join(err, os.Remove(path))
	}
	return errors.Join(err, c.makeRoot(ctx))
}

// fetch does not change the system: it unpacks the packages into the cache.
func (c *cache) fetch(ctx context.Context) error {
	fmt.Fprintln(os.Stderr, "guest: fetching QEMU and Debian's cloud kernel")
	names, err := packages(ctx)
	if err != nil {
		return err
	}
	work := c.host + ".new"
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	debs := filepath.Join(work, "debs")
	if err := os.MkdirAll(debs, 0o755); err != nil {
		return err
	}
	download := func() error {
		d := exec.CommandContext(ctx, "apt-get", append([]string{"download", "-q", "-o", "APT::Sandbox::User=root"}, names...)...)
		d.Dir = debs
		out, err := d.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("apt-get download: %w: %s", err, out)
		}
		return err
	}
	if err := download(); err != nil {
		// The host's package lists may be old, and name packages that the archive no longer
		// has.
		if _, uerr := output(ctx, "apt-get", "update", "-q"); uerr != nil {
			return errors.Join(err, uerr)
		}
		if err := download(); err != nil {
			return err
		}
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, err := output(ctx, "dpkg-deb", "-x", file, work); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(debs); err != nil {
		return err
	}
	return os.Rename(work, c.host)
}

// packages always includes the kernel, because the host may have its own kernel at another path.
func packages(ctx context.Context) ([]string, error) {
	depends, err := output(ctx, "apt-cache", "depends", "linux-image-cloud-amd64")
	if err != nil {
		return nil, fmt.Errorf("apt knows no package of a kernel; run apt-get update: %w", err)
	}
	_, kernel, found := strings.Cut(depends, "Depends: linux-image-")
	if !found {
		return nil, errors.New("the package linux-image-cloud-amd64 names no kernel")
	}
	names := []string{"linux-image-" + strings.Fields(kernel)[0]}
	plan, err := output(ctx, "apt-get", "-s", "install", "--no-install-recommends", "qemu-system-x86", "mmdebstrap")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(plan) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Inst" {
			names = append(names, f[1])
		}
	}
	return names, nil
}

// program returns the command for an installed program, or for one in the cache.
func (c *cache) program(ctx context.Context, name string, args ...string) *exec.Cmd {
	if path, err := exec.LookPath(name); err == nil {
		return exec.CommandContext(ctx, path, args...)
	}
	p := exec.CommandContext(ctx, filepath.Join(c.host, "usr/bin", name), args...)
	libraries := filepath.Join(c.host, "usr/lib/x86_64-linux-gnu") + ":" + filepath.Join(c.host, "lib/x86_64-linux-gnu")
	p.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries)
	return p
}

func (c *cache) makeRoot(ctx context.Context) error {
	fmt.Fprintln(os.Stderr, "guest: creating a root file system with Debian 12, which takes half a minute")
	dir, err := os.MkdirTemp("", "patchbay-guest-root")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root := filepath.Join(dir, "root")
	out, err := c.program(ctx, "mmdebstrap", "--variant=minbase", "--include="+rootPackages, "bookworm", root).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mmdebstrap: %w: %s", err, out[max(0, len(out)-2000):])
	}
	for _, name := range []string{"guest", "var/lib/patchbay-local"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return err
		}
	}
	// Copy all modules, so that the kernel can load those that a test needs.
	modules := filepath.Join(root, "lib/modules", filepath.Base(c.modules))
	if err := os.MkdirAll(filepath.Dir(modules), 0o755); err != nil {
		return err
	}
	if _, err := output(ctx, "cp", "-a", c.modules, modules); err != nil {
		return err
	}
	if _, err := output(ctx, "chroot", root, "depmod", filepath.Base(c.modules)); err != nil {
		return err
	}
	work := c.root + ".new"
	if _, err := output(ctx, "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", root, work, "2G"); err != nil {
		return err
	}
	return os.Rename(work, c.root)
}
