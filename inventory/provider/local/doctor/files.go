package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/image"
	"patchbay/inventory/provider/local/node"
)

func ownMounts() *syscall.SysProcAttr { return &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS} }

func tryOverlay(ctx context.Context, b *resources) (string, *trouble) {
	dir, t := b.scratch()
	if t != nil {
		return "", t
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ns, end, t := probeUserNamespace(ctx)
	if t != nil {
		return "", t
	}
	defer end()
	return probe(ctx, ownMounts(), []*os.File{ns}, "overlay", dir)
}

// mountShifted mounts path read-only at target, where the user namespace in descriptor
// 3 maps the owners of the files.
func mountShifted(path, target string) *trouble {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		remedy := container
		if errors.Is(err, unix.ENOSYS) {
			remedy = "use a newer kernel: nodes need open_tree, mount_setattr and overlays on idmapped mounts, as Debian 12 has them"
		}
		return failedTo("mount "+path+" a second time", err, remedy)
	}
	defer unix.Close(fd)
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_RDONLY, Userns_fd: 3})
	if err != nil {
		remedy := container
		switch {
		case errors.Is(err, unix.EINVAL):
			remedy = "put it on a file system that can shift owners, such as ext4, xfs or btrfs (df -T " + path + " names the present one)"
		case errors.Is(err, unix.ENOSYS):
			remedy = "use a newer kernel: nodes need mount_setattr, as Debian 12 has it"
		}
		return failedTo("shift the owners of "+path, err, remedy)
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return failedTo("mount "+path+" with other owners", err, container)
	}
	return nil
}

// probeOverlay mounts overlays below the folder in its argument, and checks the owners of
// files that are read and written through them.
func probeOverlay(args []string) (string, *trouble) {
	dir := filepath.Join(args[0], "overlay")
	for _, d := range []string{"", "lower", "shifted", "usr", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return "", failedTo("make a folder", err, "make room on the disk: df "+args[0])
		}
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	file := path("lower/file")
	if err := errors.Join(os.WriteFile(file, []byte("one"), 0o644), os.Chown(file, 1000, 1000),
		os.Chown(path("upper"), base, base), os.Chown(path("work"), base, base)); err != nil {
		return "", failedTo("give a file another owner", err, "put the state on a file system that keeps owners, such as ext4: patchbay-local up --state DIR SETTINGS")
	}
	if t := mountShifted(path("lower"), path("shifted")); t != nil {
		return "", t
	}
	if t := mountShifted("/usr", path("usr")); t != nil {
		return "", t
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", path("shifted"), path("upper"), path("work"))
	if err := unix.Mount("overlay", path("merged"), "overlay", unix.MS_NODEV, options); err != nil {
		switch {
		case errors.Is(err, unix.ENODEV):
			return "", failedTo("mount an overlay", err, "modprobe overlay")
		case errors.Is(err, unix.EINVAL):
			return "", failedTo("mount an overlay on files with shifted owners", err, "use a newer kernel, such as Debian 12's, and a state folder that is no overlay itself (df -T "+args[0]+")")
		}
		return "", failedTo("mount an overlay", err, container)
	}
	owner := func(name string) (uint32, error) {
		var st unix.Stat_t
		err := unix.Lstat(path(name), &st)
		return st.Uid, err
	}
	const wrong = "use a newer kernel, such as Debian 12's"
	if uid, err := owner("merged/file"); err != nil || uid != base+1000 {
		return "", &trouble{fmt.Sprintf("through an overlay a file of user 1000 belongs to %d instead of %d (%v)", uid, base+1000, err), wrong}
	}
	if err := os.WriteFile(path("merged/file"), []byte("two"), 0o644); err != nil {
		return "", failedTo("write through an overlay", err, wrong)
	}
	if uid, err := owner("upper/file"); err != nil || uid != base+1000 {
		return "", &trouble{fmt.Sprintf("a file that was written through an overlay belongs to %d instead of %d (%v)", uid, base+1000, err), wrong}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "one" {
		return "", &trouble{"a write through an overlay changed the file below it", wrong}
	}
	return "overlays on files with shifted owners work, also on /usr", nil
}

func tryDisk(ctx context.Context, b *resources) (string, *trouble) {
	for _, name := range []string{"mke2fs", "e2fsck"} {
		if _, err := exec.LookPath(name); err != nil {
			return "", &trouble{"the program " + name + " is not installed; it is needed to format and check the disks of nodes", "apt install e2fsprogs"}
		}
	}
	dir, t := b.scratch()
	if t != nil {
		return "", t
	}
	return probe(ctx, ownMounts(), nil, "disk", dir)
}

const diskSize = 8 << 20

// probeDisk formats and mounts a file below the folder in its argument, writes more than
// fits, and checks the file system.
func probeDisk(args []string) (string, *trouble) {
	path, at := filepath.Join(args[0], "disk"), filepath.Join(args[0], "mounted")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(f.Truncate(diskSize), os.Mkdir(at, 0o700))
	}
	if err != nil {
		return "", failedTo("make a file with holes", err, "make room, or choose another folder: patchbay-local up --state DIR SETTINGS")
	}
	defer f.Close()
	device, err := node.AttachLoop(f)
	if err != nil {
		remedy := "modprobe loop; and list the loop devices in use: losetup -l"
		if forbidden(err) {
			remedy = container
		}
		return "", failedTo("use a file as a disk", err, remedy)
	}
	if out, err := exec.Command("mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-O", "^has_journal", "-m", "0", device.Name()).CombinedOutput(); err != nil {
		device.Close()
		return "", &trouble{fmt.Sprintf("mke2fs cannot format a disk: %v: %.300s", err, out), "apt install --reinstall e2fsprogs"}
	}
	if err := unix.Mount(device.Name(), at, "ext4", unix.MS_NODEV|unix.MS_NOSUID, ""); err != nil {
		device.Close()
		remedy := container
		if errors.Is(err, unix.ENODEV) {
			remedy = "modprobe ext4"
		}
		return "", failedTo("mount a file as a disk", err, remedy)
	}
	device.Close() // the mount keeps the loop device open
	filled := os.WriteFile(filepath.Join(at, "full"), make([]byte, 2*diskSize), 0o600)
	if err := unix.Unmount(at, 0); err != nil {
		return "", failedTo("unmount a disk", err, container)
	}
	if !errors.Is(filled, unix.ENOSPC) {
		return "", &trouble{fmt.Sprintf("a disk of %d MiB took more than that (%v)", diskSize>>20, filled), "use another kernel"}
	}
	if out, err := exec.Command("e2fsck", "-fn", path).CombinedOutput(); err != nil {
		return "", &trouble{fmt.Sprintf("e2fsck finds errors on a new disk: %v: %.300s", err, out), "check the disk of this host: dmesg"}
	}
	return "files can be mounted as disks of limited size", nil
}

func tryUsr(context.Context, *resources) (string, *trouble) {
	if err := image.CheckMerged("/"); err != nil {
		return "", &trouble{err.Error(), "apt install usrmerge"}
	}
	return "nodes can share /usr of this host", nil
}
