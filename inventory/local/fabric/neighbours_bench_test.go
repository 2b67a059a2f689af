package fabric

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"

	"github.com/vishvananda/netlink"

	"patchbay/am/testkit/need"
	"patchbay/inventory/local/sysctl"
)

// This is why: the kernel has one table for all namespaces. It is no test, for it
// would take the room of all other packages' tests, and they would take its own;
// benchmarks of packages run one after the other.
func BenchmarkManyNeighboursLeaveRoomForOthers(b *testing.B) {
	for b.Loop() {
		leaveRoom(b)
	}
}

func leaveRoom(t *testing.B) {
	need.NetNS(t)
	const folder = "/proc/sys/net/ipv4/neigh/default/gc_thresh"
	var before [3][]byte
	for i := range before {
		text, err := os.ReadFile(folder + strconv.Itoa(i+1))
		if err != nil {
			t.Skip("the table of neighbours is somebody else's here: run it in the host's own network")
		}
		before[i] = text
	}
	set := func(values ...string) {
		t.Helper()
		for i, text := range values {
			if err := os.WriteFile(folder+strconv.Itoa(i+1), []byte(text), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	defer set(string(before[0]), string(before[1]), string(before[2]))
	other := withNeighbours(t, "10.1.0.1/16")
	const scanned = 3000
	set("128", "512", "1024")
	scan(t, withNeighbours(t, "10.2.0.1/16"), scanned)
	if other.finds(netip.MustParseAddr("10.1.0.2")) {
		t.Error("with 1,024 places a scan leaves others room; then nothing needs to be raised")
	}
	state := t.TempDir()
	if err := sysctl.Raise(state, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sysctl.Restore(state); err != nil {
			t.Error(err)
		}
	}()
	scan(t, withNeighbours(t, "10.3.0.1/16"), scanned)
	if !other.finds(netip.MustParseAddr("10.1.0.3")) {
		t.Error("a scan has left others no room")
	}
}

// withNeighbours is a node that has a device with an address, and nobody there.
func withNeighbours(t testing.TB, address string) *node {
	n := newNode(t)
	n.do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "eth1"
		v := netlink.NewVeth(attrs)
		v.PeerName = "far"
		if err := netlink.LinkAdd(v); err != nil {
			return err
		}
		far, err := netlink.LinkByName("far")
		if err != nil {
			return err
		}
		a, err := netlink.ParseAddr(address)
		if err != nil {
			return err
		}
		return errors.Join(netlink.AddrAdd(v, a), netlink.LinkSetUp(v), netlink.LinkSetUp(far))
	})
	return n
}

// scan speaks to so many neighbours of 10.x.
func scan(t testing.TB, n *node, count int) {
	const each = 200 // one socket may have so many packets waiting
	var sockets []*net.UDPConn
	defer func() {
		for _, c := range sockets {
			c.Close()
		}
	}()
	n.do(func() error {
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return err
		}
		var own netip.Addr
		for _, a := range addrs {
			if p := netip.MustParsePrefix(a.String()); p.Addr().Is4() && !p.Addr().IsLoopback() {
				own = p.Addr()
			}
		}
		for i := range count {
			if i%each == 0 {
				c, err := net.ListenUDP("udp4", nil)
				if err != nil {
					return err
				}
				sockets = append(sockets, c)
			}
			b := own.As4()
			b[2], b[3] = byte(1+i/250), byte(1+i%250)
			// Of what there is no room for the kernel may say so, or not.
			_, _ = sockets[len(sockets)-1].WriteToUDPAddrPort([]byte("x"), netip.AddrPortFrom(netip.AddrFrom4(b), 9))
		}
		return nil
	})
}

// finds tells whether the node begins to look for a neighbour that it speaks to.
func (n *node) finds(addr netip.Addr) (found bool) {
	n.Helper()
	c := n.udp("0.0.0.0:0")
	_, _ = c.WriteToUDPAddrPort([]byte("x"), netip.AddrPortFrom(addr, 9))
	n.do(func() error {
		list, err := netlink.NeighList(0, netlink.FAMILY_V4)
		for _, e := range list {
			found = found || e.IP.Equal(addr.AsSlice())
		}
		return err
	})
	return found
}
