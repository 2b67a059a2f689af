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

	"patchbay/inventory/node/agent"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/gateway"
	"patchbay/inventory/provider/local/hostalloc"
)

// sameUsers reports whether a and b have the same logins and keys in the same order.
func sameUsers(a, b []user) bool {
	return slices.EqualFunc(a, b, func(a, b user) bool { return a.Login == b.Login && slices.Equal(a.Keys, b.Keys) })
}

// reopenEndpoint runs before the agent is configured, since that may take long. Meanwhile users
// can log in and investigate.
func (nc *nodeController) reopenEndpoint(rec record) {
	if rec.Desired.Removing || rec.Desired.Power != provider.On {
		return
	}
	users, err := parseUsers(rec.Desired.Users)
	if err == nil {
		err = nc.setEndpoint(&rec, users, nil)
	}
	if err != nil && nc.t.ctx.Err() == nil {
		nc.t.log.Warn("users cannot log in to a running node yet", "node", nc.id, "error", err)
	}
}

// openEndpoints creates the listeners inside the node: port 22, and the socket of geni-get. If
// port 22 is taken, the endpoint has no listener inside the node.
func (nc *nodeController) openEndpoints(ctx context.Context, rec *record, users []user, insideKeys []string) (err error) {
	if nc.endpoint.inside == nil {
		if nc.endpoint.inside, err = nc.listenInside(ctx, "tcp", "0.0.0.0:22", ""); err != nil {
			// A user may run another SSH server in the node.
			nc.t.log.Info("port 22 inside a node is not available", "node", nc.id, "error", err)
			nc.endpoint.inside = nil
		}
	}
	if nc.run.geni == nil {
		if nc.run.geni, err = nc.listenInside(ctx, "unix", agent.GeniSocket, "root"); err != nil {
			return asUserError("the socket of geni-get cannot be created", err)
		}
		listener := nc.run.geni
		nc.t.work.Go(func() { nc.serveGeni(listener) })
	}
	return nc.setEndpoint(rec, users, insideKeys)
}

// insideKeys returns the keys with which other nodes of the slice may log in.
func (nc *nodeController) insideKeys(key experimentKey) []string {
	if nc.slice == nil {
		return nil
	}
	return []string{key.public}
}

// restrictEndpoint removes from an open endpoint all accounts and keys that are not in users, and
// replaces its insideKeys. If it removes any, the logins must be proven again.
func (nc *nodeController) restrictEndpoint(rec record, users []user, insideKeys []string) error {
	left := intersectUsers(nc.endpoint.users, users)
	same := sameUsers(left, nc.endpoint.users)
	if nc.endpoint.public == nil && nc.endpoint.inside == nil || same && slices.Equal(insideKeys, nc.endpoint.insideKeys) {
		return nil
	}
	if !same {
		nc.run.proven = false
	}
	return nc.setEndpoint(&rec, left, insideKeys)
}

// losesUsers reports whether a user of old has lost access, or one of its keys.
func losesUsers(old, next []string) bool {
	before, _ := parseUsers(old) // set has accepted both
	after, _ := parseUsers(next)
	return !sameUsers(intersectUsers(before, after), before)
}

// intersectUsers returns the users in both a and b, with the keys that both have.
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

// setEndpoint opens the node's port, and passes the endpoint to the gateway. Other nodes of the
// slice log in with insideKeys. If the gateway fails, setEndpoint closes the endpoint.
func (nc *nodeController) setEndpoint(rec *record, users []user, insideKeys []string) error {
	if err := nc.openPort(rec); err != nil {
		return err
	}
	hostKey, err := os.ReadFile(filepath.Join(nc.dir(), hostKeyFile))
	if err != nil {
		return asUserError("its host key cannot be read", err)
	}
	d := gateway.Endpoint{
		Node: nc.id, Names: []string{endpointName(rec.Desired.Hostname, nc.id)}, Accounts: append(accountsOf(users), rootAccount(users)...),
		HostKey: hostKey, InsideKeys: insideKeys,
	}
	if nc.slice != nil {
		d.Slice = nc.slice.id
	}
	if err := nc.t.gateway.SetEndpoint(d, nc.endpoint.public, nc.endpoint.inside); err != nil {
		// The gateway may have accepted the endpoint despite the error.
		return asUserError("the gateway cannot accept logins for it", errors.Join(err, nc.closeEndpoints()))
	}
	nc.endpoint.users, nc.endpoint.insideKeys = users, insideKeys
	return nil
}

// closeEndpoints withdraws the node's listeners from the gateway and closes them.
func (nc *nodeController) closeEndpoints() error {
	err := nc.t.gateway.RemoveEndpoint(nc.id)
	for _, listener := range []net.Listener{nc.endpoint.public, nc.endpoint.inside} {
		if listener != nil {
			listener.Close() // in case the gateway never received it
		}
	}
	nc.endpoint = openEndpoint{}
	return err
}

// openPort opens the node's saved port, or a new one if another program uses that port. It does
// nothing if nodes have no ports of their own.
func (nc *nodeController) openPort(rec *record) error {
	if nc.t.settings.Publish == local.Gateway {
		return nil
	}
	if nc.endpoint.public == nil {
		listener, port, err := nc.t.openPort(rec.Port, nc.holder())
		if errors.Is(err, hostalloc.ErrNone) {
			return &userError{"all ports for logins are taken; remove nodes, or wait: a released port becomes available after port_rest", err, true}
		}
		if err != nil {
			return asUserError("no port can be opened for its logins", err)
		}
		if port != rec.Port {
			if err := nc.updateRecord(func(r *record) { r.Port = port }); err != nil {
				return asUserError("its port cannot be saved on the disk of the host", errors.Join(err, listener.Close(), nc.t.ports.Release(uint32(port), nc.holder())))
			}
			if rec.Port != 0 {
				nc.t.log.Warn("another program uses the port of a node; the node gets a new port", "node", nc.id, "was", rec.Port, "is", port)
			}
			rec.Port = port
		}
		nc.endpoint.public = listener
	}
	return nil
}

// endpointName returns the node's host name at the gateway account. The id makes it unique.
func endpointName(hostname, id string) string {
	hostname, _, _ = strings.Cut(hostname, ".")
	id = id[:min(len(id), 8)]
	if hostname == "" {
		return id
	}
	return strings.ToLower(hostname) + "-" + id
}

// portTime is how long a killed program's gateway may take to close its ports.
const portTime = 2 * time.Second

// openPort opens the parameter port, which the holder allocated earlier. If port is 0 or used by
// another program, openPort allocates a new one.
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
		l.Close() // it was opened but not allocated
		l = nil
	}
	return l, int(n), err
}

// openHeldPort waits up to portTime for an old gateway to close the port.
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

// published returns the addresses at which experimenters log in, and the proxy for them ("":
// none is needed). The parameter name is a node's host name at the gateway account. The
// parameter port is the node's own port.
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

// gatewayAddress returns the address of the gateway account, HOST:PORT.
func (t *Testbed) gatewayAddress() string {
	return net.JoinHostPort(t.settings.PublicHost, strconv.Itoa(t.gatewayIDs.Port))
}
