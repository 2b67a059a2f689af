package main

import (
	endian "encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// These tasks of the test program change the node's side of its links, as root of the node can.
// Each returns "done" or an error.

// eachLink calls f for each interface on a link.
func eachLink(f func(l netlink.Link) error) string {
	all, err := netlink.LinkList()
	if err != nil {
		return err.Error()
	}
	n := 0
	for _, l := range all {
		if name := l.Attrs().Name; !strings.HasPrefix(name, "eth") || name == "eth0" {
			continue
		}
		n++
		if err := f(l); err != nil {
			return fmt.Sprintf("%s: %v", l.Attrs().Name, err)
		}
	}
	if n == 0 {
		return "there is no link"
	}
	return "done"
}

// bendQdiscs replaces the queues of the node's side by queues without a limit.
func bendQdiscs() string {
	return eachLink(func(l netlink.Link) error {
		attrs := netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
		err := netlink.QdiscReplace(&netlink.Tbf{QdiscAttrs: attrs, Rate: 10e9 / 8, Limit: 64 << 20, Buffer: 64 << 20})
		if err != nil {
			return err
		}
		return netlink.LinkSetTxQLen(l, 100000)
	})
}

// bendOffloads leaves segmentation and checksums to the other side.
func bendOffloads() string {
	return eachLink(func(l netlink.Link) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for _, command := range []uint32{unix.ETHTOOL_STXCSUM, unix.ETHTOOL_SSG, unix.ETHTOOL_STSO, unix.ETHTOOL_SGSO, unix.ETHTOOL_SGRO} {
			value := struct{ command, data uint32 }{command, 1}
			request := struct {
				name [unix.IFNAMSIZ]byte
				data unsafe.Pointer
				_    [16]byte
			}{data: unsafe.Pointer(&value)}
			copy(request.name[:], l.Attrs().Name)
			if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); e != 0 && e != unix.EOPNOTSUPP {
				return e
			}
		}
		return netlink.LinkSetGSOMaxSize(l, 500000)
	})
}

func bendMTU() string {
	return eachLink(func(l netlink.Link) error { return netlink.LinkSetMTU(l, 9000) })
}

// bendAddress adds the addresses of other nodes, on all networks.
func bendAddress() string {
	return eachLink(func(l netlink.Link) error {
		all, err := netlink.AddrList(l, netlink.FAMILY_V4)
		if err != nil {
			return err
		}
		for _, a := range all {
			for host := range byte(20) {
				ip := append(net.IP(nil), a.IP.To4()...)
				ip[3] = 100 + host
				if err := netlink.AddrReplace(l, &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: a.Mask}}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// bendMAC sets another MAC address.
func bendMAC() string {
	return eachLink(func(l netlink.Link) error {
		mac := append(net.HardwareAddr(nil), l.Attrs().HardwareAddr...)
		mac[1] ^= 0xff
		return netlink.LinkSetHardwareAddr(l, mac)
	})
}

func bendName() string {
	return eachLink(func(l netlink.Link) error {
		name := l.Attrs().Name
		err := errors.Join(netlink.LinkSetDown(l), netlink.LinkSetName(l, "x"+name), netlink.LinkSetUp(l))
		return errors.Join(err, netlink.LinkSetDown(l), netlink.LinkSetName(l, name), netlink.LinkSetUp(l))
	})
}

func deleteLinks() string { return eachLink(netlink.LinkDel) }

// flood repeats a function as often as possible, on two threads, for the requested time.
func flood(prepare func(l netlink.Link) (func() error, error)) string {
	return eachLink(func(l netlink.Link) error {
		if l.Attrs().Name != told.Device {
			return nil
		}
		var work sync.WaitGroup
		errs := make([]error, 2)
		end := time.Now().Add(told.Time)
		for i := range errs {
			send, err := prepare(l)
			if err != nil {
				return err
			}
			work.Go(func() {
				for time.Now().Before(end) {
					for range 64 {
						if err := send(); err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EAGAIN) {
							errs[i] = err
							return
						}
					}
				}
			})
		}
		work.Wait()
		return errors.Join(errs...)
	})
}

// rawSocket sends whole frames.
func rawSocket(l netlink.Link) (send func(frame []byte) error, err error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	to := &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index, Protocol: 0x0008, Halen: 6}
	return func(frame []byte) error { return unix.Sendto(fd, frame, 0, to) }, nil
}

// floodFrames sends broadcasts of all lengths from ever new addresses.
func floodFrames(l netlink.Link) (func() error, error) {
	send, err := rawSocket(l)
	frame := make([]byte, 1514)
	return func() error {
		for i := range 6 {
			frame[i] = 0xff
		}
		endian.BigEndian.PutUint64(frame[6:], rand.Uint64()&^(1<<56))
		endian.BigEndian.PutUint16(frame[12:], 0x88b5)
		return send(frame[:60+rand.IntN(len(frame)-60)])
	}, err
}

// floodARP sends ARP requests and claims for all addresses of the network.
func floodARP(l netlink.Link) (func() error, error) {
	send, err := rawSocket(l)
	frame := make([]byte, 60)
	return func() error {
		for i := range 6 {
			frame[i] = 0xff
		}
		copy(frame[6:], l.Attrs().HardwareAddr)
		copy(frame[12:], []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, byte(1 + rand.IntN(2))})
		copy(frame[22:], l.Attrs().HardwareAddr)
		copy(frame[28:], []byte{10, 7, 0, byte(rand.IntN(256))})
		copy(frame[38:], []byte{10, 7, 0, byte(rand.IntN(256))})
		return send(frame)
	}, err
}

// floodUDP sends datagrams in short frames, enough for 10 Mbit/s also on a busy host. It uses many sockets,
// because the kernel delays each one with many unsent datagrams.
func floodUDP(netlink.Link) (func() error, error) {
	to := netip.MustParseAddrPort(told.Address)
	var sockets []int
	for range 16 {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		sockets = append(sockets, fd)
	}
	payload, n := make([]byte, 118), 0
	return func() error {
		n++
		err := unix.Sendto(sockets[n%len(sockets)], payload, 0, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
		if errors.Is(err, unix.ECONNREFUSED) {
			return nil
		}
		return err
	}, nil
}
