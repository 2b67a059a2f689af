package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/sandbox"
)

// diskTimeout bounds the wait for the disk's previous user.
const diskTimeout = 5 * time.Second

// outer is the first stage. It runs as root of the host in its own mount namespace,
// prepares the disk, starts inner and mounts the node's root.
func outer(s stage) error {
	input, err := s.readInput()
	if err != nil {
		return err
	}
	var disks []*os.File
	for _, path := range append([]string{input.Disk}, input.Data...) {
		disk, err := readyDisk(path, input.Repair)
		if err != nil {
			return err
		}
		defer disk.Close()
		disks = append(disks, disk)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot separate the mounts: %w", err)
	}
	// Opened before the tmpfs hides the paths of the node's state.
	program, err := cloneMount(input.Program, false)
	if err != nil {
		return err
	}
	if err := unix.Mount("assembly", input.Assembly, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=64k"); err != nil {
		return fmt.Errorf("cannot mount a tmpfs at %s: %w", input.Assembly, err)
	}
	if err := os.Chdir(input.Assembly); err != nil {
		return err
	}
	if err := sandbox.SetLimits(); err != nil { // this stage may still raise limits; the next one may not
		return err
	}
	next, err := startInner(s, input)
	if err != nil {
		return err
	}
	if err := next.mountRoot(s, input, disks, program); err != nil {
		next.cmd.Process.Kill()
		next.cmd.Wait()
		return err
	}
	return nil
}

// readyDisk opens the disk once it is unused, and repairs it if necessary.
func readyDisk(path string, repair bool) (*os.File, error) {
	disk, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), diskTimeout)
	defer cancel()
	err = lockDisk(ctx, disk)
	bad := repair
	if err == nil && !bad {
		bad, err = isUnclean(disk)
	}
	if err == nil && bad {
		err = repairDisk(context.Background(), disk)
	}
	if err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	return disk, nil
}

// nextStage is the inner stage, which waits for its input.
type nextStage struct {
	cmd   *exec.Cmd
	input *os.File
}

// startInner starts the second stage in the node's new namespaces. It waits there for its input.
func startInner(s stage, input stageInput) (nextStage, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nextStage{}, err
	}
	defer r.Close()
	mapped := []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(input.Spec.Base), Size: idCount}}
	cmd := &exec.Cmd{
		Path:       "/proc/self/exe",
		Args:       []string{Argv0, innerStage, strconv.Itoa(s.inherited)},
		Env:        os.Environ(),
		Stdout:     os.Stdout,
		Stderr:     os.Stderr,
		ExtraFiles: s.files(r),
		SysProcAttr: &syscall.SysProcAttr{
			Setsid:      true,
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
			UidMappings: mapped, GidMappings: mapped,
			GidMappingsEnableSetgroups: true, // su and useradd need it
			Credential:                 &syscall.Credential{},
		},
	}
	start := func() error {
		resetUptime()
		return cmd.Start()
	}
	if err := sandbox.WithNamespaceOwner(int(input.Spec.Base), start); err != nil {
		w.Close()
		return nextStage{}, fmt.Errorf("cannot create namespaces (sysctls such as user.max_user_namespaces may forbid it): %w", err)
	}
	return nextStage{cmd, w}, nil
}

// resetUptime sets the time since boot to zero for the processes that this thread starts
// next, and their descendants. It does not change CLOCK_MONOTONIC. If the kernel forbids the
// change, nodes show the host's uptime.
func resetUptime() {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil || unix.Unshare(unix.CLONE_NEWTIME) != nil {
		return
	}
	// The path needs this thread's id: /proc/self is the main thread, and /proc/thread-self
	// has no such file.
	os.WriteFile(fmt.Sprintf("/proc/%d/timens_offsets", unix.Gettid()), fmt.Appendf(nil, "boottime %d 0", -now.Sec), 0)
}

