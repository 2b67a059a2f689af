package testbed

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"patchbay/inventory/provider"
)

// What nodes that left have begun does nothing to the links of those that come
// after them, in a network of the same slice.
func TestNodesThatComeAfterOthersKeepTheirLinks(t *testing.T) {
	w := newWorld(t)
	w.quiet = 50 * time.Millisecond // so that the next have come by then
	tb, stop := w.run(-1)
	defer func() { stop() }()
	const n = 4
	all := func(should func(i int) provider.Resource) {
		for i := range n {
			set(t, tb, nodeName(i), should(i))
		}
	}
	for range 4 {
		all(func(i int) provider.Resource { return linked("n", on(fmt.Sprint("n", i), "lan", "", "")) })
		for i := range n {
			await(t, tb, nodeName(i), ready)
		}
		for end := time.Now().Add(2 * w.quiet); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if got := w.ends(sliceURN, "lan"); len(got) != n {
				t.Fatalf("on the link are %v, want %d nodes", slices.Sorted(slices.Values(got)), n)
			}
		}
		all(func(int) provider.Resource { return provider.Resource{"ensure": provider.Absent} })
		for i := range n {
			await(t, tb, nodeName(i), provider.Gone)
		}
	}
	stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) > 0 || len(w.fabric) > 0 {
		t.Error(w.wrong, w.fabric)
	}
}
