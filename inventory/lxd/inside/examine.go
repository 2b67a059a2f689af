package inside

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
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
}

// reachTime bounds the time until an address is unreachable.
const reachTime = 10 * time.Second

// examine prints an Examination. It connects to the SSH server of each address.
func examine(addresses []string) error {
	e := Examination{Unreachable: map[string]string{}}
	if text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances"); err == nil {
		e.Inotify, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if text, err := os.ReadFile("/proc/self/attr/current"); err == nil {
		e.AppArmor = strings.TrimRight(string(text), "\x00\n")
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
