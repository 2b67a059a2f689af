package fabric

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/netspace"
)

// sharedBridge is the only bridge in the namespace of a shared VLAN.
const sharedBridge = "b"

func (h *Host) sharedPath(id string) string {
	hash := sha256.Sum256([]byte(id))
	return filepath.Join(h.options.Folder, "shared", strings.ToLower(base32.StdEncoding.EncodeToString(hash[:20])))
}

// joinShared connects the link to its shared VLAN by a pair of devices between the namespaces of the slice and
// of the VLAN. It creates the VLAN for the first link that joins. The alias is set last: a pair with both
// aliases is complete, and any other one is created again.
func (h *Host) joinShared(s *slice, m *made) error {
	h.sharing.Lock()
	defer h.sharing.Unlock()
	far, bridge, err := h.openShared(m.link.Shared)
	if err != nil {
		return err
	}
	defer far.close()
	name := m.device(kindUplink, uplink)
	farName := deviceName(kindFar, s.name+" "+m.link.Name, "")
	near, ok, err := s.net.device(name)
	if err != nil {
		return err
	}
	other, otherOK, err := far.device(farName)
	if err != nil {
		return err
	}
	i := len(m.link.Ends) // the index of the shared VLAN's port
	isComplete := ok && near.alias != "" && otherOK && other.alias != ""
	if isComplete && other.peer == near.index {
		return s.placePort(m, i, near)
	}
	delete(m.shaped, name)
	if ok {
		if err := s.net.remove([]device{near}); err != nil {
			return err
		}
	}
	if otherOK { // its near side is in a namespace whose mount was lost
		if err := far.remove([]device{other}); err != nil && !errors.Is(err, unix.ENODEV) {
			return err
		}
	}
	v := veth(name, farName, localMAC(farName), m.hostMTU(i))
	v.PeerNamespace = netlink.NsFd(far.file.Fd())
	if err := s.net.nl.LinkAdd(v); err != nil {
		return fmt.Errorf("cannot connect the shared VLAN %s: %w", m.link.Shared, err)
	}
	if other, err = far.mustDevice(farName); err != nil {
		return err
	}
	if near, err = s.net.mustDevice(name); err != nil {
		return err
	}
	if err := errors.Join(far.switchOn(other.index), s.net.switchOn(near.index)); err != nil {
		return err
	}
	if err := far.awaitReady(farName); err != nil {
		return err
	}
	if err := far.join(joining{index: other.index, master: bridge, alias: alias(s.name, m.link.Name), noLearning: !s.limitsLearning}); err != nil {
		return err
	}
	return s.placePort(m, i, near)
}

// openShared opens the network of a shared VLAN, and returns the index of its bridge. It creates both if
// they are missing.
func (h *Host) openShared(id string) (far *network, bridge int, err error) {
	if far, err = openNetwork(h.sharedPath(id), true); err != nil {
		return nil, 0, err
	}
	d, ok, err := far.device(sharedBridge)
	if err == nil && (!ok || d.alias == "") {
		d.index, err = far.bridge(sharedBridge, alias("shared", id))
	}
	if err != nil {
		far.close()
		return nil, 0, err
	}
	return far, d.index, nil
}

// removeUnusedShared removes all shared VLANs that no link has joined.
func (h *Host) removeUnusedShared() error {
	h.sharing.Lock()
	defer h.sharing.Unlock()
	list, err := os.ReadDir(filepath.Join(h.options.Folder, "shared"))
	if err != nil {
		return fmt.Errorf("cannot list the shared VLANs: %w", err)
	}
	for _, e := range list {
		path := filepath.Join(h.options.Folder, "shared", e.Name())
		if err := removeIfUnused(path); err != nil {
			return err
		}
	}
	return nil
}

// removeIfUnused removes the shared VLAN at path if no link has joined it.
func removeIfUnused(path string) error {
	n, err := openNetwork(path, false)
	if err != nil {
		return err
	}
	if n != nil {
		defer n.close()
		list, err := n.links()
		if err != nil {
			return err
		}
		var bridges []device
		for _, l := range list {
			switch d := asDevice(l); d.name {
			case "lo":
			case sharedBridge:
				bridges = append(bridges, d)
			default:
				return nil // a slice has joined the shared VLAN
			}
		}
		if err := n.remove(bridges); err != nil {
			return err
		}
	}
	return netspace.Remove(path)
}
