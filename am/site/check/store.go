package check

import (
	"context"
	"errors"
	"strings"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/store"
)

// store looks at all that the site has promised: by itself, or through the one that
// serves it.
func (k *Checker) store(ctx context.Context, c *site.Config) {
	if left, err := c.Beside(site.LeftMarks); err == nil && len(left) > 0 {
		k.warn(c.State, "left over by what was killed: %s; remove it, unless something is at work on it", strings.Join(left, ", "))
	}
	if has, err := c.HasState(); err != nil {
		k.bad(c.State, "%v", err)
		return
	} else if !has {
		return // nothing was promised yet
	}
	var report *store.Report
	err := site.Ask(ctx, c, "/check-store", &report)
	if errors.Is(err, site.ErrNotServed) {
		report, err = store.Check(c.State)
	}
	switch {
	case errors.Is(err, store.ErrLocked):
		k.warn(c.State, "the store was not looked at: %v", err)
		return
	case err != nil:
		k.bad(c.State, "%v", err)
		return
	}
	if report.Copy != "" {
		k.bad(c.State, "%v", c.Copied(errors.New(report.Copy)))
	}
	for _, p := range report.Problems {
		k.bad(c.State, "%s; restore a backup, or report this", p)
	}
	if report.More > 0 {
		k.bad(c.State, "and %s more", display.Count(report.More, "problem"))
	}
	if report.Site != "" && report.Site != c.Authority {
		k.bad(c.State, "it keeps the promises of site %s, not of %s; set authority back to %s, or name another file for the new site", report.Site, c.Authority, report.Site)
	}
	if report.Stale {
		k.warn(c.State, "one of its first two pages is damaged, as a power cut can leave it; if there was none, the last change is missing")
	}
	if report.Err() == nil {
		k.good(c.State, "%s, %s, revision %d; all records and indexes agree", display.Count(report.Records[store.Slices], "slice"), display.Count(report.Records[store.Slivers], "sliver"), report.Revision)
	}
}
