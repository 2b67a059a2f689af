package vswitch

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"
)

// Link is what the relay makes of a set of ports: a switch between them.
type Link struct {
	// ID names the link among those of its Manager.
	ID    string
	Ports []Port
	Paths []Path
}

// Port is an end of a link.
type Port struct {
	// ID names the port within its link.
	ID string
	// Open opens the port's TAP, as OpenTAP does. It is called when the port
	// is new, and again when its device has gone in the meantime. The file is
	// the Manager's.
	Open func() (*os.File, error)
	// MTU is the most bytes behind the Ethernet header of a frame; longer
	// ones from this port are dropped.
	MTU int
}

// Path is what frames from some ports to some others meet: one queue, whose
// frames keep their order and share its rate. A path that lists both ends of a
// pair goes before one that lists one, which goes before one that lists none;
// among equals the first. A pair on no path is passed on at once.
type Path struct {
	// From and To are IDs of ports; empty: all others.
	From, To []string
	// Delay is how long a frame is on its way, beside the time that Rate takes.
	Delay time.Duration
	// Loss is the chance of a frame to be lost, 0 to 1.
	Loss float64
	// Rate is in bit/s, of whole Ethernet frames without their checksum; 0: none.
	Rate int64
}

// Counters are of one port, since the relay process was started or the port was
// put. Segments that came as one count each.
type Counters struct {
	// Frames that came from the port's device, and that went into it.
	InPackets, InBytes   uint64
	OutPackets, OutBytes uint64
	// Lost were to go to the port and were taken by the loss of their path.
	Lost uint64
	// Full were to go to the port and found no room in the queue of their path.
	Full uint64
	// Bad came from the port and are no frames that may be passed on, or did not
	// go into its device.
	Bad uint64
}

// What a link may have. Memory for waiting frames is bounded by maxPathBytes
// and maxBytes.
const (
	maxPorts = 1024
	maxPaths = 8192
	maxPairs = 8 << 20 // of all paths together
	maxID    = 256
	maxDelay = 10 * time.Minute
	minRate  = 100       // bit/s
	maxRate  = 100 * 1e9 // bit/s
	minMTU   = 68
	maxMTU   = 65535
)

// plan is the link without its devices.
func (l *Link) plan() (plan, error) {
	p := plan{Paths: l.Paths}
	for _, n := range l.Ports {
		if n.Open == nil {
			return p, fmt.Errorf("port %s cannot be opened: it has no Open", n.ID)
		}
		p.Ports = append(p.Ports, plannedPort{n.ID, n.MTU})
	}
	if l.ID == "" || len(l.ID) > maxID {
		return p, fmt.Errorf("its id has %d bytes: it needs 1 to %d", len(l.ID), maxID)
	}
	return p, p.check()
}

// check is what is wrong with a plan.
func (p *plan) check() error {
	switch {
	case len(p.Ports) > maxPorts:
		return fmt.Errorf("it has %d ports: the relay takes %d", len(p.Ports), maxPorts)
	case len(p.Paths) > maxPaths:
		return fmt.Errorf("it has %d paths: the relay takes %d", len(p.Paths), maxPaths)
	}
	known := make(map[string]bool, len(p.Ports))
	for _, n := range p.Ports {
		switch {
		case n.ID == "" || len(n.ID) > maxID || known[n.ID]:
			return fmt.Errorf("the port id %.300q is empty, too long or there twice", n.ID)
		case n.MTU < minMTU || n.MTU > maxMTU:
			return fmt.Errorf("port %s has an MTU of %d: %d to %d can be", n.ID, n.MTU, minMTU, maxMTU)
		}
		known[n.ID] = true
	}
	pairs := 0
	for i, path := range p.Paths {
		if err := path.check(known); err != nil {
			return fmt.Errorf("path %d: %w", i+1, err)
		}
		count := func(ids []string) int {
			if len(ids) == 0 {
				return len(p.Ports)
			}
			return len(ids)
		}
		if pairs += count(path.From) * count(path.To); pairs > maxPairs {
			return fmt.Errorf("its paths lead between more than %d pairs of ports", maxPairs)
		}
		if p.Headers && (path.Loss > 0 || path.Rate > 0) {
			return errSegments
		}
	}
	return nil
}

// check is what is wrong with a path between known ports.
func (p *Path) check(known map[string]bool) error {
	for _, id := range slices.Concat(p.From, p.To) {
		if !known[id] {
			return fmt.Errorf("there is no port %q", id)
		}
	}
	switch {
	case p.Delay < 0 || p.Delay > maxDelay:
		return fmt.Errorf("a delay of %s: 0 to %s can be", p.Delay, maxDelay)
	case math.IsNaN(p.Loss) || p.Loss < 0 || p.Loss > 1:
		return fmt.Errorf("a loss of %v: 0 to 1 can be", p.Loss)
	case p.Rate != 0 && (p.Rate < minRate || p.Rate > maxRate):
		return fmt.Errorf("a rate of %d bit/s: %d to %d can be, or 0 for none", p.Rate, minRate, int64(maxRate))
	}
	return nil
}

var errSegments = errors.New("loss and rate need ports that were opened with segment, or one loss would take many packets")
