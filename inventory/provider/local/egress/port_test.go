package egress

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"patchbay/am/testkit/netlab"
	"patchbay/inventory/provider/local/netspace"
)

func TestPortBlocks(t *testing.T) {
	taken := map[uint16]int{}
	for n := 1; n <= PortBlocks; n++ {
		first, last := portsOf(0, n)
		if first < 10240 || int(last)-int(first) != blockSize-1 {
			t.Fatalf("node %d has the ports %d to %d", n, first, last)
		}
		if other := taken[first]; other != 0 {
			t.Fatalf("nodes %d and %d share their ports, and there are blocks for %d", other, n, PortBlocks)
		}
		taken[first] = n
	}
	for _, n := range []int{PortBlocks, 5000, MaxNumber} {
		if first, last := portsOf(0, n); first < 10240 || last < first {
			t.Errorf("node %d has the ports %d to %d", n, first, last)
		}
	}
}

// dialFrom connects from a given local port, 0 for any.
func dialFrom(node *os.File, network string, port int, address string) (c net.Conn, err error) {
	err = netspace.Inside(node, func() error {
		d := net.Dialer{Timeout: 2 * time.Second}
		switch network {
		case "tcp4":
			d.LocalAddr = &net.TCPAddr{Port: port}
		case "udp4":
			d.LocalAddr = &net.UDPAddr{Port: port}
		}
		c, err = d.Dial(network, address)
		return err
	})
	return c, err
}

// TestPortIdentifiesNode checks that nodes of two Routers on one host, with equal numbers and equal
// local ports, have different ports outside.
func TestPortIdentifiesNode(t *testing.T) {
	b := netlab.New(t, netlab.Options{})
	var stream net.Listener
	var datagrams net.PacketConn
	err := b.Outside(func() (err error) {
		if stream, err = net.Listen("tcp4", netlab.Web+":7"); err != nil {
			return err
		}
		datagrams, err = net.ListenPacket("udp4", netlab.Web+":7")
		return err
	})
	must(t, err)
	defer stream.Close()
	defer datagrams.Close()
	one, two := options(t, b, "out-a"), options(t, b, "out-b")
	two.Number = 1
	first, second := open(t, one), open(t, two)
	for _, x := range []struct {
		exit   *Router
		number int
	}{{first, 1}, {first, 2}, {first, 300}, {second, 1}} {
		node := attach(t, x.exit, x.number)
		low, high := x.exit.Ports(x.number)
		if want := []string{fmt.Sprintf("%s:%d-%d", netlab.Host, low, high)}; !slices.Equal(x.exit.SourceAddresses(x.number), want) {
			t.Errorf("node %d appears as %q, not as %q", x.number, x.exit.SourceAddresses(x.number), want)
		}
		within := func(what string, from net.Addr, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s of node %d: %v", what, x.number, err)
			}
			if p := netip.MustParseAddrPort(from.String()).Port(); p < low || p > high {
				t.Errorf("%s of node %d came from port %d, which is not of %d to %d", what, x.number, p, low, high)
			}
		}
		// All nodes choose the same ports.
		for port := 40000; port < 40003; port++ {
			c, err := dialFrom(node, "tcp4", port, netlab.Web+":7")
			must(t, err)
			defer c.Close()
			_ = stream.(*net.TCPListener).SetDeadline(time.Now().Add(10 * time.Second))
			got, err := stream.Accept()
			must(t, err)
			defer got.Close()
			within("a connection", got.RemoteAddr(), nil)

			d, err := dialFrom(node, "udp4", port, netlab.Web+":7")
			must(t, err)
			defer d.Close()
			fmt.Fprint(d, "x")
			_ = datagrams.SetReadDeadline(time.Now().Add(10 * time.Second))
			_, from, err := datagrams.ReadFrom(make([]byte, 8))
			within("a datagram", from, err)
		}
	}
}

func TestFullPortBlock(t *testing.T) {
	_, e := openInNewLab(t)
	node, other := attach(t, e, 1), attach(t, e, 2)
	for port := 40000; port < 40000+blockSize; port++ {
		c, err := dialFrom(node, "tcp4", port, netlab.Web+":80")
		if err != nil {
			t.Fatalf("connection %d: %v", port-40000+1, err)
		}
		defer c.Close()
	}
	if c, err := dialFrom(node, "tcp4", 0, netlab.Web+":80"); err == nil {
		c.Close()
		t.Error("there was a port beyond the block")
	}
	for what, dial := range map[string]func() (net.Conn, error){
		"to another port":   func() (net.Conn, error) { return dialFrom(node, "udp4", 0, netlab.Web+":81") },
		"from another node": func() (net.Conn, error) { return dialFrom(other, "tcp4", 0, netlab.Web+":80") },
	} {
		c, err := dial()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		c.Close()
	}
}

// TestConflictingPortsOnHost opens two Routers whose nodes have the same port block.
func TestConflictingPortsOnHost(t *testing.T) {
	b := netlab.New(t, netlab.Options{})
	var server net.Listener
	must(t, b.Outside(func() (err error) { server, err = net.Listen("tcp4", netlab.Web+":7"); return err }))
	ports := make(chan uint16, 4*blockSize)
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				close(ports)
				return
			}
			defer c.Close()
			ports <- netip.MustParseAddrPort(c.RemoteAddr().String()).Port()
		}
	}()
	one, two := options(t, b, "out-a"), options(t, b, "out-b")
	two.Number = blocks // which begins where 0 does
	nodes := []*os.File{attach(t, open(t, one), 1), attach(t, open(t, two), 1)}
	connected := 0
	for range blockSize / 2 {
		for _, node := range nodes {
			c, err := dialFrom(node, "tcp4", 0, netlab.Web+":7")
			if err != nil {
				continue // the first packets are lost; a repeated connection uses the next port
			}
			connected++
			defer c.Close()
		}
		if connected > 40 {
			break
		}
	}
	server.Close()
	low, high := portsOf(0, 1)
	arrived := 0
	for p := range ports {
		if arrived++; p < low || p > high {
			t.Errorf("a connection came from port %d, which is not of %d to %d", p, low, high)
		}
	}
	if arrived < connected || connected < 2 {
		t.Errorf("%d connections, of which %d arrived", connected, arrived)
	}
}
