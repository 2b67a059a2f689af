package testbed

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"patchbay/inventory/local"
	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/gateway"
	"patchbay/inventory/local/hostalloc"
	"patchbay/inventory/provider"
)

func sameUsers(a, b []user) bool {
	return slices.EqualFunc(a, b, func(a, b user) bool { return a.Login == b.Login && slices.Equal(a.Keys, b.Keys) })
}

// reopen opens the door of a node that was found running before its agent is
// told anything, which may take long: its users can come in and look why.
func (l *life) reopen(rec record) {
	if rec.Asked.Removing || rec.Asked.Power != provider.On {
		return
	}
	users, err := parseUsers(rec.Asked.Users)
	if err == nil {
		err = l.setDoor(&rec, users, nil)
	}
	if err != nil && l.t.ctx.Err() == nil {
		l.t.log.Warn("the door of a node that runs cannot be opened yet", "node", l.id, "error", err)
	}
}

// openDoors hands the node's listeners to the gateway, with the users that may
// come in.
func (l *life) openDoors(ctx context.Context, rec *record, users []user, insideKeys []string) (err error) {
	if l.door.inside == nil {
		if l.door.inside, err = l.listenInside(ctx, "tcp", "0.0.0.0:22", ""); err != nil {
			// A user may run an SSH server of their own in the node.
			l.t.log.Info("port 22 inside a node is not ours", "node", l.id, "error", err)
			l.door.inside = nil
		}
	}
	if l.run.geni == nil {
		if l.run.geni, err = l.listenInside(ctx, "unix", agent.GeniSocket, "root"); err != nil {
			return inWords("the socket of geni-get cannot be made", err)
		}
		listener := l.run.geni
		l.t.work.Go(func() { l.serveGeni(listener) })
	}
	return l.setDoor(rec, users, insideKeys)
}

func (l *life) insideKeys(key experimentKey) []string {
	if l.slice == nil {
		return nil
	}
	return []string{key.public}
}

// narrow leaves at an open door only those accounts and keys that users have, too.
func (l *life) narrow(rec record, users []user, insideKeys []string) error {
	left := inBoth(l.door.users, users)
	if l.door.public == nil && l.door.inside == nil || sameUsers(left, l.door.users) {
		return nil
	}
	l.run.proven = false
	return l.setDoor(&rec, left, insideKeys)
}

// inBoth are the users of a that b has, too, with the keys that both have.
func inBoth(a, b []user) []user {
	var both []user
	for _, u := range a {
		i := slices.IndexFunc(b, func(v user) bool { return v.Login == u.Login })
		if i < 0 {
			continue
		}
		u.Keys = slices.DeleteFunc(slices.Clone(u.Keys), func(k string) bool { return !slices.Contains(b[i].Keys, k) })
		both = append(both, u)
	}
	return both
}

// setDoor gives the node's door to the gateway, for those users.
func (l *life) setDoor(rec *record, users []user, insideKeys []string) error {
	if err := l.listen(rec); err != nil {
		return err
	}
	hostKey, err := os.ReadFile(filepath.Join(l.dir(), hostKeyFile))
	if err != nil {
		return inWords("its host key cannot be read", err)
	}
	d := gateway.Door{
		Node: l.id, Names: []string{doorName(rec.Asked.Hostname, l.id)}, Accounts: append(gatewayAccounts(users), rootAccount(users)...),
		HostKey: hostKey, InsideKeys: insideKeys,
	}
	if l.slice != nil {
		d.Slice = l.slice.id
	}
	if err := l.t.doors.Put(d, l.door.public, l.door.inside); err != nil {
		// The gateway may come to have it all the same.
		return inWords("its door cannot be opened", errors.Join(err, l.closeDoors()))
	}
	l.door.users = users
	return nil
}

