package fabric

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

func TestQueueingDisciplines(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    shaper
		want []string
	}{
		{"Nothing", shaper{mtu: 1500}, nil},
		{"Jumbo", shaper{rate: 1, mtu: 9000}, []string{
			// limit 16 usual frames and the burst, 33306; rate 125; burst 1 frame, 9018
			"tbf 1:0 in root: 28000100 00000000000000007d000000 000000000000000000000000 1a820000 00000000 00000000 | 0c000400 7d00000000000000 | 08000600 3a230000",
		}},
		{"Slowest", shaper{rate: 1, mtu: 1500}, []string{
			// limit 16 frames and the burst, 27324; rate 125; burst 2 frames, 3036
			"tbf 1:0 in root: 28000100 00000000000000007d000000 000000000000000000000000 bc6a0000 00000000 00000000 | 0c000400 7d00000000000000 | 08000600 dc0b0000",
		}},
		{"Fastest", shaper{rate: maxRate, mtu: 1500}, []string{
			// limit 60 ms, 750,000,000 bytes; rate 12,500,000,000; burst 10 ms
			"tbf 1:0 in root: 28000100 0000000000000000ffffffff 000000000000000000000000 8017b42c 00000000 00000000 | 0c000400 00dd0ee902000000 | 08000600 40597307",
		}},
		{"NetemAlone", shaper{delay: 12500 * time.Microsecond, loss: 0.015, mtu: 1500}, []string{
			// latency in ticks 195312; limit 44208, 64 MiB of frames; loss 1.5 % of 2^32
			"netem 2:0 in root: f0fa0200 b0ac0000 3d0ad703 000000000000000000000000 | 0c000a00 20bcbe0000000000",
		}},
		{"NetemInTBF", shaper{rate: 10_000, delay: time.Millisecond, mtu: 1500}, []string{
			"tbf 1:0 in root: 28000100 0000000000000000d0121300 000000000000000000000000 f8240100 00000000 00000000 | 0c000400 d012130000000000 | 08000600 d4300000",
			"netem 2:0 in 1:1: 093d0000 e8030000 00000000 000000000000000000000000 | 0c000a00 40420f0000000000",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := tc.s.qdiscs()
			if len(list) != len(tc.want) {
				t.Fatalf("there are %d, want %d", len(list), len(tc.want))
			}
			squeeze := strings.NewReplacer(" ", "", "|", "")
			for i, q := range list {
				want, bytes, _ := strings.Cut(tc.want[i], ": ")
				parent := fmt.Sprintf("%x:%x", q.parent>>16, q.parent&0xffff)
				if q.parent == netlink.HANDLE_ROOT {
					parent = "root"
				}
				if got := fmt.Sprintf("%s %x:%x in %s", q.kind, q.handle>>16, q.handle&0xffff, parent); got != want {
					t.Errorf("number %d is %s, want %s", i, got, want)
				}
				// Without the header of the options.
				if got, want := fmt.Sprintf("%x", q.options.Serialize()[4:]), squeeze.Replace(bytes); got != want {
					t.Errorf("%s\n got %s\nwant %s", q.kind, got, want)
				}
			}
		})
	}
}

// The kernel must accept every capacity exactly.
func TestKernelKeepsCapacities(t *testing.T) {
	h := open(t, Auto)
	l := lan("s1", 2)
	build(t, h, l)
	n := h.slices["s1"].net
	for _, mtu := range []int{leastMTU, usualMTU, 9000, mostMTU} {
		for _, kbits := range []int64{1, 8, 999, 10_000, 1_000_000, 34_359_738, 34_359_739, 40_000_000, maxRate} {
			d, err := n.mustDevice(deviceName(kindPort, "lan", a))
			must(t, err)
			s := shaper{rate: kbits, mtu: mtu}
			if err := n.shape(d.index, s); err != nil {
				t.Fatalf("%d kbit/s: %v", kbits, err)
			}
			list, err := n.nl.QdiscList(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: d.name, Index: d.index}})
			if err != nil || len(list) != 1 {
				t.Fatalf("%d kbit/s: %v, %v", kbits, list, err)
			}
			tbf, ok := list[0].(*netlink.Tbf)
			if !ok || tbf.Rate != uint64(kbits)*125 || int64(tbf.Limit) != s.queue() || tbf.Buffer == 0 && kbits < 1_000_000 {
				t.Errorf("%d kbit/s, MTU %d: the kernel has %+v", kbits, mtu, list[0])
			}
		}
	}
}

// Packets in netem use the host's memory, so their number is limited.
func TestNetemsQueueIsBounded(t *testing.T) {
	for _, mtu := range []int{leastMTU, usualMTU, mostMTU} {
		s := shaper{delay: maxDelay, mtu: mtu}
		if most := int64(s.packets()) * s.frame(); most > 64<<20 || most < 60<<20 {
			t.Errorf("MTU %d: %d bytes may wait", mtu, most)
		}
	}
	for _, shape := range []Shape{{Delay: time.Millisecond}, {Loss: 0.1}, {Delay: time.Millisecond, Rate: 1000}} {
		p, err := decide(lan("s1", 2, shape), everything, Netem)
		if err != nil || !p.ports[0].split || !p.ports[1].split {
			t.Errorf("%+v: packets come to netem in one piece: %+v, %v", shape, p, err)
		}
	}
}
