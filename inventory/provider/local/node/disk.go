package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// diskFile is the node's disk: a sparse file with an ext4 file system. The files of its other disks
// have the prefix dataPrefix and a number.
const (
	diskFile   = "disk.img"
	dataPrefix = "data-"
	freshDisk  = ".new" // suffix of a disk that is not complete
)

func dataFile(i int) string { return dataPrefix + strconv.Itoa(i) + ".img" }

// diskFiles returns the complete disks of a node, relative to the folder of all nodes.
func (h *Host) diskFiles(id string) (names []string, err error) {
	entries, err := fs.ReadDir(h.nodes.FS(), id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if name := e.Name(); name == diskFile || strings.HasPrefix(name, dataPrefix) && !strings.HasSuffix(name, freshDisk) {
			names = append(names, filepath.Join(id, name))
		}
	}
	return names, err
}

// diskReserve is the space in bytes that stays free for the host and for existing nodes, whose
// disks are not yet fully allocated.
const diskReserve = 1 << 30

// DiskLeft returns the free space of the disk that contains dir, and the reserve that new
// nodes must not use. Both are in bytes. The reserve is diskReserve, but at most a twentieth
// of the disk.
func DiskLeft(dir string) (left, reserve int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("cannot read the free disk space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, min(diskReserve, int64(st.Blocks)*st.Bsize/20), nil
}

// Prepare creates the node's folder and disk, unless the disk exists. It can be repeated
// after a crash.
func (h *Host) Prepare(ctx context.Context, s Spec) error {
	if err := s.check(); err != nil {
		return err
	}
	defer h.locks.lock(s.ID)()
	if err := h.nodes.Mkdir(s.ID, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot make the folder of node %s: %w", s.ID, err)
	}
	own := func(f *os.File) error {
		template, err := h.formattedDisk(ctx, s.Limits.Disk)
		if err != nil {
			return err
		}
		defer template.Close()
		return copySparse(f, template)
	}
	if err := h.prepareDisk(s.ID, diskFile, own); err != nil {
		return err
	}
	for i, d := range s.Disks { // of any size, so formatted disks are not kept
		err := h.prepareDisk(s.ID, dataFile(i), func(f *os.File) error { return format(ctx, f, d.Size) })
		if err != nil {
			return err
		}
	}
	return nil
}

// prepareDisk creates a disk of a node, unless it exists. The function fill writes its content.
func (h *Host) prepareDisk(id, name string, fill func(*os.File) error) error {
	disk := filepath.Join(id, name)
	if _, err := h.nodes.Lstat(disk); err == nil {
		return nil
	}
	fresh := disk + freshDisk
	if err := h.nodes.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := h.nodes.OpenFile(fresh, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	// Synced before the rename: a loss of power could otherwise leave an empty disk.
	if err := errors.Join(fill(f), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("cannot make the disk %s of node %s: %w", name, id, err)
	}
	if err := h.nodes.Rename(fresh, disk); err != nil {
		return err
	}
	dir, err := h.nodes.Open(id)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Format prepares an empty disk of size bytes, so that the first Prepare does not need to
// format one.
func (h *Host) Format(ctx context.Context, size int64) error {
	if err := checkDisk(size); err != nil {
		return err
	}
	f, err := h.formattedDisk(ctx, size)
	if err != nil {
		return err
	}
	return f.Close()
}

// formattedDisk opens an empty formatted disk of a size, to copy it. It formats only one disk of each size,
// because a copy takes a tenth of the time.
func (h *Host) formattedDisk(ctx context.Context, size int64) (*os.File, error) {
	name := filepath.Join(disksFolder, strconv.FormatInt(size, 10))
	h.disks.Lock()
	defer h.disks.Unlock()
	if f, err := h.state.Open(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	// A unique name, since mke2fs of a killed program may still be writing.
	fresh := name + "." + strconv.FormatInt(time.Now().UnixNano(), 36)
	f, err := h.state.OpenFile(fresh, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer h.state.Remove(fresh) // without effect after the rename
	defer f.Close()
	if err := format(ctx, f, size); err != nil {
		return nil, err
	}
	if err := h.state.Rename(fresh, name); err != nil {
		return nil, err
	}
	return h.state.Open(name)
}

// format makes a file system of size bytes in an empty file. It has a small journal, since a disk
// without one can be beyond repair after a loss of power, even if the host's file system has a
// journal. Inode tables and the journal are not initialized, and no blocks are reserved for root.
func format(ctx context.Context, f *os.File, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256", "-m", "0",
		"-O", "^resize_inode", "-J", "size=4", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,packed_meta_blocks=1",
		"/proc/self/fd/3")
	c.ExtraFiles = []*os.File{f}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot format a disk of %d bytes (mke2fs of the package e2fsprogs): %w: %.500s", size, err, out)
	}
	return nil
}

// sweepDisks removes the files that interrupted formatting has left.
func (h *Host) sweepDisks() error {
	entries, err := fs.ReadDir(h.state.FS(), disksFolder)
	for _, e := range entries {
		if _, bad := strconv.ParseInt(e.Name(), 10, 64); bad != nil {
			err = errors.Join(err, h.state.Remove(filepath.Join(disksFolder, e.Name())))
		}
	}
	return err
}

// copySparse copies only the written parts of a file. If the file system can clone files,
// both files share the blocks instead.
func copySparse(target, source *os.File) error {
	if unix.IoctlFileClone(int(target.Fd()), int(source.Fd())) == nil {
		return nil
	}
	info, err := source.Stat()
	if err != nil {
		return err
	}
	if err := target.Truncate(info.Size()); err != nil {
		return err
	}
	for at := int64(0); ; {
		start, err := unix.Seek(int(source.Fd()), at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return nil
		}
		if err != nil {
			return err
		}
		if at, err = unix.Seek(int(source.Fd()), start, unix.SEEK_HOLE); err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(target, start), io.NewSectionReader(source, start, at-start)); err != nil {
			return err
		}
	}
}

// lockDisk waits until no other process uses the disk. A loop device keeps the open file,
// and so the lock, until its last unmount. Loop devices of other programs have no lock. So
// lockDisk also tries a lease, which the kernel refuses while the file is open elsewhere.
func lockDisk(ctx context.Context, f *os.File) error {
	fd := f.Fd()
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			_, err = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_WRLCK)
			unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
			if err != unix.EAGAIN { // the disk is unused, or the file system has no leases
				return nil
			}
		}
		if err != unix.EAGAIN {
			return fmt.Errorf("cannot lock the disk %s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the disk %s is still in use (losetup -a shows its user): %w", f.Name(), ctx.Err())
		case <-time.After(pause):
		}
	}
}

