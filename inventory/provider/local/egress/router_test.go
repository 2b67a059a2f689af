package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"patchbay/am/testkit/netlab"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider/local/netspace"
)

// TestBlockedNetworksAreRefused checks that a server in each blocked network is reachable from the
// host only. A server in a network beside some of them is also reachable from nodes.
func TestBlockedNetworksAreRefused(t *testing.T) {
	blocked := []string{
		"0.1.2.3", "10.255.255.255", "100.127.255.254", "100.64.77.77", "169.254.169.254", "172.16.0.1", "172.31.255.254",
		"192.0.0.9", "192.168.0.1", "198.18.0.1", "198.19.255.254", "240.0.0.1", "198.51.100.200", netlab.Host,
	}
	open4 := []string{"9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255", "198.17.255.255", "198.20.0.0", "198.51.100.201"}
	b := netlab.New(t, netlab.Options{Addresses: append(open4, blocked[:len(blocked)-1]...)})
	serve(t, b.Space(), netlab.Host+":80")
	o := options(t, b, "out-t")
	o.Block = []netip.Prefix{netip.MustParsePrefix("198.51.100.200/32")}
	e := open(t, o)
	node := attach(t, e, 1)
	for _, a := range blocked {
		c, err := dialIn(b.Space(), "tcp4", a+":80")
		if err != nil {
			t.Fatalf("the host does not reach %s either: %v", a, err)
		}
		c.Close()
		if c, err := dialIn(node, "tcp4", a+":80"); err == nil {
			c.Close()
			t.Errorf("%s was reached", a)
		} else if !errors.Is(err, syscall.EHOSTUNREACH) {
			t.Errorf("%s is not refused, but: %v", a, err)
		}
	}
	for _, a := range open4 {
		c, err := dialIn(node, "tcp4", a+":80")
		if err != nil {
			t.Errorf("%s, beside a blocked network: %v", a, err)
			continue
		}
		c.Close()
	}
}

func TestHostIsUnreachable(t *testing.T) {
	t.Parallel()
	b := netlab.New(t, netlab.Options{})
	serve(t, b.Space(), "0.0.0.0:81")
	e := open(t, options(t, b, "out-t"))
	node := attach(t, e, 1)
	own, _ := uplink(e.options.Number)
	for _, a := range []string{netlab.Host, own.Addr().String(), "127.0.0.1", Gateway().String()} {
		if err := readGreeting(node, a+":81"); err == nil {
			t.Errorf("%s was reached", a)
		}
	}
	// Even if the egress namespace is compromised, the host's own filter holds.
	var sink net.PacketConn
	must(t, b.Do(func() (err error) { sink, err = net.ListenPacket("udp4", ":9"); return err }))
	defer sink.Close()
	for _, a := range []string{netlab.Host, own.Addr().String()} {
		c, err := dialIn(e.space, "udp4", a+":9")
		must(t, err)
		fmt.Fprint(c, "x")
		c.Close()
	}
	_ = sink.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if _, from, err := sink.ReadFrom(make([]byte, 1)); err == nil {
		t.Errorf("the host got something from %v, in the exit", from)
	}
	must(t, b.AddAddress(netip.MustParsePrefix("203.0.113.77/24")))
	wait.Success(t, "an address that the host gets later", func() error {
		err := readGreeting(node, "203.0.113.77:81")
		if !errors.Is(err, syscall.EHOSTUNREACH) {
			return fmt.Errorf("not refused: %w", err)
		}
		return nil
	})
}

func TestNodesAreSeparate(t *testing.T) {
	t.Parallel()
	b, e := openInNewLab(t)
	one, two := attach(t, e, 1), attach(t, e, 2)
	serve(t, two, ":80")
	if err := readGreeting(two, Address(2).String()+":80"); err != nil {
		t.Fatalf("the server does not work: %v", err)
	}
	if err := readGreeting(one, Address(2).String()+":80"); !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Errorf("one node reached another: %v", err)
	}
	// No outside host can connect either, not even the lab's host.
	_, behind := uplink(e.options.Number)
	err := b.Do(func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: netspace.IPNet(NodeNetwork()), Gw: behind.Addr().AsSlice()})
	})
	must(t, err)
	if err := readGreeting(b.Space(), Address(2).String()+":80"); err == nil {
		t.Error("the host reached a node")
	}
}

