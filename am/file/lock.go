package file

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Lock takes the exclusive lock of an open file or folder, which ends when f is closed. It fails with
// syscall.EWOULDBLOCK if others hold the lock for longer than patience.
func Lock(f *os.File, patience time.Duration) error {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		isHeld := errors.Is(err, syscall.EWOULDBLOCK)
		if isHeld && time.Now().Before(end) || errors.Is(err, syscall.EINTR) {
			continue
		}
		return err
	}
}
