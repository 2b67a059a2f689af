package node

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// programInside is the path of this executable in a node.
const programInside = "/run/patchbay/bin/patchbay-local"

// terminals is the maximal number of pseudo-terminals of a node. Without this limit, one node
// could use up the pseudo-terminals of the host, which are a few thousand.
const terminals = "256"

// noPrograms are the attributes of mounts that hold no programs to execute.
const noPrograms = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC

func mountSystem(root int, s Spec) error {
	for _, f := range []func(int, Spec) error{mountDev, mountRun, mountProc, mountSys} {
		if err := f(root, s); err != nil {
			return err
		}
	}
	return nil
}

// mountDev mounts a tmpfs with harmless devices of the host.
func mountDev(root int, s Spec) error {
	if err := mountAt(root, "dev", "tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC,
		[2]string{"mode", "0755"}, [2]string{"size", "256k"}, [2]string{"nr_inodes", "256"}); err != nil {
		return err
	}
	dev, err := openWithin(root, "dev", true)
	if err != nil {
		return err
	}
	defer unix.Close(dev)
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if err := bindFile(dev, name, "/dev/"+name, 0o666); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd",
		"stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := unix.Symlinkat(target, dev, name); err != nil {
			return fmt.Errorf("cannot make /dev/%s: %w", name, err)
		}
	}
	if err := mountAt(dev, "pts", "devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC,
		[2]string{"newinstance", ""}, [2]string{"ptmxmode", "0666"}, [2]string{"mode", "0620"}, [2]string{"gid", "5"}, [2]string{"max", terminals}); err != nil {
		return err
	}
	size := int64(256 << 20)
	if s.Limits.Memory > 0 {
		size = s.Limits.Memory / 2
	}
	return mountAt(dev, "shm", "tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV,
		[2]string{"mode", "1777"}, [2]string{"size", strconv.FormatInt(size, 10)})
}

// mountRun mounts an empty /run with the executable.
func mountRun(root int, s Spec) error {
	if err := mountAt(root, "run", "tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV,
		[2]string{"mode", "0755"}, [2]string{"size", "32m"}, [2]string{"nr_inodes", "16k"}); err != nil {
		return err
	}
	for _, dir := range []struct {
		path string
		mode uint32
	}{{"run/lock", 0o1777}, {"run/patchbay", 0o755}} {
		if err := unix.Mkdirat(root, dir.path, dir.mode); err != nil {
			return err
		}
	}
	program, err := cloneMount("bin", false)
	if err != nil {
		return err
	}
	return moveMountWithin(program, root, path.Dir(programInside)[1:], true)
}

// mountProc mounts /proc without files that describe the host or access its memory. Files
// that the host's root owns are read-only for the node anyway.
func mountProc(root int, s Spec) error {
	if err := mountAt(root, "proc", "proc", noPrograms); err != nil {
		return err
	}
	if err := limitSysctls(root); err != nil {
		return err
	}
	return hidePaths(root, []string{
		"proc/cmdline", "proc/config.gz", "proc/diskstats", "proc/kallsyms", "proc/kcore", "proc/keys", "proc/kmsg", "proc/kpagecgroup", "proc/kpagecount",
		"proc/kpageflags", "proc/latency_stats", "proc/partitions", "proc/sched_debug", "proc/sysrq-trigger", "proc/timer_list",
		"proc/acpi", "proc/asound", "proc/bus", "proc/driver", "proc/fs", "proc/irq", "proc/pressure", "proc/scsi",
	})
}

// mountSys mounts /sys read-only, with processors, memory nodes and network devices. It hides
// buses, internals, and the host's disks, whose names would reveal other nodes.
func mountSys(root int, s Spec) error {
	if err := mountAt(root, "sys", "sysfs", noPrograms|unix.MOUNT_ATTR_RDONLY); err != nil {
		return err
	}
	if err := keepOnly(root, "sys/devices", "system/cpu", "system/node", "virtual/net"); err != nil {
		return err
	}
	if err := keepOnly(root, "sys/class", "net"); err != nil {
		return err
	}
	return hidePaths(root, []string{
		"sys/block", "sys/bus", "sys/dev", "sys/firmware", "sys/fs", "sys/hypervisor", "sys/kernel/boot_params", "sys/kernel/config", "sys/kernel/debug",
		"sys/kernel/iommu_groups", "sys/kernel/irq", "sys/kernel/security", "sys/kernel/tracing", "sys/kernel/vmcoreinfo", "sys/power",
	})
}