// closeDoors takes the node's listeners from the gateway and closes them.
func (l *life) closeDoors() error {
	err := l.t.doors.Remove(l.id)
	for _, listener := range []net.Listener{l.door.public, l.door.inside} {
		if listener != nil {
			listener.Close() // if the gateway never had it
		}
	}
	l.door = openDoor{}
	return err
}

// listen opens the node's port: the one that it has, or another if somebody else
// took that.
func (l *life) listen(rec *record) error {
	if l.t.settings.Publish == local.Gateway {
		return nil
	}
	if l.door.public == nil {
		listener, port, err := l.t.listen(rec.Port, l.holder())
		if errors.Is(err, hostalloc.ErrNone) {
			return &wordsError{"all ports for logins are taken; remove some nodes first, or wait until their ports have rested", err, true}
		}
		if err != nil {
			return inWords("no port can be opened for its logins", err)
		}
		if port != rec.Port {
			if err := l.settle(func(r *record) { r.Port = port }); err != nil {
				return inWords("its port cannot be noted on the disk of the host", errors.Join(err, listener.Close(), l.t.ports.Release(uint32(port), l.holder())))
			}
			if rec.Port != 0 {
				l.t.log.Warn("the port of a node was taken by another program; it has another one now", "node", l.id, "was", rec.Port, "is", port)
			}
			rec.Port = port
		}
		l.door.public = listener
	}
	return nil
}

// doorName is what the gateway account calls a node, and no other.
func doorName(hostname, id string) string {
	hostname, _, _ = strings.Cut(hostname, ".")
	id = id[:min(len(id), 8)]
	if hostname == "" {
		return id
	}
	return strings.ToLower(hostname) + "-" + id
}

// portTime is how long the gateway of a program that was killed may take to let
// go of its ports.
const portTime = 2 * time.Second

// listen opens a port for a holder: the one it has, or another.
func (t *Testbed) listen(port int, holder string) (net.Listener, int, error) {
	if port != 0 {
		l, err := t.listenAt(port, holder)
		if !errors.Is(err, hostalloc.ErrTaken) && !errors.Is(err, syscall.EADDRINUSE) {
			return l, port, err
		}
		if err := t.ports.Release(uint32(port), holder); err != nil {
			return nil, 0, err
		}
	}
	var l net.Listener
	var last error
	n, err := t.ports.Take(holder, func(n uint32) bool {
		l, last = t.bind(int(n))
		return last == nil
	})
	if err != nil && last != nil && !errors.Is(last, syscall.EADDRINUSE) {
		err = last
	}
	if err != nil && l != nil {
		l.Close() // it could be opened, and not claimed
		l = nil
	}
	return l, int(n), err
}

// listenAt opens a port that the holder has, and waits for an old gateway to let
// go of it.
func (t *Testbed) listenAt(port int, holder string) (net.Listener, error) {
	if err := t.ports.Hold(uint32(port), holder); err != nil {
		return nil, err
	}
	for end := time.Now().Add(t.portTime); ; {
		l, err := t.bind(port)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) || t.ctx.Err() != nil {
			return l, err
		}
		sleep(t.ctx, 20*time.Millisecond)
	}
}

func (t *Testbed) bind(port int) (net.Listener, error) {
	host := ""
	if t.settings.Listen.IsValid() {
		host = t.settings.Listen.String()
	}
	return net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
}

// published returns the logins and the proxy that experimenters use for a door.
func (t *Testbed) published(name string, port int) (login []string, proxy string) {
	if t.settings.Publish != local.Gateway {
		login = append(login, net.JoinHostPort(t.settings.PublicHost, strconv.Itoa(port)))
	}
	if t.settings.Publish != local.Direct {
		login = append(login, net.JoinHostPort(name, "22"))
		proxy = gateway.User + "@" + t.gatewayAddress()
	}
	return login, proxy
}

func (t *Testbed) gatewayAddress() string {
	return net.JoinHostPort(t.settings.PublicHost, strconv.Itoa(t.gateway.Port))
}
