package ping

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// socket is an ICMP socket that needs no privileges: the kernel sets the identifier of
// requests, and delivers only answers with this identifier.
type socket struct {
	fd int
	v6 bool
}

// Types of ICMP messages.
const (
	request4, reply4 = 8, 0
	request6, reply6 = 128, 129
)

// headerSize is the size of the header of an ICMP echo message.
const headerSize = 8

func open(to netip.Addr, o *options) (*socket, error) {
	s := &socket{v6: to.Is6()}
	family, protocol := unix.AF_INET, unix.IPPROTO_ICMP
	if s.v6 {
		family, protocol = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	var err error
	if s.fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, protocol); err != nil {
		return nil, fmt.Errorf("socket: %s", errorText(err))
	}
	if err := s.prepare(to, o); err != nil {
		unix.Close(s.fd)
		return nil, err
	}
	return s, nil
}

func (s *socket) prepare(to netip.Addr, o *options) error {
	level, ttl, errs, hops := unix.IPPROTO_IP, unix.IP_RECVTTL, unix.IP_RECVERR, unix.IP_TTL
	if s.v6 {
		level, ttl, errs, hops = unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, unix.IPV6_RECVERR, unix.IPV6_UNICAST_HOPS
	}
	err := errors.Join(unix.SetsockoptInt(s.fd, level, ttl, 1), unix.SetsockoptInt(s.fd, level, errs, 1))
	if err == nil && o.ttl > 0 {
		err = unix.SetsockoptInt(s.fd, level, hops, o.ttl)
	}
	if err == nil && o.from != "" {
		if from, bad := netip.ParseAddr(o.from); bad == nil {
			err = unix.Bind(s.fd, sockaddr(from))
		} else if err = unix.BindToDevice(s.fd, o.from); err != nil {
			return fmt.Errorf("unknown iface: %s", o.from)
		}
	}
	if err != nil {
		return err
	}
	if err := unix.Connect(s.fd, sockaddr(to)); err != nil {
		return fmt.Errorf("connect: %s", errorText(err))
	}
	return nil
}

// errorText returns the text of an error as the C library writes it.
func errorText(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

func sockaddr(a netip.Addr) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4()}
	}
	to := &unix.SockaddrInet6{Addr: a.As16()}
	if i, err := net.InterfaceByName(a.Zone()); err == nil {
		to.ZoneId = uint32(i.Index)
	}
	return to
}

func (s *socket) send(number uint16, payload []byte) error {
	b := make([]byte, headerSize, headerSize+len(payload))
	b[0] = request4
	if s.v6 {
		b[0] = request6
	}
	binary.BigEndian.PutUint16(b[6:], number)
	_, err := unix.Write(s.fd, append(b, payload...))
	return err
}

// answer is an answer or an ICMP error for a request.
type answer struct {
	number uint16
	size   int        // bytes, with the ICMP header
	from   netip.Addr // the sender
	ttl    int        // -1: not known
	wrong  string     // why there is no answer: "Destination Host Unreachable"
}

// receive skips other messages. It returns nil at the deadline or after a signal.
func (s *socket) receive(deadline time.Time, b []byte) (*answer, error) {
	for {
		left := time.Until(deadline)
		timeout := unix.NsecToTimespec(max(left, 0).Nanoseconds())
		n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}, &timeout, nil)
		if err == unix.EINTR {
			return nil, nil // the caller checks whether to stop
		}
		if err != nil || n == 0 {
			return nil, err
		}
		if a, err := s.read(b, unix.MSG_ERRQUEUE); a != nil || err != nil {
			return a, err
		}
		if a, err := s.read(b, 0); a != nil || err != nil || left <= 0 {
			return a, err
		}
	}
}

