package testbed

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"patchbay/inventory/local/fabric"
)

// Times of counters. Reading them must not hold up who looks at nodes.
const (
	countersAge  = time.Second           // after which they are read again
	countersWait = 20 * time.Millisecond // for all of a look
	countersTime = 5 * time.Second       // then they are given up
)

// refreshCounters reads the counters of the nodes' networks that are old. A network that
// takes long is reported with the counters that were read last.
func (t *Testbed) refreshCounters(lives []*nodeController) {
	var waits []chan struct{}
	seen := map[*network]bool{}
	for _, nc := range lives {
		if nc == nil || nc.network == nil || seen[nc.network] {
			continue
		}
		seen[nc.network] = true
		if c := nc.network.refreshCounters(); c != nil {
			waits = append(waits, c)
		}
	}
	if len(waits) == 0 {
		return
	}
	late := time.NewTimer(countersWait)
	defer late.Stop()
	for _, c := range waits {
		select {
		case <-c:
		case <-late.C:
			return
		}
	}
}

// refreshCounters begins to read the counters, unless they are fresh or of nothing.
func (n *network) refreshCounters() chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.counterCache.reading != nil || len(n.created) == 0 || time.Since(n.counterCache.at) < countersAge {
		return n.counterCache.reading
	}
	done := make(chan struct{})
	n.counterCache.reading = done
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(n.t.ctx, countersTime)
		defer cancel()
		ends, err := n.t.fabric.Counters(ctx, n.id)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.counterCache.reading = nil
		if err == nil {
			n.recordOverruns(n.counterCache.update(ends))
		} else if n.t.ctx.Err() == nil {
			n.t.log.Info("the counters of a slice cannot be read just now", "slice", n.id, "error", err)
		}
	}()
	return done
}

// update notes fresh counters, and returns the ends that have lost many packets since
// the last ones because this host could not carry them in time. What was dropped
// begins anew with each change of a link; here it does with the interface alone, as
// the other counters do.
func (c *counterCache) update(ends map[string]fabric.Counters) (overrun map[string]uint64) {
	lost := map[string]uint64{}
	overrun = map[string]uint64{}
	for end, is := range ends {
		was, again := c.byEnd[end]
		if more := is.Overruns - was.Overruns; again && is.Overruns > was.Overruns && isSignificantLoss(more, is.TxPackets-was.TxPackets) {
			overrun[end] = more
		}
		if !again || is.RxPackets < was.RxPackets || is.TxPackets < was.TxPackets {
			continue
		}
		before := c.lost[end]
		if is.Dropped < was.Dropped-before {
			before = was.Dropped
		}
		if before > 0 {
			lost[end] = before
			is.Dropped += before
			ends[end] = is
		}
	}
	c.at, c.byEnd, c.lost = time.Now(), ends, lost
	return overrun
}

// isSignificantLoss reports whether so many lost packets are more than what each burst can lose: at
// least 100, and one in a hundred of those that were sent.
func isSignificantLoss(lost, sent uint64) bool { return lost >= 100 && lost >= sent/100 }

// overrun is that an end lost packets because this host could not carry them in time.
type overrun struct {
	at   time.Time // the last time
	lost uint64    // since it began; it begins anew after overrunTime without any
}

// overrunTime is how long a node says that it lost packets for want of time.
const overrunTime = 5 * time.Minute

// recordOverruns notes which ends have lost packets, and logs the first of each. The
// lock is held.
func (n *network) recordOverruns(more map[string]uint64) {
	now := time.Now()
	for end, lost := range more {
		was, again := n.overruns[end]
		if !again || now.Sub(was.at) > overrunTime {
			was.lost = 0
			n.t.log.Warn("this host cannot carry the packets of a link in time, and drops some; ask patchbay-local list --links how many", "slice", n.id, "interface", end, "packets", lost)
		}
		if n.overruns == nil {
			n.overruns = map[string]overrun{}
		}
		n.overruns[end] = overrun{now, was.lost + lost}
	}
}

// overrunMessage says which interfaces of a node have lost packets lately because this
// host could not carry them in time; empty if none has.
func (nc *nodeController) overrunMessage() string {
	if nc.network == nil {
		return ""
	}
	nc.network.mu.Lock()
	defer nc.network.mu.Unlock()
	var all []string
	for i := range nc.interfaces {
		f := &nc.interfaces[i]
		if o, ok := nc.network.overruns[f.endID(nc.id)]; ok && time.Since(o.at) <= overrunTime {
			all = append(all, fmt.Sprintf("%d packets that it sent to link %.80s were lost, last at %s, because this host cannot carry more; send less, or use fewer links with latency or loss at once",
				o.lost, cmp.Or(f.link, f.name), o.at.UTC().Format(time.RFC3339)))
		}
	}
	return strings.Join(all, "; ")
}

// watchLinks reads the counters of the links that a relay makes again and again, so
// that what it cannot carry is noticed also when nobody looks.
func (t *Testbed) watchLinks() {
	for t.ctx.Err() == nil {
		sleep(t.ctx, linksTime)
		for _, n := range t.emulatedNetworks() {
			n.refreshCounters()
		}
	}
}

// linksTime is how often the counters of links are read that nobody looks at.
const linksTime = 10 * time.Second

// emulatedNetworks are the networks with links that a relay makes.
func (t *Testbed) emulatedNetworks() (all []*network) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.networks {
		n.mu.Lock()
		for _, m := range n.created {
			if strings.Contains(m.emulator, fabric.Relay) {
				all = append(all, n)
				break
			}
		}
		n.mu.Unlock()
	}
	return all
}

// counters are those of an end, if they are known.
func (n *network) counters(end string) (fabric.Counters, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c, ok := n.counterCache.byEnd[end]
	return c, ok
}

// reportedCounters are counters by the names that items have for them.
type reportedCounters struct {
	RxPackets uint64 `json:"rx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxPackets uint64 `json:"tx_packets"`
	TxBytes   uint64 `json:"tx_bytes"`
	Dropped   uint64 `json:"dropped"`
	Overruns  uint64 `json:"overruns"`
}

// interfaceItems are the items that get reports.
func (nc *nodeController) interfaceItems() []string {
	items := make([]string, len(nc.interfaces))
	for i := range nc.interfaces {
		f := &nc.interfaces[i]
		if items[i] = f.text; f.control {
			continue
		}
		known := struct {
			MAC      string `json:"mac"`
			Emulator string `json:"emulator,omitempty"`
			*reportedCounters
		}{MAC: macOf(nc.id, f.clientID).String(), Emulator: nc.network.emulator(f.linkID(nc.id))}
		if c, ok := nc.network.counters(f.endID(nc.id)); ok {
			known.reportedCounters = (*reportedCounters)(&c)
		}
		b, _ := json.Marshal(known) // texts and numbers
		// The text is an object that has a client_id.
		items[i] = f.text[:len(f.text)-1] + "," + string(b[1:])
	}
	return items
}
