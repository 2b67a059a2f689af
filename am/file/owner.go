package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// config is the file that marks the folder of a site.
const config = "patchbay.yaml"

// OwnerOf returns the user and the group that must own the files that root writes in the folder
// dir. In a site, this is the owner of the site's folder. Outside of sites, and in a site of
// root, it is the owner of dir. If dir is missing, it is the owner of the next folder above
// that exists. OwnerOf follows no symbolic links, except links of root in a folder of root.
func OwnerOf(dir string) (uid, gid int, err error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return 0, 0, err
	}
	const flags = unix.O_PATH | unix.O_CLOEXEC
	at, err := unix.Open("/", flags, 0)
	if err != nil {
		return 0, 0, &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	defer func() { unix.Close(at) }()
	inSite := false
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name == "" {
			break // it is the root folder
		}
		next, info, err := open(at, name, flags|unix.O_NOFOLLOW)
		isLink := err == nil && info.Mode&unix.S_IFMT == unix.S_IFLNK
		if isLink && info.Uid == 0 && uid == 0 {
			unix.Close(next)
			next, info, err = open(at, name, flags)
			isLink = false
		}
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EACCES):
			return uid, gid, nil // a later write there reports the error
		case err != nil:
			return 0, 0, &fs.PathError{Op: "open", Path: dir, Err: err}
		}
		unix.Close(at)
		at = next
		isSite := unix.Fstatat(at, config, new(unix.Stat_t), unix.AT_SYMLINK_NOFOLLOW) == nil
		isOwner := isSite || !inSite && !isLink || uid == 0 // else the site's owner, or that of the link's folder, counts
		if isOwner {
			uid, gid = int(info.Uid), int(info.Gid)
		}
		if isLink {
			break // its owner could point it at any folder
		}
		inSite = inSite || isSite
	}
	return uid, gid, nil
}

func open(dirFD int, name string, flags int) (fd int, info unix.Stat_t, err error) {
	if fd, err = unix.Openat(dirFD, name, flags, 0); err != nil {
		return -1, info, err
	}
	if err = unix.Fstat(fd, &info); err != nil {
		unix.Close(fd)
	}
	return fd, info, err
}

// OwnerFolder returns the folder of a file, for AsOwner. If the process writes there with its own
// rights and the file is a symbolic link, OwnerFolder returns the folder of the link's target.
func OwnerFolder(file string) string {
	if _, _, ok, err := OtherOwner(filepath.Dir(file)); ok || err != nil {
		return filepath.Dir(file)
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	return filepath.Dir(file)
}

// OtherOwner returns the user and the group that OwnerOf returns for dir. ok is true if the process
// is root and that user is not root.
func OtherOwner(dir string) (uid, gid int, ok bool, err error) {
	if os.Geteuid() != 0 {
		return 0, 0, false, nil
	}
	uid, gid, err = OwnerOf(dir)
	return uid, gid, uid != 0, err
}

// AsOwner calls f, which writes in the folder dir. If the process is root and another user
// owns the files there, the kernel applies that user's rights to f's file operations:
// new files belong to that user, and forbidden ones fail. This holds only for the
// goroutine of f, which is not the caller's, and not for programs that f starts.
func AsOwner(dir string, f func() error) error {
	uid, gid, ok, err := OtherOwner(dir)
	if err != nil {
		return err
	}
	if !ok {
		return f()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
		if err := become(uid, gid); err != nil {
			done <- err
			return
		}
		err := f()
		if errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w; root writes in %s with the rights of its owner, user %d, who lacks this right; see the owners and modes there", err, dir, uid)
		}
		done <- err
	}()
	return <-done
}

// become makes the kernel apply a user's file rights to this thread.
func become(uid, gid int) error {
	// This drops root's groups, for this thread alone. An error is ignored: where the call is
	// forbidden, in user namespaces, these groups give no rights.
	_, _, _ = syscall.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0)
	_, _ = unix.SetfsgidRetGid(gid)
	_, _ = unix.SetfsuidRetUid(uid)
	// Both calls return the previous id, and never an error. So the ids are read back.
	if g, _ := unix.SetfsgidRetGid(-1); g != gid {
		return fmt.Errorf("root cannot write as group %d", gid)
	}
	if u, _ := unix.SetfsuidRetUid(-1); u != uid {
		return fmt.Errorf("root cannot write as user %d", uid)
	}
	return nil
}
