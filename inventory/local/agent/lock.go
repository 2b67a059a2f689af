package agent

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockFile = "/etc/.pwd.lock" // that of the C library and of shadow's programs
	lockTime = time.Second
)

// lockAccounts keeps useradd and its kind from writing the files of accounts
// until the function it returns is called. A lock that root of the node holds
// for ever must not stop the testbed.
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

// tryLock locks a whole file, unless another process has it locked.
func tryLock(f *os.File) error {
	return unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
}
