package testbed

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"patchbay/inventory/local"
	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/gateway"
)

const maxForeignDoors = 2000

// foreignDoorID is the door's name on this host; no node has one like it, for those of
// nodes are UUIDs.
func foreignDoorID(providerName, name string) string {
	sum := sha256.Sum256([]byte(providerName + "\x00" + name))
	return "door-" + hex.EncodeToString(sum[:16])
}

// doorName is what the gateway account calls the door.
func (d *foreignDoor) doorName() string {
	return doorName(d.Hostname, strings.TrimPrefix(d.id, "door-"))
}

// findDoors reads the doors that are kept.
func (t *Testbed) findDoors() error {
	entries, err := os.ReadDir(t.foreign)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			if err := os.Remove(filepath.Join(t.foreign, e.Name())); err != nil { // half written
				return err
			}
			continue
		}
		var d foreignDoor
		if err := readJSON(t.foreign, e.Name(), &d); err != nil {
			t.log.Error("a door is spoilt; it is made anew when its provider is asked", "error", err)
			if err := os.Remove(filepath.Join(t.foreign, e.Name())); err != nil {
				return err
			}
			continue
		}
		d.id, d.noted = foreignDoorID(d.Provider, d.Name), d.record()
		t.foreignDoors[d.id] = &d
	}
	return nil
}

// openForeignDoors opens the doors that are kept, and lets others ask between any two.
func (t *Testbed) openForeignDoors() {
	t.doorsMu.Lock()
	ids := slices.Collect(maps.Keys(t.foreignDoors))
	t.doorsMu.Unlock()
	for _, id := range ids {
		if t.ctx.Err() != nil {
			return
		}
		if err := t.openKept(id); err != nil {
			t.log.Error("cannot open the door of another provider's node", "door", id, "error", err)
		}
	}
}

// openKept opens one of them, unless it is open already.
func (t *Testbed) openKept(id string) error {
	t.doorsMu.Lock()
	defer t.doorsMu.Unlock()
	d := t.foreignDoors[id]
	if d == nil || d.open {
		return nil
	}
	return t.openForeignDoor(d)
}

// askDoors makes, removes and reports doors.
func (t *Testbed) askDoors(input json.RawMessage) (*local.DoorsOutput, error) {
	var q local.DoorsInput
	if err := json.Unmarshal(input, &q); err != nil {
		return nil, fmt.Errorf("the input of doors cannot be read: %w", err)
	}
	if n := len(q.Put) + len(q.Remove) + len(q.Names); n > 3*maxNames {
		return nil, fmt.Errorf("the input of doors has %d names, at most %d can be", n, 3*maxNames)
	}
	if !isProvider(q.Provider) {
		return nil, fmt.Errorf("%.40q cannot be the name of a provider", q.Provider)
	}
	t.doorsMu.Lock()
	defer t.doorsMu.Unlock()
	out := &local.DoorsOutput{Doors: []local.DoorIs{}}
	for _, name := range q.Remove {
		if err := t.removeForeignDoor(foreignDoorID(q.Provider, name)); err != nil {
			t.log.Error("cannot remove the door of another provider's node", "provider", q.Provider, "node", name, "error", err)
			out.Doors = append(out.Doors, local.DoorIs{Name: name, Error: "its door cannot be removed; the testbed's operators can see why in the log"})
		}
	}
	for _, ask := range q.Put {
		is, err := t.putForeignDoor(q.Provider, ask)
		if err != nil {
			is = local.DoorIs{Name: ask.Name, Error: err.Error()}
		}
		out.Doors = append(out.Doors, is)
	}
	for _, name := range q.Names {
		if d := t.foreignDoors[foreignDoorID(q.Provider, name)]; d != nil {
			out.Doors = append(out.Doors, t.doorIs(d))
		}
	}
	return out, nil
}

func isProvider(s string) bool {
	return s != "" && len(s) <= 64 && oneLine(s)
}

// putForeignDoor makes a door as asked. Its error is for experimenters.
func (t *Testbed) putForeignDoor(providerName string, ask local.DoorAsk) (local.DoorIs, error) {
	if ask.Name == "" || len(ask.Name) > maxText || !oneLine(ask.Name) {
		return local.DoorIs{}, fmt.Errorf("%.40q cannot be the name of a node", ask.Name)
	}
	id := foreignDoorID(providerName, ask.Name)
	old := t.foreignDoors[id]
	next := foreignDoor{Provider: providerName, Name: ask.Name, Users: ask.Users, id: id}
	if old != nil {
		next.Port, next.public, next.Hostname, next.noted = old.Port, old.public, old.Hostname, old.noted
		if ask.Users == nil {
			next.Users = old.Users
		}
	} else if len(t.foreignDoors) >= maxForeignDoors {
		return local.DoorIs{}, fmt.Errorf("there are as many doors of other providers as there can be, %d", maxForeignDoors)
	}
	if agent.IsHostname(ask.Hostname) {
		next.Hostname = ask.Hostname
	}
	_, err := parseUsers(next.Users)
	if err != nil {
		return local.DoorIs{}, err
	}
	if next.Address, err = t.target(ask.Address); err != nil {
		return local.DoorIs{}, err
	}
	if next.Address == "" && old != nil {
		next.Address = old.Address
	}
	if old != nil && old.open && old.record() == next.record() {
		return t.doorIs(old), nil
	}
	err = t.openForeignDoor(&next)
	if next.noted != "" { // and it may keep its port
		t.foreignDoors[id] = &next
	}
	if err != nil {
		t.log.Error("cannot open the door of another provider's node", "provider", providerName, "node", ask.Name, "error", err)
		return local.DoorIs{}, errors.New("its door cannot be opened; the testbed's operators can see why in the log")
	}
	return t.doorIs(&next), nil
}

