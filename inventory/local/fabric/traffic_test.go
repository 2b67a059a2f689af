package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// payload and headers are of full frames with the usual MTU: Ethernet, IPv4, UDP.
const payload, headers = 1472, 42

// control sets a socket's integer option.
func control(t testing.TB, c *net.UDPConn, level, option, value int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = unix.SetsockoptInt(int(fd), level, option, value) }); err != nil || inner != nil {
		t.Fatal(err, inner)
	}
}

// within tries some times: what takes time, and what must not be lost, suffers from
// all else that runs on the host. One good time shows that it is not the link.
func within(t testing.TB, try func() error) {
	t.Helper()
	for tries := 1; ; tries++ {
		err := try()
		if err == nil {
			return
		}
		if t.Log(err); tries == 10 {
			t.Error("never as it should be")
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// flows wants a rate in Mbit/s between two shares of it.
func flows(t testing.TB, a *node, from string, b *node, to string, mbit, least, most float64, pause time.Duration) {
	t.Helper()
	within(t, func() error {
		got := rate(t, a, from, b, to, 200*time.Millisecond, pause)
		if got < mbit*least || got > mbit*most {
			return fmt.Errorf("%v Mbit/s let %.2f through", mbit, got)
		}
		return nil
	})
}

// flood sends datagrams until stop, many at a time: the kernel cuts them
// (UDP_SEGMENT), at the last moment if nobody asks for it before. Without a pause
// between them it is as fast as it can.
func flood(t testing.TB, from *node, addr string, to netip.AddrPort, many int, pause time.Duration) (stop func() (sent int64)) {
	t.Helper()
	c := from.udp(addrPort(addr))
	if many > 1 {
		control(t, c, unix.SOL_UDP, unix.UDP_SEGMENT, payload)
	}
	end, done := make(chan struct{}), make(chan struct{})
	var sent int64
	go func() {
		defer close(done)
		b := make([]byte, many*payload)
		for {
			select {
			case <-end:
				return
			default:
			}
			time.Sleep(pause)
			if n, err := c.WriteToUDPAddrPort(b, to); err == nil {
				sent += int64(n)
			} else if errors.Is(err, net.ErrClosed) {
				return
			}
		}
	}()
	return func() int64 {
		close(end)
		<-done
		c.Close()
		return sent
	}
}

// sink counts what arrives at a node.
type sink struct {
	addr  netip.AddrPort
	bytes atomic.Int64
}

func newSink(t testing.TB, n *node, addr string) *sink {
	t.Helper()
	c := n.udp(addrPort(addr))
	control(t, c, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
	control(t, c, unix.SOL_UDP, unix.UDP_GRO, 1)
	s := &sink{addr: c.LocalAddr().(*net.UDPAddr).AddrPort()}
	go func() {
		b := make([]byte, 1<<16)
		for {
			n, _, err := c.ReadFromUDPAddrPort(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			s.bytes.Add(int64(n))
		}
	}()
	return s
}

// rate measures what gets from one node to another, in Mbit/s of frames, when more
// is sent.
func rate(t testing.TB, a *node, from string, b *node, to string, window, pause time.Duration) float64 {
	t.Helper()
	s := newSink(t, b, to)
	stop := flood(t, a, from, s.addr, 16, pause)
	defer stop()
	// What a bucket has saved goes first.
	time.Sleep(200 * time.Millisecond)
	start, first := time.Now(), s.bytes.Load()
	time.Sleep(window)
	got, took := s.bytes.Load()-first, time.Since(start)
	return float64(got) / payload * (payload + headers) * 8 / took.Seconds() / 1e6
}

// lost sends datagrams, many in one piece, slowly enough that nothing is cut, and
// tells which share got lost, and how often one was lost whose piece was not.
func lost(t testing.TB, a *node, from string, b *node, to string, packets, many int) (share float64, alone int) {
	t.Helper()
	// Who is asked from there knows the address: a question of its own may be lost,
	// and is asked again only after a second.
	reaches(t, b, to, a, from, long)
	in := b.udp(addrPort(to))
	control(t, in, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	out := a.udp(addrPort(from))
	if many > 1 {
		control(t, out, unix.SOL_UDP, unix.UDP_SEGMENT, payload)
	}
	got := make([]bool, packets)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for {
			n, err := in.Read(buf)
			if err != nil {
				return
			}
			if i := binary.BigEndian.Uint32(buf); n == payload && int(i) < packets {
				got[i] = true
			}
		}
	}()
	buf := make([]byte, many*payload)
	for i := 0; i < packets; i += many {
		for j := range many {
			binary.BigEndian.PutUint32(buf[j*payload:], uint32(i+j))
		}
		if _, err := out.WriteToUDPAddrPort(buf, in.LocalAddr().(*net.UDPAddr).AddrPort()); err != nil {
			t.Fatal(err)
		}
		if (i+many)%64 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	in.SetReadDeadline(time.Now().Add(150 * time.Millisecond))
	<-done
	gone := 0
	for i := 0; i < packets; i += many {
		n := 0
		for j := i; j < min(i+many, packets); j++ {
			if !got[j] {
				n++
			}
		}
		gone += n
		if n > 0 && n < many {
			alone++
		}
	}
	return float64(gone) / float64(packets), alone
}

// echo answers datagrams at a node with themselves.
func echo(n *node, addr string) netip.AddrPort {
	n.Helper()
	c := n.udp(addrPort(addr))
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := c.ReadFromUDPAddrPort(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				c.WriteToUDPAddrPort(b[:n], from)
			}
		}
	}()
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

// roundTrip is the quickest of several, so that a busy processor does not count.
func roundTrip(t testing.TB, a *node, from string, to netip.AddrPort, times int) time.Duration {
	t.Helper()
	c := a.udp(addrPort(from))
	defer c.Close()
	best := time.Hour
	b := make([]byte, 64)
	for i := range times + 2 { // the first learn addresses
		c.SetReadDeadline(time.Now().Add(time.Second))
		start := time.Now()
		if _, err := c.WriteToUDPAddrPort([]byte{byte(i)}, to); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(b)
		if took := time.Since(start); err == nil && n == 1 && b[0] == byte(i) && i >= 2 {
			best = min(best, took)
		} else if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	return best
}

// loses wants a share of packets to get lost, as far as chance allows, and of
// pieces of many at least alone only in part.
func loses(t testing.TB, a *node, from string, b *node, to string, share float64, packets, many, alone int) {
	t.Helper()
	within(t, func() error {
		got, part := lost(t, a, from, b, to, packets, many)
		far := 5 * math.Sqrt(share*(1-share)/float64(packets))
		if math.Abs(got-share) > far || part < alone {
			return fmt.Errorf("%.4f of the packets are lost, want %v ± %.4f; in %d pieces some were lost", got, share, far, part)
		}
		return nil
	})
}

// takes wants packets to go there and back in a time, or a little more.
func takes(t testing.TB, a *node, from string, to netip.AddrPort, want, more time.Duration) {
	t.Helper()
	within(t, func() error {
		got := roundTrip(t, a, from, to, 8)
		if got < want || got > want+more {
			return fmt.Errorf("there and back takes %v, want %v and at most %v more", got, want, more)
		}
		return nil
	})
}

// stream sends bytes over TCP from one node to another and tells how many Mbit/s
// arrived.
func stream(t testing.TB, a *node, from string, b *node, to string, size int64) float64 {
	t.Helper()
	var l net.Listener
	b.do(func() (err error) {
		l, err = net.Listen("tcp", addrPort(to))
		return err
	})
	defer l.Close()
	var out net.Conn
	a.do(func() (err error) {
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addrPort(from))), Timeout: long}
		out, err = d.Dial("tcp", l.Addr().String())
		return err
	})
	defer out.Close()
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	start := time.Now()
	go func() {
		io.CopyN(out, zeros{}, size)
		out.Close()
	}()
	in.SetReadDeadline(time.Now().Add(30 * time.Second))
	n, err := io.Copy(io.Discard, in)
	if err != nil || n != size {
		t.Fatalf("%d of %d bytes arrived: %v", n, size, err)
	}
	return float64(size) * 8 / time.Since(start).Seconds() / 1e6
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
