package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Refuse makes each write of this process to the file path fail, with EBADF, until
// again is called: for so long its open descriptor may only read. The descriptor
// keeps its number, its place and its locks, and must not be closed meanwhile.
func Refuse(path string) (again func() error, err error) {
	fd, err := writable(path)
	if err != nil {
		return nil, err
	}
	kept, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	again = func() error { return errors.Join(unix.Dup3(kept, fd, unix.O_CLOEXEC), unix.Close(kept)) }
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(err, unix.Close(kept))
	}
	defer f.Close()
	if err := unix.Dup3(int(f.Fd()), fd, unix.O_CLOEXEC); err != nil {
		return nil, errors.Join(err, unix.Close(kept))
	}
	return again, nil
}

// Writes lets writes of this process to a file fail. An observer of a store calls Begin
// when a change is staged, and End when it is published or rolled back.
type Writes struct {
	Path string
	// Fail is asked before each write; with an error the write fails.
	Fail func() error

	begun bool
	again func() error
}

// Begin is before a write, which has one beginning.
func (w *Writes) Begin() {
	if w.begun {
		return
	}
	w.begun = true
	if w.Fail() == nil {
		return
	}
	var err error
	if w.again, err = Refuse(w.Path); err != nil {
		panic(err)
	}
}

// End is after a write.
func (w *Writes) End() {
	w.begun = false
	if w.again == nil {
		return
	}
	if err := w.again(); err != nil {
		panic(err)
	}
	w.again = nil
}

// writable is the one descriptor by which this process may write to a file.
func writable(path string) (fd int, err error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return 0, err
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, err
	}
	fd = -1
	for _, e := range list {
		name, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || name != real {
			continue
		}
		info, err := os.ReadFile("/proc/self/fdinfo/" + e.Name())
		if err != nil {
			continue
		}
		_, flags, _ := strings.Cut(string(info), "flags:")
		var n, mode int
		if _, err := fmt.Sscanf(flags, "%o", &mode); err != nil || mode&unix.O_ACCMODE == unix.O_RDONLY {
			continue
		}
		if _, err := fmt.Sscan(e.Name(), &n); err != nil {
			return 0, err
		}
		if fd >= 0 {
			return 0, fmt.Errorf("%s is open to write more than once", path)
		}
		fd = n
	}
	if fd < 0 {
		return 0, fmt.Errorf("%s is not open to write", path)
	}
	return fd, nil
}