// mountRoot mounts the root of the node at ./node, and passes the input to the inner stage. The first
// of the disks is the node's own.
func (n nextStage) mountRoot(s stage, input stageInput, disks []*os.File, program int) error {
	pid := n.cmd.Process.Pid
	if err := s.sendReport(report{PID: pid}); err != nil {
		return err
	}
	users, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return err
	}
	defer users.Close()
	for _, dir := range []string{"disk", "root", "hosts-usr", "usr", "nothing", "node"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := mountDisk(disks[0], input.Spec); err != nil {
		return err
	}
	for i, disk := range disks[1:] {
		if err := mountData(disk, dataFolder(i), input.Spec.Base); err != nil {
			return err
		}
	}
	if err := freeSpare(); err != nil {
		return err
	}
	if err := mountImage(input.Spec.Image.Root, "root", users); err != nil {
		return err
	}
	if err := mountOverlay("root", "", "node"); err != nil {
		return err
	}
	if input.Spec.Image.Usr != "" {
		if err := mountImage(input.Spec.Image.Usr, "hosts-usr", users); err != nil {
			return err
		}
		if err := mountAsNobody("hosts-usr", "usr"); err != nil {
			return err
		}
		root, err := unix.Open("node", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		usr, err := openWithin(root, "usr", true)
		if err != nil {
			return err
		}
		if err := mountOverlay("usr", "usr-", fmt.Sprintf("/proc/self/fd/%d", usr)); err != nil {
			return err
		}
	}
	keepSpare()
	if err := mountProgram(program, users); err != nil {
		return err
	}
	defer n.input.Close()
	return json.NewEncoder(n.input).Encode(input)
}

// mountProgram mounts the folder of this executable at ./bin, read-only and as if the node
// owned it. So the setuid program sudo in the folder gives the rights of the node's root. The
// mount is an overlay without an upper layer, because a plain bind mount would show the
// folder's path on the host.
func mountProgram(folder int, users *os.File) error {
	defer unix.Close(folder)
	if err := limitMount(folder, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NODEV, users); err != nil {
		return err
	}
	for _, dir := range []string{"program", "bin"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.MoveMount(folder, "", unix.AT_FDCWD, "program", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	if err := unix.Mount("overlay", "bin", "overlay", unix.MS_RDONLY|unix.MS_NODEV, "lowerdir=nothing:program"); err != nil {
		return fmt.Errorf("cannot mount the executable: %w", err)
	}
	return nil
}

// limitMount maps the owners of the mount's files to the user namespace users, unless
// users is nil.
func limitMount(mount int, attributes uint64, users *os.File) error {
	attr := unix.MountAttr{Attr_set: attributes}
	if users != nil {
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(users.Fd())
	}
	return unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr)
}

// mountImage mounts a folder of an image read-only, and as if the node owned it.
func mountImage(path, target string, users *os.File) error {
	mount, err := cloneMount(path, false)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	if err := limitMount(mount, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NODEV, users); err != nil {
		return fmt.Errorf("the file system of %s does not support idmapped mounts, which nodes need: %w", path, err)
	}
	return unix.MoveMount(mount, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// mountAsNobody mounts the folder source at target. The mount gives access only to files that
// every user of the host can read.
//
// In a node, the node's root owns the host's /usr, so that sudo works. Without the restriction,
// root of the node could read files of mode 0600. An overlay opens its lower files with the
// rights of the process that mounted the overlay. So mountAsNobody mounts an overlay as user
// nobody, which becomes the lower folder of the node's own overlay. The kernel then checks the
// present mode of a file at each access. A list of the files to hide would take a second to create, and would
// miss files that are added later. A node can execute only files that it can read.
func mountAsNobody(source, target string) (err error) {
	const nobody = 65534
	// The change of the fsuid removes only the capabilities that override file modes, and only
	// from this thread.
	if _, err := unix.SetfsuidRetUid(nobody); err != nil {
		return err
	}
	defer func() {
		_, back := unix.SetfsuidRetUid(0)
		err = errors.Join(err, back)
	}()
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != nobody {
		return fmt.Errorf("cannot become nobody to mount /usr: user %d (%w)", now, err)
	}
	if err := unix.Mount("overlay", target, "overlay", unix.MS_RDONLY|unix.MS_NODEV, "lowerdir=nothing:"+source); err != nil {
		return fmt.Errorf("cannot restrict /usr to files that every user may read: %w", err)
	}
	return nil
}

// mountDisk mounts the disk at ./disk. The first time, it also creates the folders of the
// overlays, which the node's root owns. The option discard frees blocks on the host when the
// node removes files, because the node itself cannot trim its disk. It at most doubles the
// time to remove small files.
func mountDisk(disk *os.File, s Spec) error {
	if err := mountLoop(disk, "disk"); err != nil {
		return err
	}
	parts := []string{""}
	if s.Image.Usr != "" {
		parts = append(parts, "usr-")
	}
	for _, part := range parts {
		for _, dir := range []string{"disk/" + part + "upper", "disk/" + part + "work"} {
			if err := makeOwnedFolder(dir, s.Base); err != nil {
				return err
			}
		}
	}
	if s.Image.Usr != "" {
		return hideUsrLocal("disk/usr-upper/local", s.Base)
	}
	return nil
}

func mountLoop(disk *os.File, folder string) error {
	device, err := AttachLoop(disk)
	if err != nil {
		return err
	}
	defer device.Close()
	if err := unix.Mount(device.Name(), folder, "ext4", unix.MS_NODEV, "noinit_itable,errors=remount-ro,discard"); err != nil {
		return fmt.Errorf("cannot mount the disk %s: %w", disk.Name(), err)
	}
	return nil
}

// dataFolder returns the folder at which the outer stage mounts one of Spec.Disks. The inner stage
// mounts it again at its Path.
func dataFolder(i int) string { return dataPrefix + strconv.Itoa(i) }

// mountData mounts a disk. The node's root owns it, with the folder for files that e2fsck finds.
func mountData(disk *os.File, folder string, base uint32) error {
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	if err := mountLoop(disk, folder); err != nil {
		return err
	}
	for _, path := range []string{folder, folder + "/lost+found"} {
		var s unix.Stat_t
		if err := unix.Lstat(path, &s); err != nil || s.Uid != 0 {
			continue // changed by the node, which owns it since its first start
		}
		if err := os.Lchown(path, int(base), int(base)); err != nil {
			return err
		}
	}
	return nil
}

// spareFolder holds files that keep a few blocks and inodes of the disk, which the node cannot use.
// The kernel needs some to mount an overlay: on a full disk, the mount fails or is read-only.
const spareFolder = "disk/spare"

// freeSpare removes the spare files if the disk is full. The kernel reuses their blocks after it has
// written the disk.
func freeSpare() error {
	const enough = 64
	var s unix.Statfs_t
	if err := unix.Statfs("disk", &s); err != nil || s.Bavail > enough && s.Ffree > enough {
		return err
	}
	if err := os.RemoveAll(spareFolder); err != nil {
		return err
	}
	disk, err := os.Open("disk")
	if err != nil {
		return err
	}
	defer disk.Close()
	return unix.Syncfs(int(disk.Fd()))
}

// keepSpare creates the spare files, or fewer on a disk without space for all. They are this large
// because ext4 keeps a reserve for its metadata: if a part of it is used, that many blocks must be freed
// before anything else gets one.
func keepSpare() {
	const files, size = 8, 64 << 10
	_ = os.Mkdir(spareFolder, 0o700)
	for i := range files {
		f, err := os.OpenFile(filepath.Join(spareFolder, strconv.Itoa(i)), os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return
		}
		err = unix.Fallocate(int(f.Fd()), 0, 0, size)
		f.Close()
		if err != nil {
			return
		}
	}
}

// makeOwnedFolder creates a folder that the node's root owns, unless it exists.
func makeOwnedFolder(dir string, base uint32) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return os.Chown(dir, int(base), int(base))
}

// hideUsrLocal covers the host's /usr/local, which holds programs of the operators, with an
// empty one.
func hideUsrLocal(dir string, base uint32) error {
	if _, err := os.Lstat(dir); err == nil {
		return nil
	}
	const fresh = "disk/local" // renamed when complete
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	for _, sub := range []string{"", "/bin", "/etc", "/include", "/lib", "/sbin", "/share", "/src"} {
		if err := makeOwnedFolder(fresh+sub, base); err != nil {
			return err
		}
	}
	if err := unix.Setxattr(fresh, "trusted.overlay.opaque", []byte("y"), 0); err != nil {
		return err
	}
	return os.Rename(fresh, dir)
}

// mountOverlay puts the upper folder and the work folder on the disk; prefix is the prefix
// of both names. All paths are relative, so that the node's mountinfo shows no path of the
// host.
func mountOverlay(image, prefix, target string) error {
	options := "lowerdir=" + image + ",upperdir=disk/" + prefix + "upper,workdir=disk/" + prefix + "work,index=off,metacopy=off,redirect_dir=nofollow"
	if err := unix.Mount("overlay", target, "overlay", unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("cannot mount the disk over the image: %w", err)
	}
	return nil
}
