package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// shaper is the shaping of frames that leave a port towards the node.
type shaper struct {
	rate  int64 // kbit/s
	delay time.Duration
	loss  float64
	mtu   int // of the devices
}

func (s shaper) shapes() bool { return s.rate != 0 || s.netem() }

func (s shaper) netem() bool { return s.delay != 0 || s.loss != 0 }

const (
	// frameOverhead is the number of bytes that tbf counts in addition to the MTU: 12 for
	// addresses, 2 for the type, and 4 for a VLAN tag.
	frameOverhead = 18
	// burstTime is the longest delay of tbf without effect on the link's rate. Other work
	// of the processor causes such delays.
	burstTime = 10 * time.Millisecond
	// queueTime sets the length of a queue: it holds the traffic that the rate transfers
	// in this time.
	queueTime = 50 * time.Millisecond
	// queueFrames is the least queue length in usual frames, because TCP starts with a burst
	// of ten frames.
	queueFrames = 16
	usualFrame  = usualMTU + frameOverhead
	// netemRate is the rate that sizes netem's queue if there is no capacity limit.
	netemRate = 10_000_000 // kbit/s
	// netemBytes limits the memory of netem's queue. It equals the limit of a path of the
	// vswitch.
	netemBytes = 64 << 20
)

// frame returns the bytes of the largest frame.
func (s shaper) frame() int64 { return int64(s.mtu + frameOverhead) }

// bytes returns the number of bytes that kbits kbit/s transfer during d.
func bytes(kbits int64, d time.Duration) int64 {
	return int64(float64(kbits) * 125 * d.Seconds())
}

// burst returns the bytes that tbf may send at once. It drops frames that are longer.
func (s shaper) burst() int64 { return max(bytes(s.rate, burstTime), 2*usualFrame, s.frame()) }

// queue returns the limit of tbf's queue in bytes.
func (s shaper) queue() int64 {
	return min(max(bytes(s.rate, queueTime), queueFrames*usualFrame)+s.burst(), math.MaxUint32)
}

// packets returns the limit of netem's queue, which holds the delayed and the waiting
// packets. Full queues of the largest frames need at most netemBytes.
func (s shaper) packets() uint32 {
	rate := s.rate
	if rate == 0 {
		rate = netemRate
	}
	const small = 256 // bytes of a frame; the queue has room for many small frames
	wait := s.delay + queueTime
	return uint32(min(max(bytes(rate, wait)/small, 1000), netemBytes/s.frame()))
}

// shape shapes what a port transmits. It replaces the previous shaping of the port.
func (n *network) shape(index int, s shaper) error {
	err := n.request(unix.RTM_DELQDISC, 0, &nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(index), Parent: netlink.HANDLE_ROOT})
	// The kernel returns one of these errors if the port has no shaping.
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("cannot remove the shaping of a port: %w", err)
	}
	for _, q := range s.qdiscs() {
		err := n.request(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE,
			&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(index), Handle: q.handle, Parent: q.parent},
			nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated(q.kind)), q.options)
		if err != nil {
			return fmt.Errorf("cannot shape a port by %s: %w", q.kind, err)
		}
	}
	return nil
}

type qdisc struct {
	kind           string
	handle, parent uint32
	options        *nl.RtAttr
}

// qdiscs returns the disciplines in order of creation. Netem is inside tbf, so delayed
// frames leave at the link's rate.
func (s shaper) qdiscs() []qdisc {
	var list []qdisc
	parent := uint32(netlink.HANDLE_ROOT)
	if s.rate != 0 {
		list = append(list, qdisc{"tbf", netlink.MakeHandle(1, 0), parent, tbfOptions(s)})
		parent = netlink.MakeHandle(1, 1)
	}
	if s.netem() {
		list = append(list, qdisc{"netem", netlink.MakeHandle(2, 0), parent, netemOptions(s)})
	}
	return list
}

// tbfOptions uses the attributes for a 64-bit rate and for a burst in bytes, because the
// older fields cannot hold more than 34 Gbit/s and 275 s.
func tbfOptions(s shaper) *nl.RtAttr {
	rate := uint64(s.rate) * 125
	limits := nl.TcTbfQopt{Limit: uint32(s.queue())}
	limits.Rate.Rate = uint32(min(rate, math.MaxUint32))
	o := nl.NewRtAttr(nl.TCA_OPTIONS, nil)
	o.AddRtAttr(nl.TCA_TBF_PARMS, limits.Serialize())
	o.AddRtAttr(nl.TCA_TBF_RATE64, nl.Uint64Attr(rate))
	o.AddRtAttr(nl.TCA_TBF_BURST, nl.Uint32Attr(uint32(s.burst())))
	return o
}

// netemOptions sends the latency in nanoseconds, which overrides the latency in the basic
// fields.
func netemOptions(s shaper) *nl.RtAttr {
	const latency64 = 10 // TCA_NETEM_LATENCY64
	fields := nl.TcNetemQopt{
		Latency: uint32(min(s.delay.Nanoseconds()>>tickShift, math.MaxUint32)),
		Limit:   s.packets(),
		Loss:    chance(s.loss),
	}
	delay := make([]byte, 8)
	binary.NativeEndian.PutUint64(delay, uint64(s.delay))
	return nl.NewRtAttr(nl.TCA_OPTIONS, slices.Concat(fields.Serialize(), nl.NewRtAttr(latency64, delay).Serialize()))
}

// tickShift converts nanoseconds to the ticks of the kernel's queueing disciplines. A tick
// is 64 ns.
const tickShift = 6

// chance converts a fraction from 0 to 1 to netem's scale, where 2^32-1 stands for 1.
func chance(share float64) uint32 { return uint32(math.Round(share * math.MaxUint32)) }
