package inside

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Examination describes a member, as one of its nodes sees it.
type Examination struct {
	// Inotify is the number of inotify instances that the member permits.
	Inotify int
	// AppArmor is the confinement of the node's processes; empty if the member has none.
	AppArmor string
	// IDs is the number of user ids of the node, and FirstID its root on the member.
	IDs, FirstID int64
	// Netem is empty if the member can delay frames, and otherwise the reason.
	Netem string
	// Unreachable are the errors for addresses that the node could not reach.
	Unreachable map[string]string
	// Entered means that the node can send frames into a link through the tunnels of its member.
	Entered bool
}

// reachTime bounds the time until an address is unreachable.
const reachTime = 10 * time.Second

// examine prints an Examination. The words are the VXLAN id of the link of eth1 or 0, the address of the
// member, and addresses whose SSH servers it tries to reach.
func examine(words []string) error {
	if len(words) < 2 {
		return fmt.Errorf("unknown words %q", words)
	}
	id, err := strconv.ParseUint(words[0], 10, 24)
	if err != nil {
		return err
	}
	addresses := words[2:]
	e := Examination{Unreachable: map[string]string{}, Entered: id > 0 && entersLink(uint32(id), words[1])}
	if text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances"); err == nil {
		e.Inotify, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if text, err := os.ReadFile("/proc/self/attr/current"); err == nil {
		e.AppArmor = strings.TrimRight(string(text), "\x00\n")
	}
	// In a namespace of AppArmor, processes seem to be unconfined.
	if text, err := os.ReadFile("/sys/kernel/security/apparmor/.ns_stacked"); err == nil && strings.TrimSpace(string(text)) == "yes" {
		e.AppArmor = "stacked"
	}
	if text, err := os.ReadFile("/proc/self/uid_map"); err == nil {
		var inside int64
		_, _ = fmt.Sscan(string(text), &inside, &e.FirstID, &e.IDs)
	}
	if err := tryNetem("eth1"); err != nil {
		e.Netem = err.Error()
	}
	for _, address := range addresses {
		if err := reach(address); err != nil {
			e.Unreachable[address] = err.Error()
		}
	}
	return json.NewEncoder(os.Stdout).Encode(e)
}

func reach(address string) (err error) {
	for until := time.Now().Add(reachTime); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		var c net.Conn
		if c, err = net.DialTimeout("tcp", net.JoinHostPort(address, "22"), time.Second); err == nil {
			return c.Close()
		}
	}
	return err
}

// etherType is one for experiments, and 60 bytes are the shortest frame.
const (
	etherType   = 0x88b5
	frameLength = 60
)

// entersLink reports whether eth1 receives a frame that the node sends to the member's tunnels.
func entersLink(id uint32, member string) bool {
	link, err := net.InterfaceByName("eth1")
	if err != nil {
		return false
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	network := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, etherType))
	if unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: network, Ifindex: link.Index}) != nil ||
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 300_000}) != nil {
		return false
	}
	frame := append(bytes.Repeat([]byte{0xff}, 6), 0x02, 'p', 'a', 't', 'c', 'h')
	frame = append(binary.BigEndian.AppendUint16(frame, etherType), make([]byte, frameLength-14)...)
	packet := binary.BigEndian.AppendUint32([]byte{0x08, 0, 0, 0}, id<<8)
	for sent, until := 0, time.Now().Add(reachTime); sent < 5 && time.Now().Before(until); {
		if err := sendDatagram(net.JoinHostPort(member, "8472"), append(packet, frame...)); err == nil { // eth0 may still get its address
			sent++
		}
		got := make([]byte, frameLength)
		if n, _, err := unix.Recvfrom(fd, got, 0); err == nil && bytes.Equal(got[:n], frame) {
			return true
		}
	}
	return false
}

func sendDatagram(address string, packet []byte) error {
	c, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write(packet)
	return err
}

// tryNetem delays frames of the interface, and stops that at once.
func tryNetem(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	q := netlink.NewNetem(netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Parent: netlink.HANDLE_ROOT}, netlink.NetemQdiscAttrs{Latency: 1000})
	if err := netlink.QdiscReplace(q); err != nil {
		return err
	}
	return netlink.QdiscDel(q)
}
