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

// lockWait is the longest wait of a starting server. After a server was killed, a program that it
// was starting may hold the lock for a moment.
const lockWait = time.Second

// flock fails with syscall.EWOULDBLOCK if the file is still locked after patience.
func flock(f *os.File, patience time.Duration) error {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || !time.Now().Before(end) {
			return err
		}
	}
}

// lockProviders prevents other servers from using the providers in dir. The lock lasts until the
// returned file is closed or this process ends.
func lockProviders(dir string, log *slog.Logger) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	switch err := flock(f, lockWait); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		defer f.Close()
		return nil, fmt.Errorf("another server%s uses the providers in %s, and two must not act on the same nodes; stop that server, or give this site a folder of its own", lockHolder(f), dir)
	case err != nil: // some network file systems have no such locks
		log.Warn("the folder of the providers cannot be locked; make sure that no other server uses it", "folder", dir, "error", err)
	}
	return f, nil
}

// lockHolder describes the process that has locked f, for a message. The text begins with a
// blank. It is "" if this user cannot see the process.
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

// lockedBy returns the process id by /proc/locks; "" for none. device "" means any device.
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

// processName returns the id and the command line in brackets.
func processName(pid string) string {
	command, _ := os.ReadFile("/proc/" + pid + "/cmdline")
	words := strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
	return fmt.Sprintf("(process %s: %.200s)", pid, display.Printable(words))
}

// StoreHolder describes the process that holds the lock of the store file with the given inode
// number. It returns "" if this user can see no such process on this host.
func StoreHolder(inode uint64) string {
	pid := lockedBy("", inode)
	if pid == "" {
		return ""
	}
	open, _ := filepath.Glob("/proc/" + pid + "/fd/*")
	for _, fd := range open { // a file on another device may have the same inode
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

type busyError struct{ provider, instance, holder string }

func (e *busyError) Error() string {
	return fmt.Sprintf("another server%s acts on the nodes of the local testbed %s of the provider %s; stop that server, or give this site another instance in its settings", e.holder, e.instance, e.provider)
}

// lockAll fails if another server has locked a testbed. A testbed that does not run is locked
// when the server first uses it.
func (r *testbeds) lockAll() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.list {
		if err := r.lockTestbed(t, lockWait); err != nil {
			if _, ok := errors.AsType[*busyError](err); ok {
				return err
			}
			r.log.Warn("the local testbed cannot be locked", "provider", t.Provider, "error", err)
		}
	}
	return nil
}

func (r *testbeds) whileLocked(find func(name string) (work.Provider, error)) func(name string) (work.Provider, error) {
	return func(name string) (work.Provider, error) {
		if err := r.lockProvider(name); err != nil {
			return nil, err
		}
		return find(name)
	}
}

// lockProvider does nothing for a provider without a local testbed.
func (r *testbeds) lockProvider(provider string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.list {
		if t.Provider == provider {
			return r.lockTestbed(t, 0)
		}
	}
	return nil
}

// lockTestbed locks a testbed unless this server has locked it already. The caller must hold
// r.mu. lockTestbed returns nil without a lock if the lock's file does not exist: the testbed has
// not run since the host booted, or is of an earlier version. It does the same if this user
// cannot open the file, because the testbed then refuses this user's requests.
func (r *testbeds) lockTestbed(t *Testbed, patience time.Duration) error {
	path := local.SiteLock(r.socket(t.Instance))
	if t.lock != nil {
		there, err := os.Stat(path)
		mine, mineErr := t.lock.Stat()
		if err == nil && mineErr == nil && os.SameFile(there, mine) {
			return nil
		}
		t.unlock()
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

func (r *testbeds) unlock() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.list {
		t.unlock()
	}
}
