package check

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"patchbay/am/display"
	"patchbay/am/follow/audit"
	"patchbay/am/site"
	"patchbay/am/site/clock"
	"patchbay/am/store"
)

// store checks the whole store. If a server runs, the server does the check.
func (k *Checker) store(ctx context.Context, c *site.Config) {
	if left, err := c.FilesBesideState(site.LeftMarks); err == nil && len(left) > 0 {
		k.warn(c.State, "a killed process has left these files: %s; remove them, unless a process still uses them", strings.Join(left, ", "))
	}
	if has, err := c.HasState(); err != nil {
		k.bad(c.State, "%v", err)
		return
	} else if !has {
		return // the site has reserved nothing yet
	}
	var report *store.Report
	err := site.Connect(c).Ask(ctx, "/check-store", &report)
	switch {
	case errors.Is(err, store.ErrLocked):
		k.warn(c.State, "the store was not checked: %v", err)
		return
	case err != nil:
		k.bad(c.State, "%v", err)
		return
	}
	if report.Copy != "" {
		k.bad(c.State, "%v", c.ExplainCopy(errors.New(report.Copy)))
	}
	for _, p := range report.Problems {
		k.bad(c.State, "%s; restore a backup, or report this", p)
	}
	if report.More > 0 {
		k.bad(c.State, "and %s more", display.Count(report.More, "problem"))
	}
	if report.Site != "" && report.Site != c.Authority {
		k.bad(c.State, "it is the store of site %s, not of %s; set authority back to %s, or name another file for the new site", report.Site, c.Authority, report.Site)
	}
	if report.Schema < store.NewestSchema {
		k.warn(c.State, "it has schema %d of an earlier release; the server migrates it to schema %d when it starts, and keeps this file as %s.schema%[1]d", report.Schema, store.NewestSchema, filepath.Base(c.State))
	}
	if report.Stale {
		k.warn(c.State, "one of its first two pages is damaged, as after a power cut; if there was no power cut, the last change is missing")
	}
	if report.Err() == nil {
		k.good(c.State, "%s, %s, revision %d; all records and indexes agree", display.Count(report.Records[store.Slices], "slice"), display.Count(report.Records[store.Slivers], "sliver"), report.Revision)
	}
}

// largeAudit is the size in bytes above which check suggests to move the audit away.
const largeAudit = 1 << 30

// Audit checks that the audit can be written, and prints the time of the oldest line.
func (k *Checker) Audit(c *site.Config) {
	if err := c.CheckAudit(); err != nil {
		k.Errors(err)
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
	info, err := os.Stat(c.Audit)
	if err != nil {
		return // there is none yet
	}
	if info.Mode().Perm()&0o077 != 0 {
		k.warn(c.Audit, "other users may read it, and it shows when each user worked here: chmod 600 %s", c.Audit)
	}
	if info.Size() > largeAudit {
		k.warn(c.Audit, "it has %s; let logrotate move it away, or move it yourself: a new one is created automatically", display.Size(info.Size()))
	}
}

// clock warns if the served site does not trust the host's clock.
func (k *Checker) clock(ctx context.Context, c *site.Config) {
	var s clock.State
	if err := site.Connect(c).Ask(ctx, "/time", &s); err == nil && s.Jumped() {
		k.warn("", "%s; correct the host's clock, or if it is right: patchbay reload", site.ClockJump(s))
	}
}
