package testbed

import (
	"strings"
	"time"

	"patchbay/inventory/local/image"
	"patchbay/inventory/local/sysctl"
)

// prepare makes what all nodes are made of, so that the first one does not wait
// for it. A node that comes before takes part in the same work. What fails here
// fails for the node, too, whose message says why.
func (t *Testbed) prepare() {
	for _, words := range t.settings.Misfits() {
		t.log.Warn("settings do not go together: " + words)
	}
	t.work.Go(t.keepLimitsRaised)
	t.work.Go(func() {
		if _, _, err := t.images.Find(t.ctx, image.Host); err != nil && t.ctx.Err() == nil {
			t.log.Warn("cannot prepare the image of this host; it is tried again with the first node", "error", err)
		}
	})
	sizes := map[int64]bool{}
	for _, kind := range t.settings.SliverTypes {
		sizes[kind.Disk] = true
	}
	t.work.Go(func() {
		for size := range sizes {
			if err := t.host.Format(t.ctx, size); err != nil && t.ctx.Err() == nil {
				t.log.Warn("cannot prepare disks; it is tried again with the first node", "bytes", size, "error", err)
			}
		}
	})
}

// findingImage is the message of a node while its image is looked for.
const findingImage = "preparing its image"

// buildingImage logs that the image of this host is being made, which nodes that wait
// for it report; what it returns logs the end.
func (t *Testbed) buildingImage(anew bool) (ended func(error)) {
	begun, why := time.Now(), "the testbed was just started"
	if anew {
		why = "the packages, accounts or settings of this host have changed"
	}
	t.log.Info("the image of this host is being made: nodes that are asked for now wait a few seconds", "why", why)
	words := findingImage + ": it is made anew, for " + why
	t.imageMessage.Store(&words)
	return func(err error) {
		t.imageMessage.Store(nil)
		if err == nil { // an error is told by who needed the image
			t.log.Info("the image of this host is made", "took", time.Since(begun).Round(time.Millisecond))
		}
	}
}

// keepLimitsRaised raises the limits again that another testbed of this host has set back.
func (t *Testbed) keepLimitsRaised() {
	for sleep(t.ctx, time.Minute); t.ctx.Err() == nil; sleep(t.ctx, time.Minute) {
		t.raiseLimits()
	}
}

// raiseLimits makes room for the nodes in what all of the host has in common. The
// same trouble is logged once.
func (t *Testbed) raiseLimits() {
	words := ""
	if err := sysctl.Raise(t.o.State, t.log); err != nil {
		words = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	if words != "" && words != t.limitWarning {
		t.log.Warn("limits of the kernel are low: with many nodes, one can keep the others and this host from going on", "error", words)
	}
	t.limitWarning = words
}
