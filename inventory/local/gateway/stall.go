package gateway

import (
	"slices"
	"sync"
	"time"
)

// A channel of which the peer sends more than its reader takes holds up to two
// megabytes here. So many may be stuck at the same time, on all connections.
const (
	maxStalls = 64
	stallTime = 200 * time.Millisecond
)

// stalls are the flows that wait for their reader. The zero value is ready.
type stalls struct {
	mu  sync.Mutex
	all map[*flow]struct{}
}

// flow is what comes in on a channel.
type flow struct {
	of    *stalls
	c     *login
	since time.Time
}

func (s *stalls) flow(c *login) *flow { return &flow{of: s, c: c} }

// begin says that f waits from now on. If too many wait, the connection that
// has most of them is ended.
func (f *flow) begin() {
	s := f.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[*flow]struct{})
	}
	f.since = time.Now()
	s.all[f] = struct{}{}
	if len(s.all) <= maxStalls {
		return
	}
	count := make(map[string]int)
	of := make(map[string][]*login)
	var worst string
	for o := range s.all {
		if f.since.Sub(o.since) < stallTime {
			continue
		}
		who := o.c.node + "\x00" + string(o.c.key)
		count[who]++
		if !slices.Contains(of[who], o.c) {
			of[who] = append(of[who], o.c)
		}
		if count[who] > count[worst] {
			worst = who
		}
	}
	for _, c := range of[worst] {
		c.g.log.Warn("a connection is ended: it sends what nobody reads", "node", c.node, "user", c.user)
		go c.end()
	}
}

// end says that f does not wait any more.
func (f *flow) end() {
	f.of.mu.Lock()
	delete(f.of.all, f)
	f.of.mu.Unlock()
}
