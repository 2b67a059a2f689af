package main

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// output is where a command prints. It remembers that something could not be written,
// so that no command needs to look each time. All methods may be called at the same time.
type output struct {
	to  io.Writer
	mu  sync.Mutex
	err error // of the first that could not be written
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.to.Write(b)
	if err != nil && !errors.Is(err, syscall.EPIPE) { // who has read enough misses nothing
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// lost is why something could not be written; nil if all was.
func (o *output) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// fileOf is the file that w writes to, if it is one.
func fileOf(w io.Writer) (*os.File, bool) {
	if o, ok := w.(*output); ok {
		w = o.to
	}
	f, ok := w.(*os.File)
	return f, ok
}
