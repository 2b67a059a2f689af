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

// reopenEndpoint opens the door of a node that was found running before its agent is
// told anything, which may take long: its users can come in and look why.
func (nc *nodeController) reopenEndpoint(rec record) {
	if rec.Desired.Removing || rec.Desired.Power != provider.On {
		return
	}
	users, err := parseUsers(rec.Desired.Users)
	if err == nil {
		err = nc.setEndpoint(&rec, users, nil)
	}
	if err != nil && nc.t.ctx.Err() == nil {
		nc.t.log.Warn("the door of a node that runs cannot be opened yet", "node", nc.id, "error", err)
	}
}

// openEndpoints hands the node's listeners to the gateway, with the users that may
// come in.
func (nc *nodeController) openEndpoints(ctx context.Context, rec *record, users []user, insideKeys []string) (err error) {
	if nc.endpoint.inside == nil {
		if nc.endpoint.inside, err = nc.listenInside(ctx, "tcp", "0.0.0.0:22", ""); err != nil {
			// A user may run an SSH server of their own in the node.
			nc.t.log.Info("port 22 inside a node is not ours", "node", nc.id, "error", err)
			nc.endpoint.inside = nil
		}
	}
	if nc.run.geni == nil {
		if nc.run.geni, err = nc.listenInside(ctx, "unix", agent.GeniSocket, "root"); err != nil {
			return asUserError("the socket of geni-get cannot be made", err)
		}
		listener := nc.run.geni
		nc.t.work.Go(func() { nc.serveGeni(listener) })
	}
	return nc.setEndpoint(rec, users, insideKeys)
}

func (nc *nodeController) insideKeys(key experimentKey) []string {
	if nc.slice == nil {
		return nil
	}
	return []string{key.public}
}

// restrictEndpoint leaves at an open door only those accounts and keys that users have, too.
func (nc *nodeController) restrictEndpoint(rec record, users []user, insideKeys []string) error {
	left := intersectUsers(nc.endpoint.users, users)
	if nc.endpoint.public == nil && nc.endpoint.inside == nil || sameUsers(left, nc.endpoint.users) {
		return nil
	}
	nc.run.proven = false
	return nc.setEndpoint(&rec, left, insideKeys)
}

// intersectUsers are the users of a that b has, too, with the keys that both have.
func intersectUsers(a, b []user) []user {
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

// setEndpoint gives the node's door to the gateway, for those users.
func (nc *nodeController) setEndpoint(rec *record, users []user, insideKeys []string) error {
	if err := nc.openPort(rec); err != nil {
		return err
	}
	hostKey, err := os.ReadFile(filepath.Join(nc.dir(), hostKeyFile))
	if err != nil {
		return asUserError("its host key cannot be read", err)
	}
	d := gateway.Endpoint{
		Node: nc.id, Names: []string{endpointName(rec.Desired.Hostname, nc.id)}, Accounts: append(gatewayAccounts(users), rootAccount(users)...),
		HostKey: hostKey, InsideKeys: insideKeys,
	}
	if nc.slice != nil {
		d.Slice = nc.slice.id
	}
	if err := nc.t.gateway.SetEndpoint(d, nc.endpoint.public, nc.endpoint.inside); err != nil {
		// The gateway may come to have it all the same.
		return asUserError("its login cannot be opened", errors.Join(err, nc.closeEndpoints()))
	}
	nc.endpoint.users = users
	return nil
}

// closeEndpoints takes the node's listeners from the gateway and closes them.
func (nc *nodeController) closeEndpoints() error {
	err := nc.t.gateway.RemoveEndpoint(nc.id)
	for _, listener := range []net.Listener{nc.endpoint.public, nc.endpoint.inside} {
		if listener != nil {
			listener.Close() // if the gateway never had it
		}
	}
	nc.endpoint = openEndpoint{}
	return err
}

// openPort opens the node's port: the one that it has, or another if somebody else
// took that.
func (nc *nodeController) openPort(rec *record) error {
	if nc.t.settings.Publish == local.Gateway {
		return nil
	}
	if nc.endpoint.public == nil {
		listener, port, err := nc.t.openPort(rec.Port, nc.holder())
		if errors.Is(err, hostalloc.ErrNone) {
			return &userError{"all ports for logins are taken; remove some nodes first, or wait until their ports have rested", err, true}
		}
		if err != nil {
			return asUserError("no port can be opened for its logins", err)
		}
		if port != rec.Port {
			if err := nc.updateRecord(func(r *record) { r.Port = port }); err != nil {
				return asUserError("its port cannot be noted on the disk of the host", errors.Join(err, listener.Close(), nc.t.ports.Release(uint32(port), nc.holder())))
			}
			if rec.Port != 0 {
				nc.t.log.Warn("the port of a node was taken by another program; it has another one now", "node", nc.id, "was", rec.Port, "is", port)
			}
			rec.Port = port
		}
		nc.endpoint.public = listener
	}
	return nil
}

// endpointName is what the gateway account calls a node, and no other.
func endpointName(hostname, id string) string {
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

// openPort opens a port for a holder: the one it has, or another.
func (t *Testbed) openPort(port int, holder string) (net.Listener, int, error) {
	if port != 0 {
		l, err := t.openHeldPort(port, holder)
		if !errors.Is(err, hostalloc.ErrTaken) && !errors.Is(err, syscall.EADDRINUSE) {
			return l, port, err
		}
		if err := t.ports.Release(uint32(port), holder); err != nil {
			return nil, 0, err
		}
	}
	var l net.Listener
	var last error
	n, err := t.ports.Allocate(holder, func(n uint32) bool {
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

// openHeldPort opens a port that the holder has, and waits for an old gateway to let
// go of it.
func (t *Testbed) openHeldPort(port int, holder string) (net.Listener, error) {
	if err := t.ports.Claim(uint32(port), holder); err != nil {
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
	return net.JoinHostPort(t.settings.PublicHost, strconv.Itoa(t.gatewayIDs.Port))
}
