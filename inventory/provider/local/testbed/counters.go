package testbed

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"patchbay/inventory/provider/local/fabric"
)

// Reading counters must not delay an answer of get.
const (
	countersAge  = time.Second           // the age at which counters are outdated
	countersWait = 20 * time.Millisecond // the longest time that an answer of get waits for a read
	countersTime = 5 * time.Second       // the limit of one read
)

// refreshCounters reads the outdated counters of the nodes' networks, and waits for them up to
// countersWait. If a read takes longer, get reports the previous counters of that network.
func (t *Testbed) refreshCounters(nodes []*nodeController) {
	var waits []chan struct{}
	seen := map[*network]bool{}
	for _, nc := range nodes {
		if nc == nil || nc.network() == nil || seen[nc.network()] {
			continue
		}
		seen[nc.network()] = true
		if c := nc.network().refreshCounters(); c != nil {
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

// refreshCounters starts reading outdated counters. It returns a channel that is closed at the
// end of the read, or nil if no read is running.
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
			n.t.log.Info("cannot read the counters of a slice", "slice", n.id, "error", err)
		}
	}()
	return done
}

// update stores fresh counters, by interface. It returns the packets lost since the last read,
// for each interface with a significant loss. Interfaces lose packets if this host is too slow.
// The kernel's count of dropped packets restarts with each change of a link, so update adds the
// earlier count.
func (c *counterCache) update(ends map[string]fabric.Counters) (overrun map[string]uint64) {
	lost := map[string]uint64{}
	overrun = map[string]uint64{}
	for end, is := range ends {
		was, known := c.byEnd[end]
		if more := is.Overruns - was.Overruns; known && is.Overruns > was.Overruns && isSignificantLoss(more, is.TxPackets-was.TxPackets) {
			overrun[end] = more
		}
		if !known || is.RxPackets < was.RxPackets || is.TxPackets < was.TxPackets {
			continue // a new interface: all its counters began at 0
		}
		earlierDrops := c.lost[end]
		if is.Dropped < was.Dropped-earlierDrops { // the kernel's count has restarted
			earlierDrops = was.Dropped
		}
		if earlierDrops > 0 {
			lost[end] = earlierDrops
			is.Dropped += earlierDrops
			ends[end] = is
		}
	}
	c.at, c.byEnd, c.lost = time.Now(), ends, lost
	return overrun
}

// isSignificantLoss ignores the losses of ordinary bursts.
func isSignificantLoss(lost, sent uint64) bool { return lost >= 100 && lost >= sent/100 }

// overrun describes packets of an interface lost because this host was too slow.
type overrun struct {
	at   time.Time // the last loss
	lost uint64    // restarts after overrunTime without a loss
}

// overrunTime is how long a node reports an overrun.
const overrunTime = 5 * time.Minute

// recordOverruns adds losses, by interface, to the reported ones. It logs only the first loss of
// an interface within overrunTime. n.mu is held.
func (n *network) recordOverruns(losses map[string]uint64) {
	now := time.Now()
	for end, lost := range losses {
		was, again := n.overruns[end]
		if !again || now.Sub(was.at) > overrunTime {
			was.lost = 0
			n.t.log.Warn("this host is too slow for the packets of a link and drops some; patchbay-local list --links shows how many", "slice", n.id, "interface", end, "packets", lost)
		}
		if n.overruns == nil {
			n.overruns = map[string]overrun{}
		}
		n.overruns[end] = overrun{now, was.lost + lost}
	}
}

// overrunMessage describes the packets that the node has recently lost because this host is too slow.
func (nc *nodeController) overrunMessage() string {
	if nc.network() == nil {
		return ""
	}
	nc.network().mu.Lock()
	defer nc.network().mu.Unlock()
	var all []string
	ifaces := nc.interfaces()
	for i := range ifaces {
		f := &ifaces[i]
		if o, ok := nc.network().overruns[f.endID(nc.id)]; ok && time.Since(o.at) <= overrunTime {
			all = append(all, fmt.Sprintf("%d packets that it sent to link %.80s were lost, last at %s, because this host cannot carry more; send less, or use fewer links with latency or loss at once",
				o.lost, cmp.Or(f.link, f.name), o.at.UTC().Format(time.RFC3339)))
		}
	}
	return strings.Join(all, "; ")
}

// watchLinks notices losses even if get is never called.
func (t *Testbed) watchLinks() {
	for t.ctx.Err() == nil {
		sleep(t.ctx, linksTime)
		for _, n := range t.emulatedNetworks() {
			n.refreshCounters()
		}
	}
}

const linksTime = 10 * time.Second

// emulatedNetworks returns the networks with links that a vswitch emulates.
func (t *Testbed) emulatedNetworks() (all []*network) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.networks {
		n.mu.Lock()
		for _, m := range n.created {
			if strings.Contains(m.emulator, fabric.VSwitch) {
				all = append(all, n)
				break
			}
		}
		n.mu.Unlock()
	}
	return all
}

func (n *network) counters(end string) (fabric.Counters, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c, ok := n.counterCache.byEnd[end]
	return c, ok
}

// reportedCounters are counters with the keys of interface items.
type reportedCounters struct {
	RxPackets uint64 `json:"rx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxPackets uint64 `json:"tx_packets"`
	TxBytes   uint64 `json:"tx_bytes"`
	Dropped   uint64 `json:"dropped"`
	Overruns  uint64 `json:"overruns"`
}

// interfaceItems returns the requested items with hardware address, emulator and counters added.
func (nc *nodeController) interfaceItems() []string {
	ifaces := nc.interfaces()
	items := make([]string, len(ifaces))
	for i := range ifaces {
		f := &ifaces[i]
		if items[i] = f.text; f.control {
			continue
		}
		known := struct {
			MAC      string `json:"mac"`
			Emulator string `json:"emulator,omitempty"`
			*reportedCounters
		}{MAC: macOf(nc.id, f.clientID).String(), Emulator: nc.network().emulator(f.linkID(nc.id))}
		if c, ok := nc.network().counters(f.endID(nc.id)); ok {
			known.reportedCounters = (*reportedCounters)(&c)
		}
		b, _ := json.Marshal(known) // cannot fail: only texts and numbers
		// The text is a JSON object with at least a client_id.
		items[i] = f.text[:len(f.text)-1] + "," + string(b[1:])
	}
	return items
}
