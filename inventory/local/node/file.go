package node

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// openFile opens a file of a node's folder that is there. Anything but a regular
// file is refused: one that leads elsewhere, or a pipe, which would be waited for.
func (h *Host) openFile(name string, flags int) (*os.File, error) {
	want, err := h.nodes.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !want.Mode().IsRegular() {
		return nil, &notRegularError{filepath.Join(h.nodes.Name(), name), want.Mode()}
	}
	f, err := h.nodes.OpenFile(name, flags|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	is, err := f.Stat()
	if err == nil && !os.SameFile(want, is) {
		err = fmt.Errorf("%s was just replaced", f.Name())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// notRegularError is something else where a file of a node has to be.
type notRegularError struct {
	path string
	mode fs.FileMode
}

func (e *notRegularError) Error() string {
	return fmt.Sprintf("%s must be a regular file and has the mode %v: remove the node", e.path, e.mode)
}
