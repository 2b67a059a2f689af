package fabric

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/netspace"
	"patchbay/inventory/provider/local/vswitch"
)

// longQueue is the queue length of a TAP that carries single packets.
const longQueue = 4000

// tap returns a function that creates and opens the TAP of port i. It may be called at any time, also while the
// slice is locked.
func (n *network) tap(m *made, i int) func() (*os.File, error) {
	name, own := m.device(kindTAP, m.id(i)), m.device(kindOwn, m.id(i))
	text, mtu, segment := alias(m.link.Name, m.id(i)), m.hostMTU(i), m.plan.segment
	return func() (f *os.File, err error) {
		// The TAP of an earlier switch process, which is about to end, may still exist.
		if old, ok, err := n.device(name); err != nil {
			return nil, err
		} else if ok {
			if err := n.remove([]device{old}); err != nil {
				return nil, err
			}
		}
		if err := netspace.Inside(n.file, func() error {
			f, err = vswitch.OpenTAP(name, segment)
			return err
		}); err != nil {
			return nil, err
		}
		err = n.setTAP(name, own, text, mtu, segment)
		if err == nil {
			err = persist(f)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
}

// persist makes a TAP exist after its file is closed; the fabric removes the TAP with its
// bridge. Otherwise each close would remove one TAP, which takes as long as one request
// that removes hundreds.
func persist(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = unix.IoctlSetInt(int(fd), unix.TUNSETPERSIST, 1) })
	if err = errors.Join(err, inner); err != nil {
		return fmt.Errorf("cannot make the TAP %s persistent: %w", f.Name(), err)
	}
	return nil
}

// setTAP configures a new TAP, and makes it a port of a bridge.
func (n *network) setTAP(name, bridge, text string, mtu int, segment bool) error {
	master, err := n.mustDevice(bridge)
	if err != nil {
		return err
	}
	l, err := n.nl.LinkByName(name)
	if err != nil {
		return fmt.Errorf("cannot find the new TAP %s: %w", name, err)
	}
	if err := n.nl.LinkSetMTU(l, mtu); err != nil {
		return fmt.Errorf("cannot set the MTU of the TAP %s: %w", name, err)
	}
	if segment {
		if err := n.nl.LinkSetTxQLen(l, longQueue); err != nil {
			return fmt.Errorf("cannot set the queue of the TAP %s: %w", name, err)
		}
	}
	return n.join(joining{index: l.Attrs().Index, master: master.index, alias: text, noLearning: true})
}
