package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Refuse makes each write of this process to the file path fail with EBADF until restore is
// called. It replaces the process's descriptor of the file by a read-only one with the same
// number. The process must not close the descriptor before restore is called.
func Refuse(path string) (restore func() error, err error) {
	fd, err := writable(path)
	if err != nil {
		return nil, err
	}
	kept, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	restore = func() error { return errors.Join(unix.Dup3(kept, fd, unix.O_CLOEXEC), unix.Close(kept)) }
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(err, unix.Close(kept))
	}
	defer f.Close()
	if err := unix.Dup3(int(f.Fd()), fd, unix.O_CLOEXEC); err != nil {
		return nil, errors.Join(err, unix.Close(kept))
	}
	return restore, nil
}

// Writes makes writes of this process to the file Path fail. Its method Wrap is for Options.Write of
// a store.
type Writes struct {
	Path string
	// Fail is called before each write. If it returns an error, the write fails.
	Fail func() error
}

// Wrap calls Fail, and then write. It returns the error of write. If Fail has returned an error, each
// write to the file fails meanwhile.
func (w *Writes) Wrap(write func() error) error {
	if w.Fail() == nil {
		return write()
	}
	restore, err := Refuse(w.Path)
	if err != nil {
		panic(err)
	}
	return errors.Join(write(), restore())
}

// writable returns the descriptor with which this process can write to the file. It fails unless
// there is exactly one.
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
			return 0, fmt.Errorf("%s is open for writing more than once", path)
		}
		fd = n
	}
	if fd < 0 {
		return 0, fmt.Errorf("%s is not open for writing", path)
	}
	return fd, nil
}
