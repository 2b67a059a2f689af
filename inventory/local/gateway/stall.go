package gateway

import (
	"sync"
	"time"
)

// A channel of which the peer sends more than its reader takes holds up to two
// megabytes here: so the protocol library has it. So many may be stuck for
// longer than stallTime on all connections to the nodes of a slice.
const (
	maxStalls = 64
	stallTime = time.Second
)

// stalls are the flows that wait for their reader, by slice. The zero value is ready.
type stalls struct {
	mu sync.Mutex
	by map[string]map[*flow]struct{}
}

// flow is what comes in on a channel.
type flow struct {
	of    *stalls
	c     *login
	since time.Time
}

func (s *stalls) flow(c *login) *flow { return &flow{of: s, c: c} }

// begin says that f waits from now on. If too many of its slice have waited for
// long, the connection that has most of them is ended.
func (f *flow) begin() {
	s := f.of
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.by[f.c.slice]
	if all == nil {
		all = make(map[*flow]struct{})
		if s.by == nil {
			s.by = make(map[string]map[*flow]struct{})
		}
		s.by[f.c.slice] = all
	}
	f.since = time.Now()
	all[f] = struct{}{}
	if len(all) <= maxStalls {
		return
	}
	stuck, of := 0, make(map[*login]int)
	worst := f.c
	for o := range all {
		if f.since.Sub(o.since) < stallTime {
			continue
		}
		stuck++
		if of[o.c]++; of[o.c] > of[worst] {
			worst = o.c
		}
	}
	if stuck >= maxStalls {
		worst.g.log.Warn("a connection is ended: it sends what nobody reads", "node", worst.node, "user", worst.user)
		go worst.end()
	}
}

// end says that f does not wait any more.
func (f *flow) end() {
	s := f.of
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.by[f.c.slice]
	if delete(all, f); len(all) == 0 {
		delete(s.by, f.c.slice)
	}
}
