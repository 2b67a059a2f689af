package clock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"patchbay/am/durable"
	"patchbay/am/fileowner"
)

// copied ends the name of the copy that Save keeps of the file as it was before.
const copied = ".old"

// brokenError says that the file is there and makes no sense.
type brokenError struct {
	path string
	err  error
}

func (e *brokenError) Error() string { return fmt.Sprintf("%s is broken: %v", e.path, e.err) }

// maxFile is more than the file ever has, in bytes.
const maxFile = 4 << 10

// Check reads the file of a Clock, which may be in use. The error is fs.ErrNotExist if
// there is none; it is broken; or it cannot be read.
func Check(file string) error {
	_, err := load(file)
	if broken, ok := errors.AsType[*brokenError](err); ok {
		return fmt.Errorf("%w; the next start goes on from the copy beside it or, if there is none, by the host's clock: see that that is right", broken)
	}
	return err
}

// load reads the file. The error is fs.ErrNotExist if there is none, a
// *brokenError, or that it cannot be read.
func load(path string) (r record, err error) {
	if path == "" {
		return r, os.ErrNotExist
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // nobody may write to a pipe
	if err != nil {
		return r, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return r, err
	}
	if !info.Mode().IsRegular() {
		return r, fmt.Errorf("%s is not a regular file (%s); move it away", path, info.Mode())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return r, err
	}
	if r, err = parse(text); err != nil {
		return record{}, &brokenError{path, err}
	}
	return r, nil
}

// Save writes the file: whole, or not at all. The one before is kept beside it.
func (c *Clock) Save() error {
	if c.opt.File == "" {
		return nil
	}
	c.saving.Lock()
	defer c.saving.Unlock()
	c.mu.Lock()
	wall, steady := c.opt.Host.Read()
	site := c.look(wall, steady)
	r := record{Site: site, Host: wall, Boot: c.opt.Host.Boot, Steady: steady, Doubt: c.doubt, Since: c.since}
	c.mu.Unlock()
	text, err := r.encode()
	if err != nil {
		return err
	}
	err = fileowner.As(filepath.Dir(c.opt.File), func() error {
		keepCopy(c.opt.File)
		return durable.WriteFile(c.opt.File, text, 0o600)
	})
	if err != nil {
		return fmt.Errorf("the time cannot be kept over a restart: %w; let the server write into %s", err, filepath.Dir(c.opt.File))
	}
	return nil
}

// keepCopy keeps the file path as it is, for the next one may get damaged. The copy
// before it stays until the new one has its name. Where none can be made, there is no
// copy, and no harm.
func keepCopy(path string) {
	next := path + copied + ".new"
	os.Remove(next)
	if os.Link(path, next) == nil {
		os.Rename(next, path+copied)
		os.Remove(next) // still there if both names were the same file
	}
}
