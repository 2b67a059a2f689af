package fabric

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// payload and headers are the sizes of full frames with the usual MTU: Ethernet, IPv4,
// UDP.
const payload, headers = 1472, 42

// control sets a socket's integer option.
func control(t testing.TB, c *net.UDPConn, level, option, value int) {
	t.Helper()
	raw, err := c.SyscallConn()
	must(t, err)
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = unix.SetsockoptInt(int(fd), level, option, value) }); err != nil || inner != nil {
		t.Fatal(err, inner)
	}
}

// retry repeats a measurement, because a busy host disturbs it. One success shows that
// the link is correct.
func retry(t testing.TB, try func() error) {
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

// expectRate measures a rate and compares it with a range, as shares of mbit.
func expectRate(t testing.TB, a *node, from string, b *node, to string, mbit, least, most float64, pause time.Duration) {
	t.Helper()
	retry(t, func() error {
		got := rate(t, a, from, b, to, 200*time.Millisecond, pause)
		if got < mbit*least || got > mbit*most {
			return fmt.Errorf("%v Mbit/s let %.2f through", mbit, got)
		}
		return nil
	})
}

// flood sends datagrams until stop, many in one call: the kernel cuts them (UDP_SEGMENT),
// as late as possible. Without a pause it sends at full speed.
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

// sink counts the datagrams that arrive at a node.
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

// rate returns the rate at which frames arrive from another node, in Mbit/s, when more is
// sent.
func rate(t testing.TB, a *node, from string, b *node, to string, window, pause time.Duration) float64 {
	t.Helper()
	s := newSink(t, b, to)
	stop := flood(t, a, from, s.addr, 16, pause)
	defer stop()
	// Skip the saved tokens of a bucket.
	time.Sleep(200 * time.Millisecond)
	start, first := time.Now(), s.bytes.Load()
	time.Sleep(window)
	got, took := s.bytes.Load()-first, time.Since(start)
	return float64(got) / payload * (payload + headers) * 8 / took.Seconds() / 1e6
}
