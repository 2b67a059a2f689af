package egress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"patchbay/am/file"
	"patchbay/inventory/provider/local/netspace"
)

// changes are the settings of the host that a Router has changed. The Router writes them
// to changes.json before it changes the host.
type changes struct {
	// Boot is the kernel's boot_id; a reboot undoes all changes.
	Boot string `json:"boot"`
	// Forwarding are the devices on which forwarding was off before.
	Forwarding []string `json:"forwarding"`
}

const changesFile = "changes.json"

func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// readChanges reads the changes since the boot of the host. If folder is "", there are
// none.
func readChanges(folder string) (c changes, err error) {
	none := changes{Boot: bootID()}
	if folder == "" {
		return none, nil
	}
	b, err := os.ReadFile(filepath.Join(folder, changesFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return none, err
	}
	if json.Unmarshal(b, &c) != nil || c.Boot != none.Boot {
		return none, nil
	}
	return c, nil
}

func (c changes) write(folder string) error {
	if folder == "" {
		return nil
	}
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return file.Write(filepath.Join(folder, changesFile), append(b, '\n'), 0o600)
}

// forwardingFile accepts the device "all", which means all devices.
func forwardingFile(device string) string { return "/proc/sys/net/ipv4/conf/" + device + "/forwarding" }

func isForwarding(device string) bool {
	b, err := os.ReadFile(forwardingFile(device))
	return err == nil && strings.TrimSpace(string(b)) == "1"
}

// setForwarding expects "0" or "1" as value. A missing device is no error.
func setForwarding(device, value string) error {
	err := os.WriteFile(forwardingFile(device), []byte(value), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the device does not exist any more
	}
	if err != nil {
		return fmt.Errorf("cannot set forwarding of %s to %s: %w", device, value, err)
	}
	return nil
}

// forward switches on forwarding for devices that receive replies from outside. It does not
// change devices that forward already. Before it changes a device, it records the change and
// adds the device to the set of guarded devices. A rule drops all packets that are forwarded
// from guarded devices, except those to nodes.
func (e *Router) forward(devices []string) error {
	c, err := readChanges(e.options.Folder)
	if err != nil {
		return err
	}
	before := slices.Clone(c.Forwarding)
	var off []string
	if isForwarding("all") {
		c.Forwarding = nil // another program has enabled forwarding since
	} else {
		for _, device := range devices {
			isOn := isForwarding(device)
			if !isOn {
				off = append(off, device)
			}
			// If another testbed enabled forwarding, the last testbed that ends must undo that.
			if !slices.Contains(c.Forwarding, device) && (!isOn || guardedByOthers(e.hostTable.table.Name, device)) {
				c.Forwarding = append(c.Forwarding, device)
			}
		}
	}
	if e.guardSetEmpty || !slices.Equal(e.guarded, c.Forwarding) {
		e.guardSetEmpty = true
		if err := fill(e.guards, deviceNames(c.Forwarding)); err != nil {
			return err
		}
		e.guarded, e.guardSetEmpty = c.Forwarding, false
	}
	if !slices.Equal(before, c.Forwarding) {
		if err := c.write(e.options.Folder); err != nil {
			return fmt.Errorf("cannot record the changes of the host: %w", err)
		}
	}
	for _, device := range off {
		if err := setForwarding(device, "1"); err != nil {
			return err
		}
		e.options.Log.Info("forwarding enabled, for replies to nodes only; patchbay-local clean disables it again", "set", "net.ipv4.conf."+device+".forwarding=1")
	}
	return nil
}

// guardedByOthers reports whether another testbed of this host has switched on forwarding
// of a device. table is the name of this testbed's nftables table.
func guardedByOthers(table, device string) bool {
	c, err := nftables.New()
	if err != nil {
		return false
	}
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return false
	}
	for _, t := range tables {
		if !strings.HasPrefix(t.Name, tableName("")) || t.Name == table {
			continue
		}
		s, err := c.GetSetByName(t, guards)
		if err != nil {
			continue
		}
		elements, err := c.GetSetElements(s)
		if err == nil && slices.ContainsFunc(elements, func(e nftables.SetElement) bool { return bytes.Equal(e.Key, name(device)) }) {
			return true
		}
	}
	return false
}

