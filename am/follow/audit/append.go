package audit

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"patchbay/am/file"
)

const (
	// lockTimeout is the time that the server waits for the lock of an audit. After that, it
	// keeps the lines in memory. A command waits for commandLockTimeout and then fails.
	lockTimeout        = 100 * time.Millisecond
	commandLockTimeout = 5 * time.Second
)

// appendTo appends text with one write. A text after an incomplete line begins on a new
// line. If only a part of the text can be written, appendTo removes that part. Several
// processes may append to the same file.
func appendTo(f *os.File, text []byte, lockTimeout time.Duration) error {
	if err := lock(f, lockTimeout); err != nil {
		return err
	}
	defer syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if size > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err != nil {
			return fmt.Errorf("cannot read the end of the audit: %w", err)
		}
		if last[0] != '\n' {
			text = append([]byte("\n"), text...)
		}
	}
	n, err := f.Write(text)
	if err == nil || n == 0 {
		return err
	}
	// With another size, a program without the lock has written: keep its text.
	if info, e := f.Stat(); e != nil || info.Size() != size+int64(n) {
		return errors.Join(err, e)
	}
	return errors.Join(err, f.Truncate(size))
}

// lock fails after lockTimeout. It does nothing on a file system without locks.
func lock(f *os.File, lockTimeout time.Duration) error {
	switch err := file.Lock(f, lockTimeout); {
	case err == nil, errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EOPNOTSUPP):
		return nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return errors.New("another process has locked the audit; try again when that process has ended")
	default:
		return fmt.Errorf("cannot lock the audit: %w", err)
	}
}
