package executable

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxPipe is the largest number of bytes that a pipe holds.
const maxPipe = 1 << 20

type stream struct {
	from *os.File
	to   io.Writer
	done chan struct{}
	held bool // another process still holds the other end; valid after done is closed
}

// copyOutput copies everything until the end of the output, or until the deadline that
// wait sets. It sends an error of the writer to the channel errs.
func (s *stream) copyOutput(errs chan<- error) {
	defer close(s.done)
	defer s.from.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := s.from.Read(b)
		if !s.write(b[:n], errs) {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.held = !s.copyRest(b, errs)
		}
		if err != nil {
			return
		}
	}
}

func (s *stream) write(b []byte, errs chan<- error) bool {
	_, err := s.to.Write(b)
	if err != nil {
		errs <- err
	}
	return err == nil
}

// copyRest copies the data that are still in the pipe at the deadline, because a busy server
// may read late. It returns false if a process still writes.
func (s *stream) copyRest(b []byte, errs chan<- error) (all bool) {
	raw, err := s.from.SyscallConn()
	if err != nil {
		return true
	}
	for taken := 0; taken <= maxPipe; {
		var n int
		var readErr error
		if err := raw.Control(func(fd uintptr) { n, readErr = unix.Read(int(fd), b) }); err != nil {
			return true
		}
		switch {
		case errors.Is(readErr, unix.EINTR):
		case readErr != nil:
			return !errors.Is(readErr, unix.EAGAIN)
		case n == 0:
			return true
		default:
			taken += n
			if !s.write(b[:n], errs) {
				return true
			}
		}
	}
	return false // a process still writes
}

// wait returns when all output is copied, or after DrainTimeout if another process holds the pipe open.
func (s *stream) wait() {
	_ = s.from.SetReadDeadline(time.Now().Add(DrainTimeout))
	<-s.done
}
