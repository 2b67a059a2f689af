package vswitch

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// head is the header before a frame.
type head struct {
	flags, kind                    byte
	length, segment, start, offset uint16
}

func (h head) bytes() []byte {
	b := []byte{h.flags, h.kind}
	for _, v := range []uint16{h.length, h.segment, h.start, h.offset} {
		b = binary.NativeEndian.AppendUint16(b, v)
	}
	return b
}

func headOf(b []byte) head {
	get := func(at int) uint16 { return binary.NativeEndian.Uint16(b[at:]) }
	return head{b[0], b[1], get(2), get(4), get(6), get(8)}
}

// tcp4 and tcp6 return long TCP frames, with tags before the packet.
func tcp4(tags, payload int) []byte {
	b := tagged(tags, unix.ETH_P_IP)
	ip := make([]byte, 20)
	ip[0], ip[9] = 0x45, unix.IPPROTO_TCP
	return append(append(b, ip...), tcpPart(payload)...)
}

func tcp6(payload int, extensions ...byte) []byte {
	b := tagged(0, unix.ETH_P_IPV6)
	ip := make([]byte, 40)
	ip[0], ip[6] = 0x60, unix.IPPROTO_TCP
	if len(extensions) > 0 {
		ip[6] = extensions[0]
	}
	b = append(b, ip...)
	for i := range extensions {
		e := make([]byte, 16)
		e[0], e[1] = unix.IPPROTO_TCP, 1
		if i+1 < len(extensions) {
			e[0] = extensions[i+1]
		}
		b = append(b, e...)
	}
	return append(b, tcpPart(payload)...)
}

func tagged(tags int, protocol uint16) []byte {
	b := slices.Concat(make([]byte, 6), []byte{2, 0, 0, 0, 0, 1})
	for range tags {
		b = append(b, 0x81, 0, 0, 7)
	}
	return binary.BigEndian.AppendUint16(b, protocol)
}

func tcpPart(payload int) []byte {
	t := make([]byte, 20+payload)
	t[12] = 5 << 4
	return t
}

func TestHeaders(t *testing.T) {
	const (
		sum   = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM
		valid = unix.VIRTIO_NET_HDR_F_DATA_VALID
		four  = unix.VIRTIO_NET_HDR_GSO_TCPV4
		six   = unix.VIRTIO_NET_HDR_GSO_TCPV6
		ecn   = unix.VIRTIO_NET_HDR_GSO_ECN
	)
	long := tcp4(0, 30000)
	doff := slices.Clone(long)
	doff[34+12] = 15 << 4
	tiny := slices.Clone(long)
	tiny[34+12] = 4 << 4
	udp := slices.Clone(long)
	udp[14+9] = unix.IPPROTO_UDP
	for _, c := range []struct {
		rule   string
		head   head
		frame  []byte
		want   head
		pieces int // 0: refused
	}{
		{"Plain", head{}, tcp4(0, 100), head{}, 1},
		{"ClaimOfAGoodSumIsForgotten", head{flags: valid}, tcp4(0, 100), head{}, 1},
		{"LengthWithoutMeaningIsForgotten", head{length: 7, segment: 8, start: 9, offset: 10}, tcp4(0, 100), head{}, 1},
		{"UnknownFlagsAreForgotten", head{flags: 0xfe}, tcp4(0, 100), head{}, 1},
		{"LongestPlain", head{}, make([]byte, 1500+14+8), head{}, 1},
		{"TooLongPlain", head{}, make([]byte, 1500+14+9), head{}, 0},
		{"Sum", head{flags: sum, start: 34, offset: 16, length: 3}, tcp4(0, 100), head{flags: sum, start: 34, offset: 16}, 1},
		{"SumTooLong", head{flags: sum, start: 34, offset: 16}, long, head{}, 0},
		{"SumAtTheEnd", head{flags: sum, start: 34, offset: 118}, tcp4(0, 100), head{flags: sum, start: 34, offset: 118}, 1},
		{"SumBehindTheEnd", head{flags: sum, start: 34, offset: 119}, tcp4(0, 100), head{}, 0},
		{"SumInTheAddresses", head{flags: sum, start: 4, offset: 2}, tcp4(0, 100), head{}, 0},
		{"SumFarAway", head{flags: sum, start: 65535, offset: 65535}, tcp4(0, 100), head{}, 0},
		{"Segments", head{sum, four, 9, 1448, 34, 16}, long, head{sum, four, 54, 1448, 34, 16}, 21},
		{"SegmentsWithECN", head{sum, four | ecn, 54, 1448, 34, 16}, long, head{sum, four | ecn, 54, 1448, 34, 16}, 21},
		{"SegmentsBehindATag", head{sum, four, 58, 1448, 38, 16}, tcp4(1, 30000), head{sum, four, 58, 1448, 38, 16}, 21},
		{"SegmentsBehindThreeTags", head{sum, four, 66, 1448, 46, 16}, tcp4(3, 30000), head{}, 0},
		{"SegmentsOfIPv6", head{sum, six, 74, 1428, 54, 16}, tcp6(30000), head{sum, six, 74, 1428, 54, 16}, 22},
		{"SegmentsOfIPv6WithExtensions", head{sum, six, 90, 1400, 86, 16}, tcp6(30000, unix.IPPROTO_DSTOPTS, unix.IPPROTO_ROUTING), head{sum, six, 106, 1400, 86, 16}, 22},
		{"SegmentsOfIPv6InAFragment", head{sum, six, 90, 1400, 70, 16}, tcp6(30000, unix.IPPROTO_FRAGMENT), head{}, 0},
		{"SegmentsOfTheOtherVersion", head{sum, six, 54, 1448, 34, 16}, long, head{}, 0},
		{"SegmentsOfUDP", head{sum, four, 54, 1448, 34, 16}, udp, head{}, 0},
		{"SegmentsOfAnotherKind", head{sum, 3, 54, 1448, 34, 16}, long, head{}, 0},
		{"SegmentsWithoutASum", head{0, four, 54, 1448, 34, 16}, long, head{}, 0},
		{"SegmentsWithTheSumElsewhere", head{sum, four, 54, 1448, 34, 6}, long, head{}, 0},
		{"SegmentsBeginningElsewhere", head{sum, four, 54, 1448, 35, 16}, long, head{}, 0},
		{"SegmentsLongerThanTheMTU", head{sum, four, 54, 1461, 34, 16}, long, head{}, 0},
		{"LongestSegments", head{sum, four, 54, 1460, 34, 16}, long, head{sum, four, 54, 1460, 34, 16}, 21},
		{"SegmentsOfNothing", head{sum, four, 54, 0, 34, 16}, long, head{}, 0},
		{"SegmentsOfNearlyNothing", head{sum, four, 54, 7, 34, 16}, long, head{}, 0},
		{"TCPHeaderLongerThanTheFrame", head{sum, four, 54, 1400, 34, 16}, doff[:34+40], head{}, 0},
		{"TCPHeaderTooShort", head{sum, four, 54, 1448, 34, 16}, tiny, head{}, 0},
		{"FrameEndsInTheTag", head{sum, four, 0, 1448, 14, 0}, tagged(1, 0)[:16], head{}, 0},
	} {
		t.Run(c.rule, func(t *testing.T) {
			b := append(c.head.bytes(), c.frame...)
			if ok := normalize(b, b[headerSize:], 1500); ok != (c.pieces > 0) {
				t.Fatalf("passed on: %v", ok)
			}
			if c.pieces == 0 {
				return
			}
			if got := headOf(b); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if got := pieces(b, headerSize); got != c.pieces {
				t.Errorf("stands for %d frames, want %d", got, c.pieces)
			}
		})
	}
}

