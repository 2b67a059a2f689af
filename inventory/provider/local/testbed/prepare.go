package testbed

import (
	"strings"
	"time"

	"patchbay/inventory/provider/local/image"
	"patchbay/inventory/provider/local/sysctl"
)

// prepare builds the image of this host and formats disks, so that the first node does not
// wait for them. Errors are only logged, since a node that needs the image or the disk tries
// again and reports the error.
func (t *Testbed) prepare() {
	for _, words := range t.settings.Conflicts() {
		t.log.Warn("conflicting settings: " + words)
	}
	t.work.Go(t.keepLimitsRaised)
	t.work.Go(func() {
		if _, _, err := t.images.Find(t.ctx, image.Host); err != nil && t.ctx.Err() == nil {
			t.log.Warn("cannot prepare the image of this host; retrying with the first node", "error", err)
		}
	})
	sizes := map[int64]bool{}
	for _, kind := range t.settings.SliverTypes {
		sizes[kind.Disk] = true
	}
	t.work.Go(func() {
		for size := range sizes {
			if err := t.host.Format(t.ctx, size); err != nil && t.ctx.Err() == nil {
				t.log.Warn("cannot prepare disks; retrying with the first node", "bytes", size, "error", err)
			}
		}
	})
}

const findingImage = "preparing its image"

// buildingImage logs that the image of this host is being built, and makes waiting nodes
// report it. The parameter rebuild means that this program has built the image before. The
// returned function logs the end.
func (t *Testbed) buildingImage(rebuild bool) (ended func(error)) {
	begun, why := time.Now(), "the testbed was just started"
	if rebuild {
		why = "the packages, accounts or settings of this host have changed"
	}
	t.log.Info("building the image of this host: new nodes wait for it a few seconds", "why", why)
	words := findingImage + ": it is being rebuilt, since " + why
	t.imageMessage.Store(&words)
	return func(err error) {
		t.imageMessage.Store(nil)
		if err == nil { // an error is reported by the node that needed the image
			t.log.Info("the image of this host is built", "took", time.Since(begun).Round(time.Millisecond))
		}
	}
}

// keepLimitsRaised raises the kernel's limits every minute, since another testbed may have
// restored them.
func (t *Testbed) keepLimitsRaised() {
	for sleep(t.ctx, time.Minute); t.ctx.Err() == nil; sleep(t.ctx, time.Minute) {
		t.raiseLimits()
	}
}

// raiseLimits logs the same warning only once.
func (t *Testbed) raiseLimits() {
	words := ""
	if err := sysctl.Raise(t.o.State, t.log); err != nil {
		words = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	if words != "" && words != t.limitWarning {
		t.log.Warn("limits of the kernel are low: with many nodes, one of them can exhaust them for the others and this host", "error", words)
	}
	t.limitWarning = words
}
