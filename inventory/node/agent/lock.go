package agent

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockFile = "/etc/.pwd.lock" // as used by the C library and the shadow tools
	lockTime = time.Second
)

// lockAccounts prevents useradd and similar programs from writing the account files until
// unlock is called. If it does not get the lock within lockTime, it continues without the
// lock, since the node's root could hold it forever.
func lockAccounts() (unlock func()) {
	f, err := os.OpenFile(lockFile, os.O_WRONLY|os.O_CREATE|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return func() {}
	}
	for until := time.Now().Add(lockTime); tryLock(f) != nil && time.Now().Before(until); {
		time.Sleep(pollInterval)
	}
	return func() { f.Close() }
}

func tryLock(f *os.File) error {
	return unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
}
