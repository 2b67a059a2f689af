package setup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// diskFileSystem is the file system of all disks. Its content is the node's, but only the kernel
// writes its structure, so it is safe for the host.
const diskFileSystem = "ext4"

const (
	minDiskMiB  = 16
	maxDiskPath = 255
)

// A disk must not hide what the image or the testbed needs. Nothing can be mounted at the folders in
// systemFolders, nor below those in kernelFolders.
var (
	systemFolders = []string{"/", "/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/root", "/sbin", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/usr/share", "/var", "/var/lib", "/var/lib/patchbay"}
	kernelFolders = []string{"/dev", "/proc", "/run", "/sys"}
)

func checkDisk(s *Step) error {
	at := s.InstallPath
	switch {
	case s.Operation != "":
		return fmt.Errorf("a step of kind %s has no operation", Disk)
	case s.FileSystem == "swap":
		return unsupportedError{errors.New("a container cannot swap to a disk of its own; leave the disk out, and ask for more memory")}
	case s.FileSystem != diskFileSystem:
		return unsupportedError{fmt.Errorf("the file system %.40q is not possible here; use %s, or none for the default", s.FileSystem, diskFileSystem)}
	case s.URL != "":
		return unsupportedError{errors.New("a disk cannot be the copy of an image; leave its image out, and install the files")}
	case s.Size < minDiskMiB:
		return fmt.Errorf("a disk of %d MiB is too small; it needs at least %d", s.Size, minDiskMiB)
	case !path.IsAbs(at) || path.Clean(at) != cmp.Or(strings.TrimRight(at, "/"), "/") || len(at) > maxDiskPath:
		return fmt.Errorf("the mount point %.80q of a disk is not an absolute path of at most %d bytes, such as /data", at, maxDiskPath)
	case slices.Contains(systemFolders, path.Clean(at)) || slices.ContainsFunc(kernelFolders, func(f string) bool { return strings.HasPrefix(path.Clean(at)+"/", f+"/") }):
		return fmt.Errorf("a disk at %s would hide files of the system; choose another mount point, such as /data", at)
	}
	return nil
}

// verifyDisk reports whether the testbed has mounted the disk, which it does when the node starts.
func (o *Assignment) verifyDisk(l *log) Report {
	device := func(path string) (uint64, error) {
		stat, err := os.Lstat(path)
		if err != nil {
			return 0, err
		}
		if !stat.IsDir() {
			return 0, &fs.PathError{Op: "mount", Path: path, Err: syscall.ENOTDIR}
		}
		return stat.Sys().(*syscall.Stat_t).Dev, nil
	}
	at := path.Clean(o.InstallPath)
	own, err := device(at)
	above, errAbove := device(path.Dir(at))
	if err = errors.Join(err, errAbove); err == nil && own == above {
		err = errors.New("nothing is mounted there")
	}
	if err != nil {
		return l.failure(1, fmt.Errorf("there is no disk at %s: a link or a file of the image may be in its way: %w", at, err))
	}
	l.note("a disk of %d MiB with %s is mounted at %s", o.Size, o.FileSystem, at)
	return Report{State: Done, Output: l.end()}
}