// read reads an ICMP error if flags is MSG_ERRQUEUE. It returns nil if there is no
// message, or a message of another kind.
func (s *socket) read(b []byte, flags int) (*answer, error) {
	control := make([]byte, 512)
	n, nc, _, from, err := unix.Recvmsg(s.fd, b, control, flags|unix.MSG_DONTWAIT)
	if err != nil {
		// EAGAIN, or an error that is also in the error queue
		return nil, nil
	}
	if n < headerSize {
		return nil, nil
	}
	a := &answer{number: binary.BigEndian.Uint16(b[6:]), size: n, from: addrOf(from), ttl: -1}
	messages, _ := unix.ParseSocketControlMessage(control[:nc])
	for _, m := range messages {
		level, kind := int(m.Header.Level), int(m.Header.Type)
		switch {
		case level == unix.IPPROTO_IP && kind == unix.IP_TTL, level == unix.IPPROTO_IPV6 && kind == unix.IPV6_HOPLIMIT:
			if len(m.Data) >= 4 {
				a.ttl = int(binary.NativeEndian.Uint32(m.Data))
			}
		case level == unix.IPPROTO_IP && kind == unix.IP_RECVERR, level == unix.IPPROTO_IPV6 && kind == unix.IPV6_RECVERR:
			a.wrong, a.from = extendedError(m.Data, s.v6)
		}
	}
	if flags == 0 && (b[0] != reply4 && !s.v6 || b[0] != reply6 && s.v6) || flags != 0 && a.wrong == "" {
		return nil, nil
	}
	return a, nil
}

func addrOf(from unix.Sockaddr) netip.Addr {
	switch a := from.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(a.Addr)
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(a.Addr).Unmap()
	}
	return netip.Addr{}
}

// extendedError parses struct sock_extended_err, which has 16 bytes: errno, origin, and
// the type and code of an ICMP error. The sender's address follows. The returned address
// is invalid if the error comes from this host.
func extendedError(b []byte, v6 bool) (string, netip.Addr) {
	if len(b) < 16 {
		return "", netip.Addr{}
	}
	errno, origin, kind, code := unix.Errno(binary.NativeEndian.Uint32(b)), b[4], b[5], b[6]
	var by netip.Addr
	switch family := b[16:]; {
	case !v6 && len(family) >= 8:
		by = netip.AddrFrom4([4]byte(family[4:8]))
	case v6 && len(family) >= 24:
		by = netip.AddrFrom16([16]byte(family[8:24]))
	}
	if origin != unix.SO_EE_ORIGIN_ICMP && origin != unix.SO_EE_ORIGIN_ICMP6 {
		if errno == unix.EHOSTUNREACH { // address resolution got no answer
			return "Destination Host Unreachable", netip.Addr{}
		}
		return errorText(errno), netip.Addr{}
	}
	return reason(kind, code, v6), by
}

// reason uses the words of iputils.
func reason(kind, code byte, v6 bool) string {
	unreachable, exceeded := byte(3), byte(11) // types of ICMP
	codes := []string{"Destination Net Unreachable", "Destination Host Unreachable", "Destination Protocol Unreachable", "Destination Port Unreachable", "Frag needed and DF set"}
	filtered := []byte{9, 10, 13} // codes: network, host or communication prohibited
	if v6 {
		unreachable, exceeded = 1, 3
		codes = []string{"Destination unreachable: No route", "Destination unreachable: Administratively prohibited", "Destination unreachable: Beyond scope of source address", "Destination unreachable: Address unreachable", "Destination unreachable: Port unreachable"}
		filtered = nil
	}
	switch {
	case kind == exceeded && v6:
		return "Time exceeded: Hop limit"
	case kind == exceeded:
		return "Time to live exceeded"
	case v6 && kind == 2: // ICMPv6: packet too big
		return "Packet too big"
	case kind != unreachable:
		return fmt.Sprintf("ICMP type %d code %d", kind, code)
	}
	for _, f := range filtered {
		if code == f {
			return "Packet filtered"
		}
	}
	if int(code) < len(codes) {
		return codes[code]
	}
	return fmt.Sprintf("Dest Unreachable, Bad Code: %d", code)
}
