package yamlfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Load reads a regular file of at most limit bytes; limit is a multiple of 1 MiB. It does
// not block on a pipe. It fails with an error of the file system, or with an *Error for a
// file that is too large, not regular, or a symbolic link to a missing file.
func Load(file string, limit int64) ([]byte, error) {
	wrong := func(format string, args ...any) error {
		return &Error{[]Problem{{File: file, Msg: fmt.Sprintf(format, args...)}}}
	}
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(file); err == nil {
			return nil, wrong("it is a symbolic link to a missing file; correct the link, or remove it")
		}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, wrong("it is not a regular file; put one in its place")
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = wrong("it is larger than %d MiB; make it shorter", limit>>20)
	}
	return text, err
}
