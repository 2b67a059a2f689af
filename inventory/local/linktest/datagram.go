package linktest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// headerSize is the size in bytes of a datagram's header. The bytes after the header have no
// meaning.
//
//	0  magic    4 bytes
//	4  type     1 byte
//	8  token    8 bytes: identifies the measurement
//	16 number   8 bytes
//	24 arrived  8 bytes: when an echo arrived at the server, ns since 1970
//	32 left     8 bytes: when the answer left the server
const headerSize = 40

const magic = "pbg1"

// Types of datagrams.
const (
	typeEcho     byte = iota + 1 // requests a typeAnswer of the same length
	typeAnswer                   // answers a typeEcho
	typeNumbered                 // is counted by the receiver
)

type header struct {
	kind          byte
	token, number uint64
	arrived, left int64
}

func (h header) marshal(b []byte) {
	copy(b, magic)
	b[4], b[5], b[6], b[7] = h.kind, 0, 0, 0
	binary.BigEndian.PutUint64(b[8:], h.token)
	binary.BigEndian.PutUint64(b[16:], h.number)
	binary.BigEndian.PutUint64(b[24:], uint64(h.arrived))
	binary.BigEndian.PutUint64(b[32:], uint64(h.left))
}

// parseHeader reports whether b starts with a header.
func parseHeader(b []byte) (header, bool) {
	if len(b) < headerSize || string(b[:4]) != magic {
		return header{}, false
	}
	return header{
		kind: b[4], token: binary.BigEndian.Uint64(b[8:]), number: binary.BigEndian.Uint64(b[16:]),
		arrived: int64(binary.BigEndian.Uint64(b[24:])), left: int64(binary.BigEndian.Uint64(b[32:])),
	}, true
}

// socket is a UDP socket that reports when datagrams arrived.
type socket struct {
	*net.UDPConn
	oob      [128]byte
	overflow atomic.Uint32 // datagrams dropped because the socket's buffer was full
}

const receiveBuffer = 8 << 20 // bytes

// listenUDP lets the kernel choose the port if address is nil. The socket then receives at
// all addresses.
func listenUDP(address *net.UDPAddr) (*socket, error) {
	c, err := net.ListenUDP("udp", address)
	if err != nil {
		return nil, err
	}
	err = withDescriptor(c, func(fd int) error {
		// SO_RCVBUFFORCE may exceed the system's maximum. Only root may use it.
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1); err != nil {
			return err
		}
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("cannot prepare the socket: %w", err)
	}
	return &socket{UDPConn: c}, nil
}

func (s *socket) port() int { return s.LocalAddr().(*net.UDPAddr).Port }

// receive returns in arrival the time when the kernel received the datagram.
func (s *socket) receive(b []byte) (n int, from netip.AddrPort, arrival time.Time, err error) {
	n, oobn, _, from, err := s.ReadMsgUDPAddrPort(b, s.oob[:])
	return n, from, s.readControl(s.oob[:oobn]), err
}

// readControl returns the arrival time of a datagram. It also stores how many datagrams
// the socket has dropped.
func (s *socket) readControl(oob []byte) time.Time {
	at := time.Now()
	messages, _ := unix.ParseSocketControlMessage(oob)
	for _, m := range messages {
		switch {
		case m.Header.Level != unix.SOL_SOCKET:
		case m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16:
			at = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		case m.Header.Type == unix.SO_RXQ_OVFL && len(m.Data) >= 4:
			s.overflow.Store(binary.NativeEndian.Uint32(m.Data))
		}
	}
	return at
}

func withDescriptor(c syscall.Conn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// bootID returns an identifier that changes at each boot of the kernel. Processes with the same
// identifier share one clock.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// frameSize returns the number of bytes that a datagram takes on the line. Like the kernel's
// queues, it counts the headers of UDP, IP and Ethernet, but not Ethernet's checksum and gap.
func frameSize(payload int, to netip.Addr) int { return payload + 8 + ipHeader(to) + 14 }

func ipHeader(a netip.Addr) int {
	if a.Unmap().Is4() {
		return 20
	}
	return 40
}

var errNoRoom = errors.New("the system's send queues stayed full")
