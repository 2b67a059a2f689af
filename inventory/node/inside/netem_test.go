package inside

import (
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
	"patchbay/inventory/provider/local/netspace"
)

// TestInterface checks that setInterface removes earlier addresses, keeps those of a user, and sets
// and removes latency and loss. The second part needs a kernel with netem: make guest.
func TestInterface(t *testing.T) {
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
	var before Interface
	set := func(delay time.Duration, loss float64, more ...string) (err error) {
		i := Interface{Name: "eth1", MAC: "02:00:00:00:00:01", MTU: 1450, Addresses: append(more, "10.0.0.1/24"), Delay: delay, Loss: loss}
		err = netspace.Inside(space, func() error { return setInterface(i, before) })
		before = i
		return err
	}
	addresses := func() string {
		out, _ := exec.Command("ip", "-n", near, "-brief", "-4", "addr", "show", "eth1").Output()
		return strings.Join(strings.Fields(string(out))[2:], " ")
	}
	if err := set(0, 0, "10.0.9.1/24"); err != nil {
		t.Fatal(err)
	}
	ip("-n", near, "addr", "add", "10.0.8.1/24", "dev", "eth1") // a user's own
	for range 2 {                                               // the second time, there is nothing to remove
		before.Addresses = append(before.Addresses, "10.0.9.1/24")
		if err := set(0, 0); err != nil {
			t.Fatal(err)
		}
		if got := addresses(); got != "10.0.0.1/24 10.0.8.1/24" {
			t.Errorf("the addresses are %s", got)
		}
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
	if err := set(0, 0); err != nil {
		t.Fatal(err)
	}
	if back, _ := try(50); back != 50 {
		t.Errorf("%d of 50 packets came back after the loss was removed", back)
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

// TestBrokenConfigurations checks that an incomplete or invalid configuration is refused.
func TestBrokenConfigurations(t *testing.T) {
	for _, text := range []string{"", `{"Hostname":"a","Accounts":[`, `{"Hostname":"a b"}`} {
		if err := configure(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "the configuration of the node is broken") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
