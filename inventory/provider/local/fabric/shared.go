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

// joinShared creates the shared VLAN for the first link that joins.
func (h *Host) joinShared(s *slice, m *made) error {
	h.sharing.Lock()
	defer h.sharing.Unlock()
	far, err := openNetwork(h.sharedPath(m.link.Shared), true)
	if err != nil {
		return err
	}
	defer far.close()
	bridge, ok, err := far.device(sharedBridge)
	if err != nil {
		return err
	}
	if !ok || bridge.alias == "" {
		if bridge.index, err = far.bridge(sharedBridge, alias("shared", m.link.Shared)); err != nil {
			return err
		}
	}
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
	if ok && near.alias != "" && otherOK && other.alias != "" && other.peer == near.index {
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
	v := veth(name, farName, localMAC(farName), m.mtu(i))
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
	if err := far.join(joining{index: other.index, master: bridge.index, alias: alias(s.name, m.link.Name), noLearning: !s.limitsLearning}); err != nil {
		return err
	}
	return s.placePort(m, i, near)
}

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
