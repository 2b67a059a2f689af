package inside

import (
	"errors"
	"net"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
	"patchbay/inventory/local/netspace"
)

// TestNetem: an interface delays and loses what it sends. It needs a kernel with netem: make guest.
func TestNetem(t *testing.T) {
	require.Root(t)
	require.NetNS(t)
	const near, far = "pb-netem-near", "pb-netem-far"
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %q: %v\n%s", args, err, out)
		}
	}
	for _, name := range []string{near, far} {
		ip("netns", "add", name)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	}
	ip("-n", near, "link", "add", "eth1", "address", "02:00:00:00:00:01", "type", "veth", "peer", "name", "eth1", "netns", far)
	ip("-n", far, "addr", "add", "10.0.0.2/24", "dev", "eth1")
	ip("-n", far, "link", "set", "eth1", "up")
	space, err := netspace.Open("/run/netns/" + near)
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	set := func(delay time.Duration, loss float64) error {
		i := Interface{Name: "eth1", MAC: "02:00:00:00:00:01", MTU: 1450, Addresses: []string{"10.0.0.1/24"}, Delay: delay, Loss: loss}
		return netspace.Inside(space, func() error { return setInterface(i) })
	}
	if err := set(30*time.Millisecond, 0); errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		t.Skipf("this kernel has no netem: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	echo, sender := listen(t, "/run/netns/"+far, "10.0.0.2:7"), listen(t, "/run/netns/"+near, "10.0.0.1:7")
	go func() {
		for b := make([]byte, 16); ; {
			n, from, err := echo.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = echo.WriteTo(b[:n], from)
		}
	}()
	// try sends packets, and returns how many came back and the shortest time of one.
	try := func(packets int) (back int, least time.Duration) {
		least = time.Hour
		for n := range packets {
			begin := time.Now()
			if _, err := sender.WriteTo([]byte{byte(n)}, echo.LocalAddr()); err != nil {
				t.Fatal(err)
			}
			_ = sender.SetReadDeadline(begin.Add(500 * time.Millisecond))
			var b [1]byte
			if _, _, err := sender.ReadFrom(b[:]); err == nil {
				back, least = back+1, min(least, time.Since(begin))
			}
		}
		return back, least
	}
	if back, least := try(20); back == 0 || least < 30*time.Millisecond {
		t.Errorf("%d of 20 packets came back, the first after %s; want 30 ms", back, least)
	}
	if err := set(0, 50); err != nil {
		t.Fatal(err)
	}
	if back, _ := try(100); back < 25 || back > 75 {
		t.Errorf("%d of 100 packets came back with a loss of 50 %%", back)
	}
}

// listen opens a UDP socket in a namespace.
func listen(t *testing.T, namespace, address string) (c net.PacketConn) {
	t.Helper()
	space, err := netspace.Open(namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	err = netspace.Inside(space, func() (err error) {
		c, err = net.ListenPacket("udp4", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