// isUnclean reports whether the disk needs a check: its superblock shows errors, or no clean
// unmount. It fails if the disk has no ext4 file system.
func isUnclean(f *os.File) (bool, error) {
	const superblock, magicAt, stateAt, magic, valid, errorsFound = 1024, 0x38, 0x3a, 0xef53, 1, 2
	var b [4]byte
	if _, err := f.ReadAt(b[:], superblock+magicAt); err != nil {
		return false, err
	}
	if binary.LittleEndian.Uint16(b[:]) != magic {
		return false, fmt.Errorf("the disk %s has no file system: it was damaged by a crash of the host; remove the node", f.Name())
	}
	state := binary.LittleEndian.Uint16(b[stateAt-magicAt:])
	return state&valid == 0 || state&errorsFound != 0, nil
}

// repairDisk checks the disk and makes all safe repairs. If errors remain, it makes every
// repair that e2fsck suggests, since no operator could decide better.
func repairDisk(ctx context.Context, f *os.File) error {
	out, err := runFsck(ctx, f, "-p")
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode()&uncorrected != 0 {
		out, err = runFsck(ctx, f, "-y")
	}
	if err != nil {
		return fmt.Errorf("the disk %s cannot be repaired (e2fsck of the package e2fsprogs): %w: %.500s; remove the node", f.Name(), err, out)
	}
	return nil
}

// uncorrected is the bit of e2fsck's exit status for errors that remain. Lower bits mean
// corrected errors.
const uncorrected = 4

// runFsck takes the option -p for safe repairs, or -y for all repairs. Corrected errors
// count as success.
func runFsck(ctx context.Context, f *os.File, option string) ([]byte, error) {
	c := exec.CommandContext(ctx, "e2fsck", option, "-f", "/proc/self/fd/3")
	c.ExtraFiles = []*os.File{f}
	out, err := c.CombinedOutput()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() > 0 && ended.ExitCode() < uncorrected {
		err = nil
	}
	return out, err
}

// AttachLoop attaches the disk to a free loop device. The kernel detaches the disk when the
// last user closes the device.
func AttachLoop(disk *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("no loop devices (modprobe loop): %w", err)
	}
	defer control.Close()
	for range 200 {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("no free loop device: %w", err)
		}
		device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err == nil {
			err = unix.IoctlLoopConfigure(int(device.Fd()), &unix.LoopConfig{
				Fd: uint32(disk.Fd()), Size: 4096, Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR},
			})
			if err == nil {
				return device, nil
			}
			device.Close()
		}
		// Another process took the device first, or the device is still being created.
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENXIO) {
			return nil, fmt.Errorf("cannot use loop device %d: %w", n, err)
		}
		time.Sleep(time.Millisecond)
	}
	return nil, errors.New("no free loop device; the host may have reached its maximum")
}