// TestNodesHaveOneAddress has root of a node use other addresses.
func TestNodesHaveOneAddress(t *testing.T) {
	b := netlab.New(t, netlab.Options{})
	var sink net.PacketConn
	err := b.Outside(func() (err error) {
		sink, err = net.ListenPacket("udp4", netlab.Web+":9")
		return err
	})
	must(t, err)
	defer sink.Close()
	e := open(t, options(t, b, "out-t"))
	node := attach(t, e, 1)
	attach(t, e, 2)
	_, behind := uplink(e.options.Number)
	others := []netip.Addr{Address(2), Address(3), netip.MustParseAddr("198.51.100.9"), netip.MustParseAddr("10.0.0.1"), behind.Addr(), Gateway()}
	send := func(from netip.Addr) error {
		return netspace.Inside(node, func() error {
			c, err := net.DialUDP("udp4", &net.UDPAddr{IP: from.AsSlice()}, &net.UDPAddr{IP: net.ParseIP(netlab.Web), Port: 9})
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write([]byte(from.String()))
			return err
		})
	}
	for _, a := range others {
		err := netspace.Inside(node, func() error {
			l, err := netlink.LinkByName(Interface)
			if err != nil {
				return err
			}
			return netlink.AddrAdd(l, &netlink.Addr{IPNet: netspace.IPNet(netip.PrefixFrom(a, 32))})
		})
		if err == nil {
			err = send(a)
		}
		must(t, err)
	}
	must(t, send(Address(1)))
	_ = sink.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 64)
	n, _, err := sink.ReadFrom(buf)
	if got := string(buf[:n]); err != nil || got != Address(1).String() {
		t.Errorf("arrived from %q, %v", got, err)
	}
}

// TestHostForwardsForNodesOnly checks that a host which did not forward to a network behind it
// still does not do so.
func TestHostForwardsForNodesOnly(t *testing.T) {
	b := netlab.New(t, netlab.Options{})
	behind := space(t)
	err := b.Do(func() error {
		pair := netlink.NewVeth(netlink.LinkAttrs{Name: "lan0"})
		pair.PeerName, pair.PeerNamespace = "lan1", netlink.NsFd(int(behind.Fd()))
		if err := netlink.LinkAdd(pair); err != nil {
			return err
		}
		return configure(&netlink.Handle{}, "lan0", netip.MustParsePrefix("10.50.0.1/24"), netip.MustParseAddr("10.50.0.2"), hardware(9, 2))
	})
	var sink net.PacketConn
	if err == nil {
		err = netspace.Inside(behind, func() (err error) {
			l, err := netlink.LinkByName("lan1")
			if err == nil {
				err = netlink.LinkSetHardwareAddr(l, hardware(9, 2))
			}
			if err == nil {
				err = configure(&netlink.Handle{}, "lan1", netip.MustParsePrefix("10.50.0.2/24"), netip.MustParseAddr("10.50.0.1"), hardware(9, 1))
			}
			if err == nil {
				sink, err = net.ListenPacket("udp4", ":9")
			}
			return err
		})
	}
	if err == nil {
		defer sink.Close()
		err = b.Outside(func() error {
			return netlink.RouteAdd(&netlink.Route{Dst: netspace.IPNet(netip.MustParsePrefix("10.50.0.0/24")), Gw: net.ParseIP(netlab.Host)})
		})
	}
	must(t, err)
	arrives := func() bool {
		err := b.Outside(func() error {
			c, err := net.Dial("udp4", "10.50.0.2:9")
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write([]byte("x"))
			return err
		})
		must(t, err)
		_ = sink.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		_, _, err = sink.ReadFrom(make([]byte, 1))
		return err == nil
	}
	o := options(t, b, "out-t")
	e := open(t, o)
	node := attach(t, e, 1)
	if _, err := fetch(node, "http://"+netlab.Web); err != nil {
		t.Fatal(err)
	}
	if arrives() {
		t.Error("the host passes on for strangers")
	}
	// An administrator enables forwarding for all devices: that must stay.
	must(t, b.Do(func() error { return setSysctls([2]string{"ipv4/ip_forward", "1"}) }))
	wait.Success(t, "forwarding that somebody else has switched on", func() error {
		if !arrives() {
			return errors.New("nothing arrives")
		}
		return nil
	})
	must(t, errors.Join(e.Close(), b.Do(func() error { return Remove(o.Folder, o.Instance) })))
	if !arrives() {
		t.Error("forwarding that an administrator enabled was disabled")
	}
}

