package check

import (
	"context"
	"errors"
	"io/fs"

	"patchbay/am/clock"
	"patchbay/am/display"
	"patchbay/am/site"
)

// clock looks at what the site knows of the time, and tells by which time leases
// count, if that is not simply the host's.
func (k *Checker) clock(ctx context.Context, c *site.Config) {
	if err := clock.Check(c.ClockFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.bad("", "%v", err)
		return
	}
	file := c.ClockFile()
	var a site.ClockAnswer
	err := site.Ask(ctx, c, "/clock", &a)
	if errors.Is(err, site.ErrNotServed) {
		t, failed := c.OpenClock(nil)
		if err = failed; err == nil {
			a.Now = t.State()
		}
	}
	switch s := a.Now; {
	case err != nil:
		k.bad(file, "the clock of the site cannot be looked at: %v", err)
	case s.Doubt != clock.NoDoubt:
		k.warn(file, "the host's clock is not believed: %s; leases count by %s, and it shows %s; see: patchbay clock", s.Reason(), display.Time(s.Site), display.Time(s.Host))
	case s.Lost != "":
		k.warn(file, "%s; leases count by the host's clock, which shows %s; see that it is right, then type: patchbay clock --believe", s.Lost, display.Time(s.Host))
	}
}
