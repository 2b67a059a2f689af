package site

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// Output is the output of a command. It stores the first write error, so that commands need not
// check each write. Its methods may be called concurrently.
type Output struct {
	To  io.Writer
	mu  sync.Mutex
	err error
}

// Write writes to To.
func (o *Output) Write(b []byte) (int, error) {
	n, err := o.To.Write(b)
	if err != nil && !errors.Is(err, syscall.EPIPE) { // the reader has closed the pipe on purpose
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// WriteError returns the first write error; nil if everything was written. A closed pipe is
// no error.
func (o *Output) WriteError() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// FileOf returns the file that w writes to. The second result is false if w writes to something
// else.
func FileOf(w io.Writer) (*os.File, bool) {
	if o, ok := w.(*Output); ok {
		w = o.To
	}
	f, ok := w.(*os.File)
	return f, ok
}
