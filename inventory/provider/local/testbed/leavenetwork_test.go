package testbed

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider"
)

// Changes started by removed nodes do not affect the links of later nodes in a network of the same
// slice.
func TestLaterNodesKeepExistingLinks(t *testing.T) {
	h := newFakeHost(t)
	h.quiet = 50 * time.Millisecond // so that the next have come by then
	tb, stop := h.run(-1)
	defer func() { stop() }()
	const n = 4
	all := func(should func(i int) provider.Resource) {
		for i := range n {
			set(t, tb, nodeName(i), should(i))
		}
	}
	for range 4 {
		all(func(i int) provider.Resource {
			return newLinkedNode("n", interfaceItem(fmt.Sprint("n", i), "lan", "", ""))
		})
		for i := range n {
			awaitNode(t, tb, nodeName(i), isReady)
		}
		for end := time.Now().Add(2 * h.quiet); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if got := h.attachedEnds(sliceURN, "lan"); len(got) != n {
				t.Fatalf("on the link are %v, want %d nodes", slices.Sorted(slices.Values(got)), n)
			}
		}
		all(func(int) provider.Resource { return provider.Resource{"ensure": provider.Absent} })
		for i := range n {
			awaitNode(t, tb, nodeName(i), provider.Gone)
		}
	}
	wait.Until(t, "the link to be removed", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.fabric) == 0
	})
	stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.wrong) > 0 {
		t.Error(h.wrong)
	}
}
