package fabric

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// pinned tells whether a network namespace is mounted at path. After a boot the
// file is there without one, and so it is where the mount went with somebody's
// mount namespace.
func pinned(path string) (bool, error) {
	var s unix.Statfs_t
	switch err := unix.Statfs(path, &s); {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cannot look at %s: %w", path, err)
	}
	return s.Type == unix.NSFS_MAGIC, nil
}

// pin makes a network namespace and mounts it at path.
func pin(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("cannot make the place of a network namespace: %w", err)
	}
	f.Close()
	return apart(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("cannot make a network namespace: %w", err)
		}
		if err := quiet(); err != nil {
			return err
		}
		if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cannot keep a network namespace at %s: %w", path, err)
		}
		return nil
	})
}

// unpin lets go of the namespace at path, mounted more than once or not at all.
func unpin(path string) error {
	for {
		there, err := pinned(path)
		if err != nil {
			return err
		}
		if !there {
			break
		}
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("cannot let go of the network namespace at %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot remove the place of a network namespace: %w", err)
	}
	return nil
}

// inside runs f on a thread in the network namespace.
func inside(namespace *os.File, f func() error) error {
	return apart(func() error {
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("cannot enter the network namespace %s: %w", namespace.Name(), err)
		}
		return f()
	})
}

// apart runs f on a thread that may change its network namespace. One that does
// not find back is not used again.
func apart(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("cannot find the own network namespace: %w", err)
			return
		}
		err = f()
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		home.Close()
		done <- err
	}()
	return <-done
}

// quiet keeps the devices of the calling thread's namespace from having addresses
// or answering, and rules of the host from seeing their frames.
func quiet() error {
	for _, s := range []struct {
		path, value string
		optional    bool
	}{
		{"ipv6/conf/all/disable_ipv6", "1", true},
		{"ipv6/conf/default/disable_ipv6", "1", true},
		{"ipv4/ip_forward", "0", false},
		{"bridge/bridge-nf-call-iptables", "0", true},
		{"bridge/bridge-nf-call-ip6tables", "0", true},
		{"bridge/bridge-nf-call-arptables", "0", true},
	} {
		err := os.WriteFile("/proc/sys/net/"+s.path, []byte(s.value), 0)
		if err != nil && !(s.optional && errors.Is(err, os.ErrNotExist)) {
			return fmt.Errorf("cannot quieten a network namespace: %w", err)
		}
	}
	return nil
}
