package vswitch

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"
)

// Link is a switch between ports.
type Link struct {
	// ID identifies the link within its Manager.
	ID    string
	Ports []Port
	Paths []Path
}

// Port is an end of a link.
type Port struct {
	// ID identifies the port within its link.
	ID string
	// Open opens the port's TAP with OpenTAP. It is called for a new port, and again if
	// the device was deleted. The Manager owns the file.
	Open func() (*os.File, error)
	// MTU is the most bytes after the Ethernet header; longer frames from this port are
	// dropped.
	MTU int
}

// Path holds the properties of frames from some ports to others. A path is one queue: its
// frames keep their order and share its rate. If several paths apply to a pair of ports, the
// most specific one is used: a path that lists both ports, else a path that lists one of them,
// else a path that lists none. Among equally specific paths, the first is used. Frames of a pair
// without a path are forwarded at once.
type Path struct {
	// From and To are IDs of ports; empty means all others.
	From, To []string
	// Delay is the propagation delay, in addition to the time that Rate takes.
	Delay time.Duration
	// Loss is the probability that a frame is lost, 0 to 1.
	Loss float64
	// Rate is in bit/s of whole Ethernet frames without checksum; 0 means no limit.
	Rate int64
}

// Counters are the counters of one port since the switch process started or the port was
// added.
type Counters struct {
	// Packets and bytes received from the port's device, and written to it. A large segment
	// counts as the packets into which it is split.
	InPackets, InBytes   uint64
	OutPackets, OutBytes uint64
	// Lost counts frames to the port that were lost because of their path's Loss.
	Lost uint64
	// Full counts frames to the port that were dropped because their path's queue was full.
	Full uint64
	// Bad counts frames from the port that may not be forwarded, and frames to the port that
	// its device did not accept.
	Bad uint64
}

// Limits of a link. Memory for waiting frames is limited by maxPathBytes and maxBytes.
const (
	maxPorts = 1024
	maxPaths = 8192
	maxPairs = 8 << 20 // pairs of ports in all paths together
	maxID    = 256
	maxDelay = 10 * time.Minute
	minRate  = 100       // bit/s
	maxRate  = 100 * 1e9 // bit/s
	minMTU   = 68
	maxMTU   = 65535
)

// plan returns the link in the form for the switch process, without devices. It returns an
// error if the link is invalid.
func (l *Link) plan() (plan, error) {
	p := plan{Paths: l.Paths}
	for _, n := range l.Ports {
		if n.Open == nil {
			return p, fmt.Errorf("port %s cannot be opened: it has no Open", n.ID)
		}
		p.Ports = append(p.Ports, plannedPort{n.ID, n.MTU})
	}
	if l.ID == "" || len(l.ID) > maxID {
		return p, fmt.Errorf("its id has %d bytes; it must have 1 to %d", len(l.ID), maxID)
	}
	return p, p.check()
}

func (p *plan) check() error {
	switch {
	case len(p.Ports) > maxPorts:
		return fmt.Errorf("it has %d ports; at most %d are possible", len(p.Ports), maxPorts)
	case len(p.Paths) > maxPaths:
		return fmt.Errorf("it has %d paths; at most %d are possible", len(p.Paths), maxPaths)
	}
	known := make(map[string]bool, len(p.Ports))
	for _, n := range p.Ports {
		switch {
		case n.ID == "" || len(n.ID) > maxID || known[n.ID]:
			return fmt.Errorf("the port id %.300q is empty, too long or duplicate", n.ID)
		case n.MTU < minMTU || n.MTU > maxMTU:
			return fmt.Errorf("port %s has MTU %d; it must be %d to %d", n.ID, n.MTU, minMTU, maxMTU)
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

func (p *Path) check(portIDs map[string]bool) error {
	for _, id := range slices.Concat(p.From, p.To) {
		if !portIDs[id] {
			return fmt.Errorf("there is no port %q", id)
		}
	}
	switch {
	case p.Delay < 0 || p.Delay > maxDelay:
		return fmt.Errorf("its delay is %s; it must be 0 to %s", p.Delay, maxDelay)
	case math.IsNaN(p.Loss) || p.Loss < 0 || p.Loss > 1:
		return fmt.Errorf("its loss is %v; it must be 0 to 1", p.Loss)
	case p.Rate != 0 && (p.Rate < minRate || p.Rate > maxRate):
		return fmt.Errorf("its rate is %d bit/s; it must be %d to %d, or 0 for no limit", p.Rate, minRate, int64(maxRate))
	}
	return nil
}

// errSegments means that a path has loss or a rate, and its frames may be large segments.
var errSegments = errors.New("loss and rate need ports that were opened with segment; otherwise one lost frame could be many packets")
