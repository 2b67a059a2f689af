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
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return func() {}
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	for until := time.Now().Add(lockTime); time.Now().Before(until); time.Sleep(lookTime) {
		raw.Control(func(fd uintptr) { err = unix.FcntlFlock(fd, unix.F_SETLK, &whole) })
		if err == nil {
			break
		}
	}
	return func() { f.Close() }
}
