package egress

import (
	"errors"
	"net/netip"
	"sync"
	"testing"

	"patchbay/am/testkit/wait"
)

// Nodes that are detached while conntrack entries are being removed wait for one further
// removal together, and each gets its own error.
func TestConntrackOfNodesIsRemovedTogether(t *testing.T) {
	const many = 100
	var f forgetBatches
	var mu sync.Mutex
	var lists []int
	entered, goOn := make(chan struct{}), make(chan struct{})
	bad := errors.New("no rights")
	do := func(all map[netip.Addr]bool) error {
		mu.Lock()
		lists = append(lists, len(all))
		first := len(lists) == 1
		mu.Unlock()
		if !first {
			return bad
		}
		close(entered)
		<-goOn
		return nil
	}
	var all sync.WaitGroup
	all.Go(func() {
		if err := f.add(Address(1), do); err != nil {
			t.Error(err)
		}
	})
	<-entered
	for n := range many {
		all.Go(func() {
			if err := f.add(Address(2+n), do); !errors.Is(err, bad) {
				t.Errorf("node %d: %v", n, err)
			}
		})
	}
	wait.Until(t, "all others wait", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.next != nil && len(f.next.addresses) == many
	})
	close(goOn)
	all.Wait()
	if len(lists) != 2 || lists[0] != 1 || lists[1] != many {
		t.Errorf("connections were listed for %v nodes", lists)
	}
}
