package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxLog is the maximum size of a log in bytes, not counting the log's final note.
const maxLog = 10 << 20

// log is the output of a step: a file of bounded size, and the last bytes in memory.
type log struct {
	f    *os.File
	left int // bytes that may still be written to the file
	cut  bool
	tail []byte
}

// openLog creates the log of a step, and replaces an old one. Root and the account can read it.
func openLog(dir, path string, user account) (*log, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_NOFOLLOW, 0o640)
	if err != nil {
		return nil, err
	}
	if err := f.Chown(0, user.gid); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &log{f: f, left: maxLog}, nil
}

// Write appends to the log and to the output of the step. It never fails: a full disk must not end a step.
func (l *log) Write(b []byte) (int, error) {
	size := len(b)
	if l.tail = append(l.tail, b[max(0, size-MaxOutput):]...); len(l.tail) > MaxOutput {
		l.tail = append(l.tail[:0], l.tail[len(l.tail)-MaxOutput:]...)
	}
	if part := b[:min(size, l.left)]; len(part) > 0 {
		n, err := l.f.Write(part)
		l.left -= n
		if err != nil {
			l.left = 0
		}
	}
	if l.left == 0 && !l.cut && size > 0 {
		l.cut = true
		fmt.Fprintf(l.f, "\n[the rest is left out: a log has at most %d bytes]\n", maxLog)
	}
	return size, nil
}

func (l *log) note(format string, args ...any) {
	fmt.Fprintf(l, time.Now().UTC().Format(time.DateTime)+"Z "+format+"\n", args...)
}

func (l *log) end() string { return Tail(string(l.tail), MaxOutput) }

// failure notes an error, and returns the report of a step that failed because of it.
func (l *log) failure(exit int, err error) Report {
	l.note("failed: %s", singleLine(err.Error(), 2*maxMessage))
	return Report{State: Failed, Exit: exit, Message: err.Error(), Output: l.end()}
}