// keepOnly hides all files and folders in a folder below root, except the paths in names. Files
// that the kernel adds later are hidden, too.
func keepOnly(root int, folder string, names ...string) error {
	cover, err := newMount("tmpfs", noPrograms, [2]string{"mode", "0555"}, [2]string{"size", "4k"}, [2]string{"nr_inodes", "16"})
	if err != nil {
		return err
	}
	mounts := map[string]int{}
	for _, name := range names {
		mount, err := cloneMountWithin(root, path.Join(folder, name))
		if err == unix.ENOENT { // this kernel has no such file
			continue
		}
		if err == nil {
			mounts[name] = mount
			err = mkdirAll(cover, name)
		}
		if err != nil {
			return fmt.Errorf("cannot mount /%s/%s again: %w", folder, name, err)
		}
	}
	if err := limitMount(cover, unix.MOUNT_ATTR_RDONLY, nil); err != nil {
		return err
	}
	if err := moveMountWithin(cover, root, folder, true); err != nil {
		return err
	}
	for name, mount := range mounts {
		if err := moveMountWithin(mount, root, path.Join(folder, name), true); err != nil {
			return err
		}
	}
	return nil
}

func mkdirAll(root int, name string) error {
	if dir := path.Dir(name); dir != "." {
		if err := mkdirAll(root, dir); err != nil {
			return err
		}
	}
	if err := unix.Mkdirat(root, name, 0o555); err != unix.EEXIST {
		return err
	}
	return nil
}

// hidePaths covers the paths that exist: it mounts /dev/null over files, and an empty folder
// over folders.
func hidePaths(root int, paths []string) error {
	empty, err := newMount("tmpfs", noPrograms|unix.MOUNT_ATTR_RDONLY, [2]string{"mode", "0555"}, [2]string{"size", "4k"}, [2]string{"nr_inodes", "1"})
	if err != nil {
		return err
	}
	defer unix.Close(empty)
	placed := false
	for _, path := range paths {
		at, err := unix.Openat2(root, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
		if err == unix.ENOENT || err == unix.ENOTDIR {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot hide /%s: %w", path, err)
		}
		err = hidePath(at, empty, &placed)
		unix.Close(at)
		if err != nil {
			return fmt.Errorf("cannot hide /%s: %w", path, err)
		}
	}
	return nil
}

// hidePath covers the open file or folder target. It attaches the mount empty to the first
// folder and sets *placed. To later folders it attaches clones of empty.
func hidePath(target, empty int, placed *bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(target, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		null, err := cloneMount("/dev/null", false)
		if err != nil {
			return err
		}
		return moveMount(null, target)
	}
	if !*placed { // older kernels clone only attached mounts
		*placed = true
		return unix.MoveMount(empty, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	}
	again, err := unix.OpenTree(empty, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	return moveMount(again, target)
}

func mountAt(root int, path, kind string, attributes int, options ...[2]string) error {
	mount, err := newMount(kind, attributes, options...)
	if err != nil {
		return err
	}
	return moveMountWithin(mount, root, path, true)
}

// bindFile creates a file at path, and mounts source, a file of the host, over the new
// file.
func bindFile(root int, path, source string, mode uint32) error {
	mount, err := cloneMount(source, false)
	if err != nil {
		return err
	}
	fd, err := unix.Openat(root, path, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		unix.Close(mount)
		return fmt.Errorf("cannot make /%s in the node: %w", path, err)
	}
	unix.Close(fd)
	return moveMountWithin(mount, root, path, false)
}

// mountDisks mounts the disks at their paths, those of shorter paths first. A disk that cannot be
// mounted, since the node has a link or a file in its way, is left out and noted in the node's log:
// so the node's users can log in and repair that.
func mountDisks(root int, disks []Disk) error {
	order := make([]int, len(disks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(disks[a].Path) - len(disks[b].Path) })
	for _, i := range order {
		mount, err := cloneMount(dataFolder(i), false)
		if err != nil {
			return err
		}
		names := strings.Split(disks[i].Path[1:], "/")
		for n := 1; n < len(names) && err == nil; n++ {
			var fd int
			if fd, err = openWithin(root, path.Join(names[:n]...), true); err == nil {
				unix.Close(fd)
			}
		}
		if err == nil {
			err = moveMountWithin(mount, root, path.Join(names...), true)
		} else {
			unix.Close(mount)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "the disk for %q is not mounted: %v\n", disks[i].Path, err)
		}
	}
	return nil
}
