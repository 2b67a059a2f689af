package clock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/durable"
	"patchbay/am/fileowner"
)

// record is the content of the file: both clocks at one moment.
type record struct {
	Site   time.Time     `json:"site"`
	Host   time.Time     `json:"host"`
	Boot   string        `json:"boot"`
	Steady time.Duration `json:"steady_ns"`
	Doubt  Doubt         `json:"doubt,omitempty"`
	Since  time.Time     `json:"since,omitzero"`
}

// latest is the latest valid time in a file.
var latest = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// parse fails for values that a Clock never writes.
func parse(text []byte) (r record, err error) {
	if err := json.Unmarshal(text, &r); err != nil {
		return r, err
	}
	r.Site, r.Host, r.Since = r.Site.Local(), r.Host.Local(), r.Since.Local()
	switch r.Doubt {
	case NoDoubt, Jumped, Booted:
	case "behind", "settling": // as earlier versions wrote it
		r.Doubt = Booted
	default:
		return r, fmt.Errorf("its doubt %q is unknown", r.Doubt)
	}
	switch {
	case r.Site.IsZero() || r.Site.After(latest):
		return r, fmt.Errorf("its site's time %s is out of range", r.Site.Format(time.RFC3339))
	case r.Doubt == NoDoubt && !r.Site.Equal(r.Host):
		return r, fmt.Errorf("it says that the host's clock is trusted, but its host's time %s and its site's time %s differ", r.Host.Format(time.RFC3339), r.Site.Format(time.RFC3339))
	case r.Steady < 0:
		return r, errors.New("its time since the boot is negative")
	}
	return r, nil
}

type brokenError struct {
	path string
	err  error
}

func (e *brokenError) Error() string { return fmt.Sprintf("%s is broken: %v", e.path, e.err) }

// maxFile limits the size of the file, in bytes.
const maxFile = 4 << 10

// Check reads the file of a Clock, which may be in use. It returns fs.ErrNotExist if
// the file is missing, and an error if it is broken or unreadable.
func Check(file string) error {
	_, err := load(file)
	if broken, ok := errors.AsType[*brokenError](err); ok {
		return fmt.Errorf("%w; the next start trusts the host's clock; check that this clock is right", broken)
	}
	return err
}

// load returns fs.ErrNotExist if the file is missing, and a *brokenError if it is invalid.
func load(path string) (r record, err error) {
	if path == "" {
		return r, os.ErrNotExist
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // must not wait for the writer of a pipe
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
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return r, err
	}
	if r, err = parse(text); err != nil {
		return record{}, &brokenError{path, err}
	}
	return r, nil
}

// Save writes the file atomically. The file is on the disk when Save returns.
func (c *Clock) Save() error {
	if c.opt.File == "" {
		return nil
	}
	c.saving.Lock()
	defer c.saving.Unlock()
	c.mu.Lock()
	wall, steady := c.opt.Host.Read()
	site := c.advance(wall, steady)
	r := record{Site: site.UTC(), Host: wall.UTC(), Boot: c.opt.Host.Boot, Steady: steady, Doubt: c.doubt, Since: c.since.UTC()}
	c.mu.Unlock()
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	dir := filepath.Dir(c.opt.File)
	err = fileowner.As(dir, func() error { return durable.WriteFile(c.opt.File, append(text, '\n'), 0o600) })
	if err != nil {
		return fmt.Errorf("the time cannot be stored for the next start: %w; let the server write into %s", err, dir)
	}
	return nil
}

// removeUnfinished removes temporary files that an interrupted Save left. It only logs an
// error.
func (c *Clock) removeUnfinished() {
	if c.opt.File == "" {
		return
	}
	if err := fileowner.As(filepath.Dir(c.opt.File), func() error { return durable.RemoveUnfinished(c.opt.File) }); err != nil {
		c.opt.Log.Warn("temporary files of the clock's file could not be removed", "error", err)
	}
}
