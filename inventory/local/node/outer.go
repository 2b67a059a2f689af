package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/sandbox"
)

// diskTimeout is how long a disk may take to be free of its last user.
const diskTimeout = 5 * time.Second

// outer has the rights of root on the host, in a mount name space of its own.
func outer(s stage) error {
	input, err := s.readInput()
	if err != nil {
		return err
	}
	disk, err := readyDisk(input)
	if err != nil {
		return err
	}
	defer disk.Close()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot separate the mounts: %w", err)
	}
	// Opened by name before the tmpfs, for names of the node's state must not
	// be needed after it.
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
	if err := sandbox.SetLimits(); err != nil { // here, where they can be raised
		return err
	}
	next, err := startInner(s, input)
	if err != nil {
		return err
	}
	if err := next.mountRoot(s, input, disk, program); err != nil {
		next.cmd.Process.Kill()
		next.cmd.Wait()
		return err
	}
	return nil
}

// readyDisk opens the disk when nobody has it any more, in order.
func readyDisk(input stageInput) (*os.File, error) {
	disk, err := os.OpenFile(input.Disk, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), diskTimeout)
	defer cancel()
	err = lockDisk(ctx, disk)
	bad := input.Repair
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

// nextStage is the inner stage, which waits for its order.
type nextStage struct {
	cmd   *exec.Cmd
	input *os.File
}

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
	if err := sandbox.Charged(int(input.Spec.Base), start); err != nil {
		w.Close()
		return nextStage{}, fmt.Errorf("cannot make name spaces (sysctl user.max_user_namespaces and the like may forbid them): %w", err)
	}
	return nextStage{cmd, w}, nil
}

// resetUptime makes the time since the boot begin now for what this thread starts next,
// and what descends from that. CLOCK_MONOTONIC stays the host's. Where the kernel
// forbids it, nodes show the host's uptime.
func resetUptime() {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil || unix.Unshare(unix.CLONE_NEWTIME) != nil {
		return
	}
	// By the number of this thread: /proc/self is another, and thread-self has no such file.
	os.WriteFile(fmt.Sprintf("/proc/%d/timens_offsets", unix.Gettid()), fmt.Appendf(nil, "boottime %d 0", -now.Sec), 0)
}

// mountRoot makes the root of the node at ./node and hands on the order.
func (n nextStage) mountRoot(s stage, input stageInput, disk *os.File, program int) error {
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
	if err := mountDisk(disk, input.Spec); err != nil {
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
	if err := mountProgram(program, users); err != nil {
		return err
	}
	defer n.input.Close()
	return json.NewEncoder(n.input).Encode(input)
}

// mountProgram mounts the folder of this program at ./bin, read-only, as if the
// node owned it: so its sudo gives the rights of the node's root. It is an
// overlay with nothing over it, for the list of mounts tells where on the host
// another mount of a folder is from.
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
		return fmt.Errorf("cannot mount this program: %w", err)
	}
	return nil
}

// limitMount sets attributes of a mount and maps its owners to users, if given.
func limitMount(mount int, attributes uint64, users *os.File) error {
	attr := unix.MountAttr{Attr_set: attributes}
	if users != nil {
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(users.Fd())
	}
	return unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr)
}

// mountImage mounts a part of an image, read-only, as if the node owned it.
func mountImage(path, at string, users *os.File) error {
	mount, err := cloneMount(path, false)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	if err := limitMount(mount, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NODEV, users); err != nil {
		return fmt.Errorf("the file system of %s cannot be shown to nodes as their own (idmapped mounts): %w", path, err)
	}
	return unix.MoveMount(mount, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// mountAsNobody mounts the folder at from again at the path at, for reading what every
// user of the host may read.
//
// Root of the node owns the host's /usr there, so that sudo works, and could read
// files of mode 0600. But an overlay opens the files below it with the rights of the
// process that mounted it. This one is mounted by a user who owns nothing; the
// node's overlay lies over it. So the kernel decides at each access, by the mode
// that the file has then. A list of such files would take a second to make and not
// know those that are added later. What a node cannot read, it cannot run either.
func mountAsNobody(from, at string) (err error) {
	const nobody = 65534
	// Takes the capabilities that override modes from this thread, and no others.
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
	if err := unix.Mount("overlay", at, "overlay", unix.MS_RDONLY|unix.MS_NODEV, "lowerdir=nothing:"+from); err != nil {
		return fmt.Errorf("cannot limit /usr to what everybody may read: %w", err)
	}
	return nil
}

// mountDisk mounts the disk at ./disk and, the first time, makes the folders of
// the overlays: their owner becomes that of the node's root. With discard, blocks
// that are freed there are freed on the host, too: removing small files takes less
// than twice the time, and the host need not trim the disk, as the node may not.
func mountDisk(disk *os.File, s Spec) error {
	device, err := AttachLoop(disk)
	if err != nil {
		return err
	}
	defer device.Close()
	if err := unix.Mount(device.Name(), "disk", "ext4", unix.MS_NODEV, "noinit_itable,errors=remount-ro,discard"); err != nil {
		return fmt.Errorf("cannot mount the disk %s: %w", disk.Name(), err)
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

// makeOwnedFolder makes a folder of the node's root, unless it is there.
func makeOwnedFolder(dir string, base uint32) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return os.Chown(dir, int(base), int(base))
}

// hideUsrLocal puts an empty /usr/local before that of the host, where operators
// keep programs of their own.
func hideUsrLocal(dir string, base uint32) error {
	if _, err := os.Lstat(dir); err == nil {
		return nil
	}
	const fresh = "disk/local" // not seen by the node until it is whole
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

// mountOverlay mounts, at path at, the folder of the image under that of the disk.
// Names are relative, so that the node's list of mounts tells nothing of the
// host.
func mountOverlay(image, part, at string) error {
	options := "lowerdir=" + image + ",upperdir=disk/" + part + "upper,workdir=disk/" + part + "work,index=off,metacopy=off,redirect_dir=nofollow"
	if err := unix.Mount("overlay", at, "overlay", unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("cannot lay the disk over the image: %w", err)
	}
	return nil
}
