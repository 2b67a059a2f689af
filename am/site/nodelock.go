package site

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/display"
	"patchbay/am/work"
	"patchbay/inventory/local"
)

// lockPatience is how long a server that starts waits for a lock. What a killed server
// was just starting may have it for a moment.
const lockPatience = time.Second

// flock locks a file for this process alone. It waits for others no longer than
// patience; then the error is syscall.EWOULDBLOCK.
func flock(f *os.File, patience time.Duration) error {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || !time.Now().Before(end) {
			return err
		}
	}
}

// lockProviders makes sure that no other server acts on nodes by the providers in a
// folder, until the lock is closed or this process ends.
func lockProviders(dir string, log *slog.Logger) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	switch err := flock(f, lockPatience); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		defer f.Close()
		return nil, fmt.Errorf("another server%s uses the providers in %s, and two must not act on the same nodes; stop it, or give this site a folder of its own", lockHolder(f), dir)
	case err != nil: // some network file systems know no such locks
		log.Warn("the folder of the providers cannot be locked; make sure that no other server uses it", "folder", dir, "error", err)
	}
	return f, nil
}

// lockHolder names the process that has locked a file, in brackets; "" if it cannot be
// seen.
func lockHolder(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	device := fmt.Sprintf("%02x:%02x:", unix.Major(uint64(sys.Dev)), unix.Minor(uint64(sys.Dev)))
	if pid := lockedBy(device, sys.Ino); pid != "" {
		return " " + processName(pid)
	}
	return ""
}

// lockedBy is the id of the process that has locked the file with an inode, on a device
// as /proc/locks writes it, or on any; "" if there is none.
func lockedBy(device string, inode uint64) string {
	locks, _ := os.ReadFile("/proc/locks")
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF
		fields := strings.Fields(line)
		if len(fields) >= 6 && fields[1] == "FLOCK" && strings.HasPrefix(fields[5], device) && strings.HasSuffix(fields[5], fmt.Sprintf(":%d", inode)) {
			return fields[4]
		}
	}
	return ""
}

// processName names a process, in brackets.
func processName(pid string) string {
	command, _ := os.ReadFile("/proc/" + pid + "/cmdline")
	words := strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
	return fmt.Sprintf("(process %s: %.200s)", pid, display.Printable(words))
}

// StoreHolder names the process that serves the store with an inode on this machine; ""
// if there is none that this user can see.
func StoreHolder(inode uint64) string {
	pid := lockedBy("", inode)
	if pid == "" {
		return ""
	}
	open, _ := filepath.Glob("/proc/" + pid + "/fd/*")
	for _, fd := range open { // on another device a file may have the same number
		info, err := os.Stat(fd)
		if err != nil {
			continue
		}
		if sys, ok := info.Sys().(*syscall.Stat_t); ok && sys.Ino == inode && info.Mode().IsRegular() {
			return processName(pid)
		}
	}
	return ""
}

// busyError says that another server acts on the nodes of a local testbed.
type busyError struct{ provider, instance, holder string }

func (e *busyError) Error() string {
	return fmt.Sprintf("another server%s acts on the nodes of the local testbed %s of the provider %s; stop that server, or give this site another instance in its settings", e.holder, e.instance, e.provider)
}

// holdAll takes the locks of all testbeds. It fails if another server has one; a
// testbed that does not run is locked when it is used.
func (r *testbeds) holdAll() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.list {
		if err := r.hold(t, lockPatience); err != nil {
			if _, ok := errors.AsType[*busyError](err); ok {
				return err
			}
			r.log.Warn("the local testbed cannot be locked", "provider", t.Provider, "error", err)
		}
	}
	return nil
}

// alone lets the runner use a local testbed only while this server has its lock.
func (r *testbeds) alone(find func(name string) (work.Provider, error)) func(name string) (work.Provider, error) {
	return func(name string) (work.Provider, error) {
		if err := r.holdOne(name); err != nil {
			return nil, err
		}
		return find(name)
	}
}

func (r *testbeds) holdOne(provider string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.list {
		if t.Provider == provider {
			return r.hold(t, 0)
		}
	}
	return nil
}

// hold takes the lock of a testbed if this server does not have it yet; mu is held. A
// testbed that has not made the file has not run since the host booted, or is of an
// earlier version; one that does not let this user open it does not answer this user.
func (r *testbeds) hold(t *Testbed, patience time.Duration) error {
	path := local.SiteLock(r.socket(t.Instance))
	if t.lock != nil {
		there, err := os.Stat(path)
		mine, mineErr := t.lock.Stat()
		if err == nil && mineErr == nil && os.SameFile(there, mine) {
			return nil
		}
		t.letGo()
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	err = flock(f, patience)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = &busyError{t.Provider, t.Instance, lockHolder(f)}
	}
	if err != nil {
		f.Close()
		return err
	}
	t.lock = f
	return nil
}

// letGo gives up all locks.
func (r *testbeds) letGo() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.list {
		t.letGo()
	}
}