// hasOtherUplinks reports whether the host has an uplink of another testbed. device is
// this testbed's uplink.
func hasOtherUplinks(device string) bool {
	all, _ := filepath.Glob("/proc/sys/net/ipv4/conf/" + devicePrefix + "*")
	return slices.ContainsFunc(all, func(p string) bool { return filepath.Base(p) != device })
}

// undo switches off the forwarding that is recorded in folder, and removes the record.
// Forwarding stays on if the host now forwards on all devices. It also stays on if the
// host has an uplink other than device: that uplink belongs to another testbed, which
// has its own record.
func undo(folder, device string) error {
	c, err := readChanges(folder)
	if err != nil {
		return err
	}
	if !isForwarding("all") && !hasOtherUplinks(device) {
		for _, d := range c.Forwarding {
			err = errors.Join(err, setForwarding(d, "0"))
		}
	}
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(folder, changesFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// samples are public addresses all over the Internet. The routes to them show the devices
// that lead outside. Nothing is sent to them.
var samples = []string{"1.1.1.1", "96.0.0.1", "150.0.0.1", "203.0.113.1"}

type host struct {
	addresses []netip.Addr // all its IPv4 addresses
	sources   []netip.Addr // the primary addresses of devices that lead outside
	devices   []string     // the devices that lead outside
	mtu       int          // the smallest MTU of these devices
}

// readHost reads the host's addresses, and the devices that lead outside: those with an address that nodes may
// reach, and those of the routes to samples. The thread must be in the host's network namespace.
func (e *Router) readHost() (host, error) {
	h, err := openNetlink()
	if err != nil {
		return host{}, err
	}
	defer h.Close()
	seen := host{mtu: mostMTU}
	devices := map[int]netlink.Link{}
	list, err := links(h)
	if err != nil {
		return host{}, err
	}
	ours := map[int]bool{}
	for _, l := range list {
		devices[l.Attrs().Index] = l
		ours[l.Attrs().Index] = strings.HasPrefix(l.Attrs().Name, devicePrefix) || l.Attrs().Flags&net.FlagLoopback != 0
	}
	leadOutside, primary := map[int]bool{}, map[int][]netip.Addr{}
	all, err := netspace.List("addresses of the host", func() ([]netlink.Addr, error) { return h.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return host{}, err
	}
	for _, a := range all {
		addr, ok := netip.AddrFromSlice(a.IP.To4())
		if !ok {
			continue
		}
		seen.addresses = append(seen.addresses, addr)
		if a.Flags&unix.IFA_F_SECONDARY == 0 {
			primary[a.LinkIndex] = append(primary[a.LinkIndex], addr)
		}
		if !within(e.blocked, addr) {
			leadOutside[a.LinkIndex] = true
		}
	}
	_, behind := uplink(e.options.Number)
	for _, sample := range samples {
		routes, err := h.RouteGetWithOptions(net.ParseIP(sample).To4(), &netlink.RouteGetOptions{Iif: e.device, SrcAddr: behind.Addr().AsSlice()})
		if err != nil {
			continue
		}
		for _, r := range routes {
			leadOutside[r.LinkIndex] = true
			if !ours[r.LinkIndex] {
				seen.sources = append(seen.sources, primary[r.LinkIndex]...)
			}
		}
	}
	for i := range leadOutside {
		if l := devices[i]; l != nil && !ours[i] {
			seen.devices = append(seen.devices, l.Attrs().Name)
			seen.mtu = min(seen.mtu, max(l.Attrs().MTU, leastMTU))
		}
	}
	for _, list := range []*[]netip.Addr{&seen.sources, &seen.addresses} {
		slices.SortFunc(*list, netip.Addr.Compare)
		*list = slices.Compact(*list)
	}
	slices.Sort(seen.devices)
	return seen, nil
}

const (
	mostMTU  = 1500
	leastMTU = 576
)
