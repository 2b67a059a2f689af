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

// shaper is what a port does to the frames that leave at it, towards the node.
type shaper struct {
	rate  int64 // kbit/s
	delay time.Duration
	loss  float64
	mtu   int
}

func (s shaper) shapes() bool { return s.rate != 0 || s.netem() }

func (s shaper) netem() bool { return s.delay != 0 || s.loss != 0 }

const (
	// frameOverhead is what tbf counts beside the MTU: addresses, type, a VLAN tag.
	frameOverhead = 18
	// burstTime is what tbf may be late by without losing of its rate; for the
	// processor has others to serve, too.
	burstTime = 10 * time.Millisecond
	// queueTime is how much waits before more is cut.
	queueTime = 50 * time.Millisecond
	// queueFrames wait however slow the link is, for senders begin with ten.
	queueFrames = 16
	// netemRate is what netem's queue is made for when there is no capacity.
	netemRate = 10_000_000 // kbit/s
	// netemBytes is what all frames in netem's queue may have together, for it is the
	// host's memory; as much as of a path of the relay.
	netemBytes = 64 << 20
)

func (s shaper) frame() int64 { return int64(s.mtu + frameOverhead) }

// bytes is what goes through in a time.
func bytes(kbits int64, d time.Duration) int64 {
	return int64(float64(kbits) * 125 * d.Seconds())
}

func (s shaper) burst() int64 { return max(bytes(s.rate, burstTime), 2*s.frame()) }

func (s shaper) queue() int64 {
	return min(max(bytes(s.rate, queueTime), queueFrames*s.frame())+s.burst(), math.MaxUint32)
}

// packets is the limit of netem's queue: what is on its way, and what waits, as long
// as that is not too much. It holds single packets only if they are cut before.
func (s shaper) packets() uint32 {
	rate := s.rate
	if rate == 0 {
		rate = netemRate
	}
	const small = 256 // bytes of a frame, where many are small
	wait := s.delay + queueTime
	return uint32(min(max(bytes(rate, wait)/small, 1000), netemBytes/s.frame()))
}

// shape makes a port do it, and nothing of what it did before.
func (n *network) shape(index int, s shaper) error {
	err := n.request(unix.RTM_DELQDISC, 0, &nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(index), Parent: netlink.HANDLE_ROOT})
	// Without one of ours the kernel says one of these.
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("cannot take the shaping from a port: %w", err)
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

// qdisc is one of the kernel's queueing disciplines.
type qdisc struct {
	kind           string
	handle, parent uint32
	options        *nl.RtAttr
}

// qdiscs are made in this order. Netem is inside tbf, so that what was delayed
// leaves at the rate of the link.
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

// tbfOptions are TCA_OPTIONS of tbf. Rates and bursts are given in the attributes
// of 64 bits and of bytes, for the older fields end at 34 Gbit/s and 275 s.
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

// netemOptions are TCA_OPTIONS of netem: its first fields, and then the latency
// in nanoseconds, which the kernel prefers.
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

// tickShift is how the kernel's ticks of queues follow from nanoseconds.
const tickShift = 6

// chance is a share of all numbers of 32 bits.
func chance(share float64) uint32 { return uint32(math.Round(share * math.MaxUint32)) }