// stateOf returns everything of the Routers on the lab's host.
func stateOf(t *testing.T, b *netlab.Lab) (all []string) {
	t.Helper()
	err := b.Do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		tables, err := c.ListTables()
		if err != nil {
			return err
		}
		for _, t := range tables {
			all = append(all, "table "+t.Name)
		}
		links, err := netlink.LinkList()
		for _, l := range links {
			if l.Attrs().Name != "lo" && l.Attrs().Name != "eth0" {
				all = append(all, "device "+l.Attrs().Name)
			}
		}
		if isForwarding("eth0") {
			all = append(all, "forwarding")
		}
		return err
	})
	must(t, err)
	return all
}

func TestTwoRoutersOnOneHost(t *testing.T) {
	b := netlab.New(t, netlab.Options{})
	one, two := options(t, b, "out-a"), options(t, b, "out-b")
	two.Number = 1
	first, second := open(t, one), open(t, two)
	a, c := attach(t, first, 1), attach(t, second, 1)
	serve(t, c, ":80")
	for _, node := range []*os.File{a, c} {
		if got, err := fetch(node, "http://a.example.org/"); err != nil || got != "a.example.org/" {
			t.Errorf("fetched %q, %v", got, err)
		}
	}
	must(t, errors.Join(first.Close(), b.Do(func() error { return Remove(one.Folder, one.Instance) })))
	if got, err := fetch(c, "http://b.example.org/"); err != nil || got != "b.example.org/" {
		t.Errorf("the second fetched %q, %v", got, err)
	}
	must(t, errors.Join(second.Close(), b.Do(func() error { return Remove(two.Folder, two.Instance) })))
	if left := stateOf(t, b); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}

func TestRouterIsReopened(t *testing.T) {
	b := netlab.New(t, netlab.Options{})
	o := options(t, b, "out-t")
	e := open(t, o)
	node := attach(t, e, 1)
	var l net.Listener
	must(t, b.Outside(func() (err error) { l, err = net.Listen("tcp4", netlab.Web+":9"); return err }))
	defer l.Close()
	c, err := dialIn(node, "tcp4", netlab.Web+":9")
	must(t, err)
	defer c.Close()
	s, err := l.Accept()
	must(t, err)
	defer s.Close()
	before := stateOf(t, b)
	e.Close()
	e = open(t, o)
	if after := stateOf(t, b); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("there is %q, was %q", after, before)
	}
	// A reattached node keeps the changes of its root.
	err = netspace.Inside(node, func() error {
		l, err := netlink.LinkByName(Interface)
		if err != nil {
			return err
		}
		return netlink.LinkAddAltName(l, "mine")
	})
	if err == nil {
		err = e.Attach(t.Context(), 1, node)
	}
	if err == nil {
		err = netspace.Inside(node, func() error { _, err := netlink.LinkByName("mine"); return err })
	}
	if err != nil {
		t.Error(err)
	}
	_ = s.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprint(c, "still")
	buf := make([]byte, 5)
	if _, err := io.ReadFull(s, buf); err != nil || string(buf) != "still" {
		t.Errorf("over an old connection came %q, %v", buf, err)
	}
}

func TestRouterIsRepaired(t *testing.T) {
	t.Parallel()
	b := netlab.New(t, netlab.Options{})
	o := options(t, b, "out-t")
	e := open(t, o)
	node := attach(t, e, 1)
	for _, tt := range []struct {
		what string
		do   func() error
		in   *os.File
	}{
		{"its device on the host", func() error { return remove(e.device) }, b.Space()},
		{"its other end", func() error { return remove(outside) }, e.space},
		{"its address", func() error {
			l, err := netlink.LinkByName(e.device)
			if err != nil {
				return err
			}
			own, _ := uplink(o.Number)
			return netlink.AddrDel(l, &netlink.Addr{IPNet: netspace.IPNet(own)})
		}, b.Space()},
		{"the rules of the host", func() error {
			c, err := nftables.New()
			if err != nil {
				return err
			}
			c.FlushRuleset()
			return c.Flush()
		}, b.Space()},
		{"forwarding", func() error { return setSysctls([2]string{"ipv4/ip_forward", "0"}) }, b.Space()},
	} {
		must(t, netspace.Inside(tt.in, tt.do))
		wait.Success(t, tt.what, func() error {
			_, err := fetch(node, "http://"+netlab.Web)
			return err
		})
	}
	// The filter, whose loss no user would notice.
	for what, take := range map[string]func(c *nftables.Conn){
		"the filter":           func(c *nftables.Conn) { c.DelTable(e.table.table) },
		"its rules":            func(c *nftables.Conn) { c.FlushTable(e.table.table) },
		"the blocked networks": func(c *nftables.Conn) { c.FlushSet(e.table.sets[0]) },
		"the first of its rules": func(c *nftables.Conn) {
			rules, err := c.GetRules(e.table.table, e.table.rules[0].Chain)
			if err == nil {
				err = c.DelRule(rules[0])
			}
			if err != nil {
				t.Error(err)
			}
		},
	} {
		err := netspace.Inside(e.space, func() error {
			c, err := nftables.New()
			if err != nil {
				return err
			}
			take(c)
			return c.Flush()
		})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		wait.Success(t, what, func() error {
			err := netspace.Inside(e.space, func() error {
				c, err := nftables.New()
				if err == nil && !e.table.isIntact(c) {
					err = errors.New("something is missing")
				}
				return err
			})
			if err != nil {
				return err
			}
			if err := readGreeting(node, "10.0.0.1:80"); !errors.Is(err, syscall.EHOSTUNREACH) {
				return fmt.Errorf("not refused: %v", err)
			}
			_, err = fetch(node, "http://"+netlab.Web)
			return err
		})
	}
}