// target is the address that a door may lead to; empty is none yet.
func (t *Testbed) target(address string) (string, error) {
	if address == "" {
		return "", nil
	}
	to, err := netip.ParseAddrPort(address)
	switch {
	case err != nil || to.Port() == 0:
		return "", fmt.Errorf("%.60q, where its SSH server should be, is no address with a port", address)
	case !t.settings.MayForward(to.Addr()) || len(t.settings.ForwardTo) == 0 && ofThisHost(to.Addr()):
		return "", fmt.Errorf("the gateway may not lead to %v; forward_to in the settings of the testbed says where it may", to.Addr())
	}
	return netip.AddrPortFrom(to.Addr().Unmap(), to.Port()).String(), nil
}

// ofThisHost tells whether an address is one of this host's.
func ofThisHost(a netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true // nobody knows
	}
	return slices.ContainsFunc(all, func(own net.Addr) bool {
		p, err := netip.ParsePrefix(own.String())
		return err == nil && p.Addr().Unmap() == a.Unmap()
	})
}

// record is the content of the file of the door.
func (d *foreignDoor) record() string {
	b, _ := json.Marshal(d) // it has only texts and a number
	return string(b)
}

// note writes the door down, if it is not as it was.
func (t *Testbed) note(d *foreignDoor) error {
	text := d.record()
	if text == d.noted {
		return nil
	}
	if err := t.write(t.foreign, d.id+".json", d); err != nil {
		return err
	}
	d.noted = text
	return nil
}

// openForeignDoor writes the door down, and opens it when it is known where it leads.
func (t *Testbed) openForeignDoor(d *foreignDoor) error {
	users, err := parseUsers(d.Users)
	if err != nil {
		return err
	}
	if d.Address == "" {
		err := t.note(d)
		d.open = err == nil
		return err
	}
	if _, err := t.target(d.Address); err != nil {
		return err // it is not allowed any more
	}
	holder, was := t.settings.Instance+"/"+d.id, d.Port
	if d.public == nil && t.settings.Publish != local.Gateway {
		if d.public, d.Port, err = t.listen(d.Port, holder); err != nil {
			d.Port = was
			return err
		}
	}
	if err := t.note(d); err != nil {
		if d.Port != was {
			err = errors.Join(err, d.public.Close(), t.ports.Release(uint32(d.Port), holder))
			d.Port, d.public = was, nil
		}
		return err
	}
	err = t.doors.Put(gateway.Door{
		Node: d.id, Slice: d.id, Names: []string{d.doorName()}, Accounts: gatewayAccounts(users), Address: d.Address,
	}, d.public, nil)
	if err != nil {
		// The gateway may come to have it all the same.
		err = errors.Join(err, t.doors.Remove(d.id))
		if d.public != nil {
			d.public.Close()
			d.public = nil
		}
	}
	d.open = err == nil
	return err
}

func (t *Testbed) removeForeignDoor(id string) error {
	d := t.foreignDoors[id]
	if d == nil {
		return nil
	}
	if err := t.doors.Remove(id); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(t.foreign, id+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if d.Port != 0 {
		if err := t.ports.Release(uint32(d.Port), t.settings.Instance+"/"+id); err != nil {
			return err
		}
	}
	delete(t.foreignDoors, id)
	return nil
}

func (t *Testbed) doorIs(d *foreignDoor) local.DoorIs {
	is := local.DoorIs{Name: d.Name, Address: d.Address, Users: d.Users}
	if d.Address == "" || !d.open {
		return is
	}
	is.Login, is.Proxy = t.published(d.doorName(), d.Port)
	return is
}

func (t *Testbed) listDoors() []local.ListedDoor {
	t.doorsMu.Lock()
	defer t.doorsMu.Unlock()
	all := []local.ListedDoor{}
	for _, d := range t.foreignDoors {
		is := t.doorIs(d)
		all = append(all, local.ListedDoor{Name: is.Name, Address: is.Address, Login: is.Login})
	}
	return all
}
