package netspace

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ownNamespace is the path of the calling thread's network namespace.
const ownNamespace = "/proc/thread-self/ns/net"

// Inside calls f on a thread in a network namespace, and returns the error of f. space is
// the open namespace; nil means a new one. The thread ends with f. Inside does not use the
// main thread, which cannot end.
func Inside(space *os.File, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: a locked thread ends with its goroutine
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			done <- Inside(space, f) // f runs on another thread, because this goroutine holds the main thread
			return
		}
		var err error
		if space == nil {
			err = unix.Unshare(unix.CLONE_NEWNET)
		} else {
			err = unix.Setns(int(space.Fd()), unix.CLONE_NEWNET)
		}
		switch {
		case err == nil:
			err = f()
		case space == nil:
			err = fmt.Errorf("cannot make a network namespace: %w", err)
		default:
			err = fmt.Errorf("cannot enter the network namespace %s: %w", space.Name(), err)
		}
		done <- err
	}()
	return <-done
}

// New creates a namespace and opens it. The namespace exists as long as the file is open or
// a process uses the namespace.
func New() (f *os.File, err error) {
	err = Inside(nil, func() error {
		f, err = os.Open(ownNamespace)
		return err
	})
	return f, err
}

// Make opens the namespace that is mounted at path, or creates one there.
func Make(path string) (*os.File, error) {
	if f, err := Open(path); !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot create the mount point of a network namespace: %w", err)
	}
	f.Close()
	err = Inside(nil, func() error {
		if err := unix.Mount(ownNamespace, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cannot keep a network namespace at %s: %w", path, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return Open(path)
}

// Open opens the namespace that is mounted at path. The error wraps fs.ErrNotExist if the
// file is missing or nothing is mounted on it. A mount does not survive a reboot, or the end of
// its mount namespace.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open a network namespace: %w", err)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot check %s: %w", path, err), f.Close())
	}
	if st.Type != unix.NSFS_MAGIC {
		return nil, errors.Join(fs.ErrNotExist, f.Close())
	}
	return f, nil
}

// Remove unmounts the namespace at path, however often it is mounted, and removes the
// file.
func Remove(path string) error {
	for {
		f, err := Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return err
		}
		f.Close()
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("cannot unmount the network namespace at %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the mount point of a network namespace: %w", err)
	}
	return nil
}

// Equal reports whether two files are the same namespace.
func Equal(a, b *os.File) bool {
	x, err1 := a.Stat()
	y, err2 := b.Stat()
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// List returns the result of read, which reads a list from the kernel. If the list changed
// meanwhile, List calls read again, at most ten times in all. objects is the plural noun for
// the list's members in the error.
func List[T any](objects string, read func() ([]T, error)) ([]T, error) {
	const times = 10
	for try := 1; ; try++ {
		list, err := read()
		if err == nil {
			return list, nil
		}
		if !errors.Is(err, netlink.ErrDumpInterrupted) || try == times {
			return nil, fmt.Errorf("cannot list the %s of a network namespace: %w", objects, err)
		}
	}
}

// IPNet converts a prefix for the netlink library.
func IPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
