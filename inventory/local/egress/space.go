package egress

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// inside calls f on a thread that is in the network namespace, nil for a new one,
// and ends with f. The main thread would not end, and is passed by.
func inside(space *os.File, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: a thread that is locked ends with its goroutine
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			done <- inside(space, f) // while this holds the main thread, it goes elsewhere
			return
		}
		var err error
		if space == nil {
			err = unix.Unshare(unix.CLONE_NEWNET)
		} else {
			err = unix.Setns(int(space.Fd()), unix.CLONE_NEWNET)
		}
		if err != nil {
			done <- fmt.Errorf("cannot enter a network namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

// pinned opens the namespace that is mounted at path, or makes one there.
func pinned(path string) (*os.File, error) {
	if f, err := pin(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	f.Close()
	err = inside(nil, func() error {
		return unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "", unix.MS_BIND, "")
	})
	if err != nil {
		return nil, fmt.Errorf("cannot keep a network namespace at %s: %w", path, err)
	}
	return pin(path)
}

// pin opens the namespace that is mounted at path. A file without one, as a boot
// leaves it, is fs.ErrNotExist.
func pin(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if st.Type != unix.NSFS_MAGIC {
		return nil, errors.Join(fs.ErrNotExist, f.Close())
	}
	return f, nil
}

// unpin ends what pinned keeps at path.
func unpin(path string) error {
	for {
		f, err := pin(path)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return err
		}
		f.Close()
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("cannot unmount %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// kernel sets values below /proc/sys/net, which are those of the namespace of the
// calling thread.
func kernel(values ...[2]string) error {
	for _, v := range values {
		if err := os.WriteFile("/proc/sys/net/"+v[0], []byte(v[1]), 0); err != nil {
			return fmt.Errorf("cannot set net/%s to %s: %w", v[0], v[1], err)
		}
	}
	return nil
}
