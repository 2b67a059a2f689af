package testbed

import (
	"patchbay/inventory/local/image"
)

// prepare makes what all nodes are made of, so that the first one does not wait
// for it. A node that comes before takes part in the same work. What fails here
// fails for the node too, which is told why.
func (t *Testbed) prepare() {
	for _, words := range t.settings.Misfits() {
		t.log.Warn("settings do not go together: " + words)
	}
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
			if err := t.machines.Format(t.ctx, size); err != nil && t.ctx.Err() == nil {
				t.log.Warn("cannot prepare disks; it is tried again with the first node", "bytes", size, "error", err)
			}
		}
	})
}
