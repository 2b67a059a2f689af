package fabric

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"patchbay/am/testkit/hoststate"
	"patchbay/am/testkit/require"
	"patchbay/inventory/provider/local/netspace"
	"patchbay/inventory/provider/local/vswitch"
)

func TestMain(m *testing.M) {
	if os.Args[0] == vswitch.Argv0 {
		vswitch.Main()
		os.Exit(0)
	}
	if os.Getenv(killedVariable) != "" {
		workUntilKilled()
	}
	os.Exit(m.Run())
}

// options returns the options of a Host whose switch process is this test binary.
func options(folder, emulator string) Options {
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Options{
		Folder: folder, Instance: "test", Emulator: emulator,
		VSwitch: vswitch.Options{Program: program, UID: 54321},
		Log:     slog.New(slog.DiscardHandler),
	}
}

// open returns a Host in a new folder. At the end of the test all networks are removed,
// and nothing may be left.
func open(t testing.TB, emulator string) *Host {
	t.Helper()
	require.NetNS(t)
	folder := t.TempDir()
	before, err := hoststate.Take(hoststate.Options{Only: []string{folder}, Roots: []string{folder}})
	must(t, err)
	h, err := Open(options(folder, emulator))
	must(t, err)
	t.Cleanup(func() {
		removeAllNetworks(t, h)
		if err := h.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		os.Remove(folder + "/slices")
		os.Remove(folder + "/shared")
		hoststate.Await(t, before, 30*time.Second)
	})
	return h
}

func removeAllNetworks(t testing.TB, h *Host) {
	t.Helper()
	names, err := h.Slices()
	must(t, err)
	for _, s := range names {
		if err := h.RemoveNetwork(context.Background(), s); err != nil {
			t.Errorf("Drop(%s): %v", s, err)
		}
	}
}

// node is a network namespace in place of a node.
type node struct {
	testing.TB
	file *os.File
}

func newNode(t testing.TB) *node {
	t.Helper()
	n := &node{TB: t, file: newNamespace(t)}
	t.Cleanup(func() { n.file.Close() })
	return n
}

func newNamespace(t testing.TB) *os.File {
	t.Helper()
	f, err := netspace.New()
	must(t, err)
	return f
}

// restart gives the node a new namespace, and releases the old one.
func (n *node) restart() {
	old := n.file
	n.file = newNamespace(n)
	old.Close()
}

// do runs f in the node.
func (n *node) do(f func() error) {
	n.Helper()
	if err := netspace.Inside(n.file, f); err != nil {
		n.Fatal(err)
	}
}

// udp opens a socket in the node, which the caller closes.
func (n *node) udp(addr string) *net.UDPConn {
	n.Helper()
	var c *net.UDPConn
	n.do(func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(addr)))
		return err
	})
	n.Cleanup(func() { c.Close() })
	return c
}

// interfaces returns the names of the node's interfaces, without lo.
func (n *node) interfaces() string {
	var names []string
	n.do(func() error {
		list, err := net.Interfaces()
		for _, i := range list {
			if i.Name != "lo" {
				names = append(names, i.Name)
			}
		}
		return err
	})
	return strings.Join(names, " ")
}

// describe describes an interface of the node.
func (n *node) describe(name string) string {
	var text string
	n.do(func() error {
		i, err := net.InterfaceByName(name)
		if err != nil {
			text = "none"
			return nil
		}
		addrs, err := i.Addrs()
		var list []string
		for _, a := range addrs {
			if !strings.HasPrefix(a.String(), "fe80") {
				list = append(list, a.String())
			}
		}
		text = fmt.Sprintf("%s %d %v up=%v", i.HardwareAddr, i.MTU, list, i.Flags&net.FlagUp != 0)
		return err
	})
	return text
}

// end returns end number i of a link, with the addresses 10.0.0.i and fd00::i.
func end(i int) End {
	return End{
		ID:     fmt.Sprintf("node%d/0", i),
		MAC:    net.HardwareAddr{2, 0, 0, 0, byte(i >> 8), byte(i)},
		IfName: "eth1",
		Addresses: []netip.Prefix{
			netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 16),
			netip.MustParsePrefix(fmt.Sprintf("fd00::%x/64", i)),
		},
	}
}

func address(i int) string { return fmt.Sprintf("10.0.%d.%d", i>>8, i&255) }

// lan returns a link of n ends.
func lan(slice string, n int, shapes ...Shape) Link {
	l := Link{Slice: slice, Name: "lan", Shapes: shapes}
	for i := 1; i <= n; i++ {
		l.Ends = append(l.Ends, end(i))
	}
	return l
}

// build sets a link and attaches new nodes.
func build(t testing.TB, h *Host, l Link) []*node {
	t.Helper()
	setLink(t, h, l)
	var nodes []*node
	for range l.Ends {
		nodes = append(nodes, newNode(t))
	}
	plug(t, h, l, nodes)
	return nodes
}

func setLink(t testing.TB, h *Host, l Link) string {
	t.Helper()
	emulator, err := h.SetLink(context.Background(), l)
	if err != nil {
		t.Fatalf("Put: %v", err)
	}
	return emulator
}

// setLinkWithSegmentation sets a link with at most a capacity, and cuts large segments,
// which links otherwise do only with netem.
func setLinkWithSegmentation(h *Host, l Link) (emulator string, err error) {
	ctx := context.Background()
	p, err := decide(l, h.features, Auto)
	if err != nil {
		return "", err
	}
	s, unlock, err := h.lockSlice(ctx, l.Slice)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := s.open(true); err != nil {
		return "", err
	}
	for i := range p.ports {
		p.ports[i].split = true
	}
	l.Shapes = nil
	return p.emulator, h.makeLink(ctx, s, &made{link: l, plan: p, shaped: make(map[string]shaper)})
}

// buildWithSegmentation is build with setLinkWithSegmentation.
func buildWithSegmentation(t testing.TB, h *Host, l Link) []*node {
	t.Helper()
	nodes := build(t, h, l)
	if _, err := setLinkWithSegmentation(h, l); err != nil {
		t.Fatal(err)
	}
	return nodes
}

func plug(t testing.TB, h *Host, l Link, nodes []*node) {
	t.Helper()
	for i, e := range l.Ends {
		if err := h.AttachEnd(context.Background(), l.Slice, l.Name, e.ID, nodes[i].file); err != nil {
			t.Fatalf("Plug: %v", err)
		}
	}
}

// isReachable reports whether a datagram from one address reaches another within the
// time.
func isReachable(t testing.TB, a *node, from string, b *node, to string, patience time.Duration) bool {
	t.Helper()
	in, out := b.udp(addrPort(to)), a.udp(addrPort(from))
	defer in.Close()
	defer out.Close()
	deadline := time.Now().Add(patience)
	buf := make([]byte, 64)
	for time.Now().Before(deadline) {
		if _, err := out.WriteTo([]byte("hello"), in.LocalAddr()); err != nil {
			return false
		}
		in.SetReadDeadline(time.Now().Add(min(50*time.Millisecond, patience)))
		if n, _, err := in.ReadFrom(buf); err == nil && string(buf[:n]) == "hello" {
			return true
		}
	}
	return false
}

const short, long = 150 * time.Millisecond, 30 * time.Second

func addrPort(addr string) string { return netip.AddrPortFrom(netip.MustParseAddr(addr), 0).String() }

func counters(t testing.TB, h *Host) map[string]Counters {
	t.Helper()
	c, err := h.Counters(context.Background(), "s1")
	must(t, err)
	return c
}

// must ends the test after an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