func TestNodesReattachAndDetach(t *testing.T) {
	_, e := openInNewLab(t)
	for range 10 { // its namespace ends, and the next one begins at once
		node := attach(t, e, 7)
		if _, err := fetch(node, "http://"+netlab.Web); err != nil {
			t.Fatal(err)
		}
		node.Close()
	}
	other := attach(t, e, 8)
	must(t, e.Sweep(func(n int) bool { return n == 8 }))
	err := netlinkIn(e.space, func(h *netlink.Handle) error {
		if l, err := link(h, port(7)); l != nil || err != nil {
			return fmt.Errorf("a swept node exists: %v, %w", l, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := fetch(other, "http://"+netlab.Web); err != nil {
		t.Error(err)
	}
	if err := errors.Join(e.Detach(8), e.Detach(8), e.Detach(9)); err != nil {
		t.Errorf("detach again: %v", err)
	}
	own := space(t)
	err = netspace.Inside(own, func() error {
		pair := netlink.NewVeth(netlink.LinkAttrs{Name: Interface})
		pair.PeerName = "mine"
		return netlink.LinkAdd(pair)
	})
	must(t, err)
	if err := e.Attach(t.Context(), 9, own); !errors.Is(err, ErrOccupied) {
		t.Errorf("with another device in its place: %v", err)
	}
}

func TestConnectionsOfOneNodeAreLimited(t *testing.T) {
	t.Parallel()
	b, e := openInNewLab(t)
	node, other := attach(t, e, 1), attach(t, e, 2)
	before, start := connections(t, b), time.Now()
	flood := func() {
		t.Helper()
		err := netspace.Inside(node, func() error {
			for port := range 5000 {
				c, err := net.Dial("udp4", net.JoinHostPort(netlab.Web, strconv.Itoa(1000+port)))
				if err != nil {
					return err
				}
				_, _ = c.Write([]byte("x"))
				c.Close()
			}
			return nil
		})
		must(t, err)
	}
	flood()
	n := connections(t, b) - before
	if most := nodeRate * (3 + int(time.Since(start).Seconds())); n < nodeRate || n > most {
		t.Errorf("one node made %d connections at once, may make %d to %d", n, nodeRate, most)
	}
	for time.Since(start) < 4*time.Second || connections(t, b)-before <= nodeConnections*8/10 && time.Since(start) < 25*time.Second {
		flood()
	}
	if n := connections(t, b) - before; n <= nodeConnections*8/10 || n > nodeConnections {
		t.Errorf("one node has %d connections, may have %d", n, nodeConnections)
	}
	if _, err := fetch(other, "http://a.example.org"); err != nil {
		t.Errorf("the other node: %v", err)
	}
}

func connections(t *testing.T, b *netlab.Lab) (n int) {
	t.Helper()
	err := b.Do(func() error {
		text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
		if err == nil {
			_, err = fmt.Sscan(strings.TrimSpace(string(text)), &n)
		}
		return err
	})
	must(t, err)
	return n
}

// TestLostMountIsRecreated removes the mount, as an administrator or a boot does.
func TestLostMountIsRecreated(t *testing.T) {
	b := netlab.New(t, netlab.Options{})
	o := options(t, b, "out-t")
	e := open(t, o)
	node := attach(t, e, 1)
	path := filepath.Join(o.Folder, pinFile)
	must(t, netspace.Remove(path))
	must(t, os.WriteFile(path, nil, 0o600))
	e.Close()
	e = open(t, o)
	wait.Success(t, "the node in the new exit", func() error { return e.Attach(t.Context(), 1, node) })
	if _, err := fetch(node, "http://a.example.org"); err != nil {
		t.Error(err)
	}
}
