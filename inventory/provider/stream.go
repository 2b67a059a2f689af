package provider

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxPipe is the most that a pipe may hold of what was written.
const maxPipe = 1 << 20

// stream carries what an executable writes.
type stream struct {
	from *os.File
	to   io.Writer
	done chan struct{}
	held bool // once done is closed: somebody still holds the other end
}

// newStream makes a stream, and the end that the executable gets.
func newStream(to io.Writer) (*stream, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return &stream{from: r, to: to, done: make(chan struct{})}, w, nil
}

// carry carries all to its end, or to that of the time that drain gives.
func (s *stream) carry() {
	defer close(s.done)
	defer s.from.Close()
	if _, err := io.Copy(s.to, s.from); errors.Is(err, os.ErrDeadlineExceeded) {
		s.held = !s.rest()
	}
}

// rest takes what is there when time is over, and tells whether that was all: it
// may be us who had no processor, or no room in the log, in that time.
func (s *stream) rest() (all bool) {
	raw, err := s.from.SyscallConn()
	if err != nil {
		return true
	}
	b := make([]byte, 64<<10)
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
			if _, err := s.to.Write(b[:n]); err != nil {
				return true
			}
		}
	}
	return false // it writes on and on
}

// drain waits until all was carried, and not much longer than that.
func (s *stream) drain(patience time.Duration) {
	_ = s.from.SetReadDeadline(time.Now().Add(patience))
	<-s.done
}
