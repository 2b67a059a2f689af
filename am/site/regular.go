package site

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// OpenRegular opens a file that an operator named. It waits for nobody who writes into
// a pipe: what is no regular file is refused.
func OpenRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "read", Path: name, Err: notRegular(kindOf(info.Mode()))}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// notRegular says what stands in the place of a regular file.
type notRegular string

func (kind notRegular) Error() string {
	return fmt.Sprintf("it is not a regular file but %s; name one that is", string(kind))
}

// OrPiped adds to what is wrong with a file how to have the same text read, by commands
// that take - for standard input.
func OrPiped(err error) error {
	if kind, ok := errors.AsType[notRegular](err); ok && kind != aFolder {
		return fmt.Errorf("%w; or give - and pipe it in", err)
	}
	return err
}

// maxRegular is how long such a file may be that is read as a whole, in bytes: as long
// as an inventory.
const maxRegular = 64 << 20

// ReadRegular reads such a file.
func ReadRegular(name string) ([]byte, error) {
	f, err := OpenRegular(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRegular+1))
	if err == nil && len(text) > maxRegular {
		err = &os.PathError{Op: "read", Path: name, Err: fmt.Errorf("it is larger than %d MiB; name a shorter one", maxRegular>>20)}
	}
	return text, errors.Join(err, f.Close())
}

const aFolder = "a folder"

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return aFolder
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	}
	return "a device"
}
