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

// count reads the counters of the nodes' networks that are old. A network that
// takes long is reported with the counters that were read last.
func (t *Testbed) count(lives []*life) {
	var waits []chan struct{}
	seen := map[*network]bool{}
	for _, l := range lives {
		if l == nil || l.network == nil || seen[l.network] {
			continue
		}
		seen[l.network] = true
		if c := l.network.read(); c != nil {
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

// read begins to read the counters, unless they are fresh or of nothing.
func (n *network) read() chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.counted.reading != nil || len(n.made) == 0 || time.Since(n.counted.at) < countersAge {
		return n.counted.reading
	}
	done := make(chan struct{})
	n.counted.reading = done
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(n.t.ctx, countersTime)
		defer cancel()
		ends, err := n.t.fabric.Counters(ctx, n.id)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.counted.reading = nil
		if err == nil {
			n.tellOverruns(n.counted.take(ends))
		} else if n.t.ctx.Err() == nil {
			n.t.log.Info("the counters of a slice cannot be read just now", "slice", n.id, "error", err)
		}
	}()
	return done
}

// take notes fresh counters, and returns the ends that have lost many packets since
// the last ones because this host could not carry them in time. What was dropped
// begins anew with each change of a link; here it does with the interface alone, as
// the other counters do.
func (c *counted) take(ends map[string]fabric.Counters) (overrun map[string]uint64) {
	lost := map[string]uint64{}
	overrun = map[string]uint64{}
	for end, is := range ends {
		was, again := c.ends[end]
		if more := is.Overruns - was.Overruns; again && is.Overruns > was.Overruns && isMuch(more, is.TxPackets-was.TxPackets) {
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
	c.at, c.ends, c.lost = time.Now(), ends, lost
	return overrun
}

// isMuch reports whether so many lost packets are more than what each burst can lose: at
// least 100, and one in a hundred of those that were sent.
func isMuch(lost, sent uint64) bool { return lost >= 100 && lost >= sent/100 }

// overrun is that an end lost packets because this host could not carry them in time.
type overrun struct {
	at   time.Time // the last time
	lost uint64    // since it began; it begins anew after overrunTime without any
}

// overrunTime is how long a node says that it lost packets for want of time.
const overrunTime = 5 * time.Minute

// tellOverruns notes which ends have lost packets, and logs the first of each. The
// lock is held.
func (n *network) tellOverruns(more map[string]uint64) {
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

// overrunsOf says which interfaces of a node have lost packets lately because this
// host could not carry them in time; empty if none has.
func (l *life) overrunsOf() string {
	if l.network == nil {
		return ""
	}
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	var all []string
	for i := range l.ifaces {
		f := &l.ifaces[i]
		if o, ok := l.network.overruns[f.endID(l.id)]; ok && time.Since(o.at) <= overrunTime {
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
		for _, n := range t.relayed() {
			n.read()
		}
	}
}

// linksTime is how often the counters of links are read that nobody looks at.
const linksTime = 10 * time.Second

// relayed are the networks with links that a relay makes.
func (t *Testbed) relayed() (all []*network) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.networks {
		n.mu.Lock()
		for _, m := range n.made {
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
	c, ok := n.counted.ends[end]
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

// interfaces are the items that get reports.
func (l *life) interfaces() []string {
	items := make([]string, len(l.ifaces))
	for i := range l.ifaces {
		f := &l.ifaces[i]
		if items[i] = f.text; f.control {
			continue
		}
		known := struct {
			MAC      string `json:"mac"`
			Emulator string `json:"emulator,omitempty"`
			*reportedCounters
		}{MAC: macOf(l.id, f.clientID).String(), Emulator: l.network.emulator(f.on(l.id))}
		if c, ok := l.network.counters(f.endID(l.id)); ok {
			known.reportedCounters = (*reportedCounters)(&c)
		}
		b, _ := json.Marshal(known) // texts and numbers
		// The text is an object that has a client_id.
		items[i] = f.text[:len(f.text)-1] + "," + string(b[1:])
	}
	return items
}
