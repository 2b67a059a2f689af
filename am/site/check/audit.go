package check

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"patchbay/am/audit"
	"patchbay/am/display"
	"patchbay/am/site"
)

// large is from when on an audit should have been put away.
const large = 1 << 30

// Audit tells how the audit is: that it can be written, and what it covers.
func (k *Checker) Audit(c *site.Config) {
	if err := c.CheckAudit(); err != nil {
		k.Errors(err)
		return
	}
	info, err := os.Stat(c.Audit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.bad(c.Audit, "%v", err)
		return
	}
	files, problem := audit.Files(c.Audit)
	if problem != nil {
		k.warn(c.Audit, "patchbay who cannot read all of the audit: %v", problem)
	}
	var size int64
	for _, f := range files {
		if i, err := os.Stat(f); err == nil {
			size += i.Size()
		}
	}
	from, err := audit.Since(files)
	switch {
	case err != nil:
		k.warn(c.Audit, "%v", err)
	case from.IsZero():
		k.good(c.Audit, "the audit begins when the site is served")
	default:
		k.good(c.Audit, "the audit has lines since %s in %s, %s", from.Format(time.RFC3339), display.Count(len(files), "file"), display.Size(size))
	}
	if info == nil {
		return
	}
	if info.Mode().Perm()&0o077 != 0 {
		k.warn(c.Audit, "others may read it, and it tells who worked here when: chmod 600 %s", c.Audit)
	}
	if info.Size() > large {
		k.warn(c.Audit, "it has %s; have logrotate put it away, or move it yourself: a new one begins by itself", display.Size(info.Size()))
	}
}