// Frames from nodes contain any bytes. Forwarded ones have a valid header.
func FuzzFrame(f *testing.F) {
	f.Add(append(head{1, 1, 54, 1448, 34, 16}.bytes(), tcp4(0, 3000)...), true)
	f.Add(append(head{1, 4, 74, 1428, 54, 16}.bytes(), tcp6(3000, unix.IPPROTO_DSTOPTS)...), true)
	f.Add(append(head{1, 0, 0, 0, 34, 16}.bytes(), tcp4(2, 100)...), true)
	f.Add(tcp4(0, 100), false)
	f.Add([]byte{1, 1}, true)
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, b []byte, headers bool) {
		p := plan{Ports: plannedPorts(3), Headers: headers, Paths: []Path{{To: []string{"p2"}, Delay: 1}}}
		l := newBench(p, func() float64 { return 0 })
		l.lan.send = func(_ *port, out []byte) bool {
			if headers {
				h, frame := headOf(out), out[headerSize:]
				if h.flags == 0 && h != (head{}) {
					t.Errorf("%+v without a flag", h)
				}
				if h.flags != 0 && int(h.start)+int(h.offset)+2 > len(frame) {
					t.Errorf("%+v of %d bytes", h, len(frame))
				}
				if h.kind != 0 && (int(h.length) > len(frame) || h.segment == 0 || h.length <= h.start) {
					t.Errorf("%+v of %d bytes", h, len(frame))
				}
				if n := pieces(out, headerSize); n < 1 || n > len(out) {
					t.Errorf("stands for %d frames", n)
				}
				if h.kind == 0 && len(frame) > 1500+14+8 {
					t.Errorf("%d bytes in one", len(frame))
				}
			}
			return true
		}
		from := l.lan.ports[0]
		l.lan.receive(1, from, bytes.Clone(b))
		l.until(10)
		frame := b
		if headers && len(b) >= headerSize {
			frame = b[headerSize:]
		}
		toItself := len(frame) >= ethernetSize && bytes.Equal(frame[:6], frame[6:12])
		if passed := l.lan.ports[1].counts.OutPackets > 0; passed == (from.counts.Bad > 0 || toItself) {
			t.Errorf("passed on %v, bad %d", passed, from.counts.Bad)
		}
	})
}
