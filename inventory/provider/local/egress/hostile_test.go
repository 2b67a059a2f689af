package egress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/netlab"
	"patchbay/am/testkit/wait"
	"patchbay/inventory/provider/local/netspace"
)

// rawSender returns a function that sends IPv4 packets made by a node's root.
func rawSender(t *testing.T, node *os.File) func(packet []byte) {
	t.Helper()
	fd := -1
	err := netspace.Inside(node, func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		return err
	})
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return func(packet []byte) {
		to := unix.SockaddrInet4{Addr: [4]byte(packet[destination:])}
		for {
			err := unix.Sendto(fd, packet, 0, &to)
			if err == unix.ENOBUFS || err == unix.EINTR {
				continue
			}
			if err != nil {
				t.Error(err)
			}
			return
		}
	}
}

// packet returns a packet whose header checksum the kernel computes.
func packet(from, to netip.Addr, kind byte, id, fragment uint16, payload []byte) []byte {
	b := []byte{0x45, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(20+len(payload)))
	b = binary.BigEndian.AppendUint16(b, id)
	b = binary.BigEndian.AppendUint16(b, fragment)
	b = append(b, 64, kind, 0, 0)
	b = append(b, from.AsSlice()...)
	b = append(b, to.AsSlice()...)
	return append(b, payload...)
}

// TestFragmentsOfOneNodeAreLimited has a node send only first fragments, from its own address and
// from others.
func TestFragmentsOfOneNodeAreLimited(t *testing.T) {
	b := netlab.New(t, netlab.Options{})
	web := netip.MustParseAddr(netlab.Web)
	var server net.PacketConn
	must(t, b.Outside(func() (err error) { server, err = net.ListenPacket("udp4", netlab.Web+":9"); return err }))
	defer server.Close()
	e := open(t, options(t, b, "out-t"))
	bad, good := attach(t, e, 1), attach(t, e, 2)
	send := rawSender(t, bad)
	for _, own := range []bool{true, false} {
		stop, stopped := make(chan struct{}), make(chan struct{})
		flood := func(n int) {
			for i := range n {
				from := Address(1)
				if !own {
					from = Address(2 + i%5000)
				}
				send(packet(from, web, unix.IPPROTO_UDP, uint16(i), 0x2000, make([]byte, 1200)))
			}
		}
		flood(10_000)
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					flood(100)
				}
			}
		}()
		c, err := dialIn(good, "udp4", netlab.Web+":9")
		must(t, err)
		got := 0
		for range 20 {
			if _, err := c.Write(make([]byte, 4000)); err != nil {
				t.Fatal(err)
			}
			_ = server.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			if n, _, err := server.ReadFrom(make([]byte, 5000)); err == nil && n == 4000 {
				got++
			}
		}
		if got < 10 {
			t.Errorf("own address %v: of 20 packets of another node in several parts %d arrived", own, got)
		}
		c.Close()
		close(stop)
		<-stopped
	}
}

// TestNodesCannotInjectFragments has a node send the second fragment of another node's packet.
func TestNodesCannotInjectFragments(t *testing.T) {
	b := netlab.New(t, netlab.Options{})
	web := netip.MustParseAddr(netlab.Web)
	var server net.PacketConn
	must(t, b.Outside(func() (err error) { server, err = net.ListenPacket("udp4", netlab.Web+":9"); return err }))
	defer server.Close()
	e := open(t, options(t, b, "out-t"))
	bad, good := rawSender(t, attach(t, e, 1)), rawSender(t, attach(t, e, 2))
	first := packet(Address(2), web, unix.IPPROTO_UDP, 77, 0x2000, append([]byte{0, 9, 0, 9, 0, 48, 0, 0}, make([]byte, 16)...))
	second := packet(Address(2), web, unix.IPPROTO_UDP, 77, 3, make([]byte, 24))
	bad(second)
	time.Sleep(10 * time.Millisecond)
	good(first)
	buf := make([]byte, 100)
	_ = server.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if n, _, err := server.ReadFrom(buf); err == nil {
		t.Errorf("%d bytes came of a packet of two nodes", n)
	}
	good(second)
	_ = server.SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, _, err := server.ReadFrom(buf); err != nil || n != 40 {
		t.Errorf("of a packet of one node came %d bytes, %v", n, err)
	}
}

// TestNodesCannotForgeICMPErrors has a node send a server outside an ICMP error about another
// node's port.
func TestNodesCannotForgeICMPErrors(t *testing.T) {
	b := netlab.New(t, netlab.Options{})
	var server, errs net.PacketConn
	err := b.Outside(func() (err error) {
		if server, err = net.ListenPacket("udp4", netlab.Web+":9"); err == nil {
			errs, err = net.ListenPacket("ip4:icmp", netlab.Web)
		}
		return err
	})
	must(t, err)
	defer server.Close()
	defer errs.Close()
	e := open(t, options(t, b, "out-t"))
	bad, good := attach(t, e, 1), attach(t, e, 2)
	c, err := dialIn(good, "udp4", netlab.Web+":9")
	must(t, err)
	defer c.Close()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_ = server.SetReadDeadline(time.Now().Add(5 * time.Second))
	_, back, err := server.ReadFrom(make([]byte, 1))
	must(t, err)
	web := netip.MustParseAddr(netlab.Web)
	ports := binary.BigEndian.AppendUint16([]byte{0, 9}, uint16(c.LocalAddr().(*net.UDPAddr).Port))
	about := packet(web, Address(2), unix.IPPROTO_UDP, 1, 0, append(ports, 0, 9, 0, 0, 'x'))
	about[10], about[11] = sum(about[:20])
	icmp := append([]byte{3, 3, 0, 0, 0, 0, 0, 0}, about...)
	icmp[2], icmp[3] = sum(icmp)
	send := rawSender(t, bad)
	for range 10 {
		send(packet(Address(1), web, unix.IPPROTO_ICMP, 1, 0, icmp))
	}
	_ = errs.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	buf := make([]byte, 200)
	if n, from, err := errs.ReadFrom(buf); err == nil {
		t.Errorf("outside came %x from %v", buf[:n], from)
	}
	if _, err := server.WriteTo([]byte("y"), back); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Read(buf); err != nil {
		t.Errorf("the connection of the other node: %v", err)
	}
	// ICMP errors about a node's own connections reach it.
	server.Close()
	wait.Success(t, "an error from outside", func() error {
		if _, err := c.Write([]byte("x")); errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := c.Read(buf); !errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("the ICMP error did not arrive: %v", err)
		}
		return nil
	})
}

// sum returns the Internet checksum.
func sum(b []byte) (high, low byte) {
	n := uint32(0)
	for i := range b {
		n += uint32(b[i]) << (8 * ((i + 1) % 2))
	}
	n = n&0xffff + n>>16
	n = ^(n&0xffff + n>>16)
	return byte(n >> 8), byte(n)
}
