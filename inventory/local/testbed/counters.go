package testbed

import (
	"context"
	"encoding/json"
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
			n.counted.take(ends)
		} else if n.t.ctx.Err() == nil {
			n.t.log.Info("the counters of a slice cannot be read just now", "slice", n.id, "error", err)
		}
	}()
	return done
}

// take notes fresh counters. What was dropped begins anew with each change of a
// link; here it does with the interface alone, as the other counters do.
func (c *counted) take(ends map[string]fabric.Counters) {
	lost := map[string]uint64{}
	for end, is := range ends {
		was, again := c.ends[end]
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
