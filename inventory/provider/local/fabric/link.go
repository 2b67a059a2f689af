package fabric

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"
)

// Namespace is an open file of a node's network namespace, /proc/PID/ns/net. This package
// never closes it.
type Namespace = *os.File

// Link is the part of a link that belongs to one slice on this host.
type Link struct {
	// Slice is a short id: 1 to 32 characters of a-z and 0-9.
	Slice string
	// Name is the link's short id within the slice: 1 to 64 characters.
	Name string
	// Shared is the id of the shared VLAN that the link joins; empty if it joins none.
	Shared string
	Ends   []End
	Shapes []Shape
}

// End is one interface of a node.
type End struct {
	// ID identifies the end within the slice permanently: 1 to 128 characters.
	ID  string
	MAC net.HardwareAddr
	// MTU in bytes; 0 means 1500.
	MTU       int
	Addresses []netip.Prefix
	// IfName is the interface's name in the node.
	IfName string
}

// Shape holds the properties of frames from some ends to others. If several shapes
// apply to a pair, each property comes from the most specific shape that sets it. Shapes
// with From and To are the most specific, then shapes with only From, then shapes with
// only To. Among equally specific shapes the last one wins.
type Shape struct {
	// From and To are ids of ends; empty means all others.
	From, To []string
	// Rate is the capacity in kbit/s; 0 means no limit.
	Rate  int64
	Delay time.Duration
	// Only applies to pairs for which this shape lists both ends. It means that less
	// specific shapes do not set any property of these pairs.
	Only bool
	// Loss is the fraction of packets that are lost, 0 to 1.
	Loss float64
}

// Counters are the counters of an end as its node sees them: Rx counts packets to the
// node. Dropped counts packets to the node that shaping dropped, and packets from the node
// that exceeded the inflow limit. Overruns counts packets from the node that the vswitch
// did not read in time.
type Counters struct {
	RxPackets, RxBytes, TxPackets, TxBytes, Dropped, Overruns uint64
}

const (
	// maxEnds is less than the 1023 ports of a bridge: a shared VLAN needs a port, too.
	maxEnds      = 1000
	maxAddresses = 64
	maxRate      = 100_000_000 // kbit/s
	maxDelay     = time.Minute
	// maxPairs is the most pairs that the vswitch distinguishes.
	maxPairs = 4096
	// maxListed is the most pairs that all shapes of a link together may list.
	maxListed = maxEnds * maxEnds

	usualMTU = 1500
	// jumboMTU is what a link carries at least. The MTU of an interface is lower at first, but root
	// of the node may raise it, and the kernel drops longer frames without an error.
	jumboMTU = 9000
	leastMTU = 68
	mostMTU  = 65521
)

// UnsupportedError names a property of a link that this host cannot provide.
type UnsupportedError struct {
	// Property is "latency", "capacity" or "packet_loss", or describes another limit.
	Property string
	// Reason explains the problem and what the experimenter can change.
	Reason string
	// Remedy is an instruction for the host's operator, or empty.
	Remedy string
}

func (e *UnsupportedError) Error() string {
	text := "this host cannot make " + e.Property + " of a link: " + e.Reason
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

func (l *Link) check() error {
	if !isSlice(l.Slice) {
		return fmt.Errorf("%q is no id of a slice; an id has 1 to 32 characters of a-z and 0-9", l.Slice)
	}
	if !isWord(l.Name, 64) {
		return fmt.Errorf("%q is no id of a link; an id has 1 to 64 printable characters without spaces", l.Name)
	}
	if l.Shared != "" && !isText(l.Shared, 256) {
		return fmt.Errorf("link %s: %q is no name of a shared VLAN; a name has 1 to 256 printable characters", l.Name, l.Shared)
	}
	if len(l.Ends) == 0 {
		return fmt.Errorf("link %s has no ends; remove it instead", l.Name)
	}
	seen := make(map[string]bool, len(l.Ends))
	for i := range l.Ends {
		e := &l.Ends[i]
		if err := e.check(); err != nil {
			return fmt.Errorf("link %s: end %q: %w", l.Name, e.ID, err)
		}
		if seen[e.ID] {
			return fmt.Errorf("link %s: the end %s is listed twice", l.Name, e.ID)
		}
		seen[e.ID] = true
	}
	for _, s := range l.Shapes {
		for _, list := range [][]string{s.From, s.To} {
			for _, id := range list {
				if !seen[id] {
					return fmt.Errorf("link %s: a property names the end %q, which the link does not have", l.Name, id)
				}
			}
		}
	}
	return nil
}

func (e *End) check() error {
	switch {
	case !isWord(e.ID, 128):
		return errors.New("its id must have 1 to 128 printable characters without spaces")
	case len(e.MAC) != 6 || e.MAC[0]&1 != 0:
		return fmt.Errorf("%q is no MAC address of one interface", e.MAC)
	case e.MTU != 0 && (e.MTU < leastMTU || e.MTU > mostMTU):
		return fmt.Errorf("its MTU %d is not between %d and %d", e.MTU, leastMTU, mostMTU)
	case !isInterface(e.IfName):
		return fmt.Errorf("%q is no name of an interface; a name has 1 to 15 letters, digits and . _ -", e.IfName)
	case len(e.Addresses) > maxAddresses:
		return fmt.Errorf("it has %d addresses; at most %d are possible", len(e.Addresses), maxAddresses)
	}
	for _, a := range e.Addresses {
		if !a.IsValid() || a.Addr().Zone() != "" || a.Addr().Is4In6() {
			return fmt.Errorf("%v is no address with a prefix length, such as 192.0.2.1/24", a)
		}
	}
	return nil
}

// nodeMTU returns the first MTU of the interface in the node.
func (e *End) nodeMTU() int {
	if e.MTU == 0 {
		return usualMTU
	}
	return e.MTU
}

// hostMTU returns the MTU of the devices on the host.
func (e *End) hostMTU() int { return max(e.nodeMTU(), jumboMTU) }

func isSlice(s string) bool {
	return len(s) >= 1 && len(s) <= 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

func isWord(s string, limit int) bool {
	return isText(s, limit) && !strings.Contains(s, " ")
}

func isText(s string, limit int) bool {
	return s != "" && len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func isInterface(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return len(s) >= 1 && len(s) <= 15 && strings.Trim(s, letters) == "" && s != "." && s != ".." && s != "lo"
}
