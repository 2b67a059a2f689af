package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"sync"
	"time"

	"patchbay/inventory/local/fdsocket"
)

// Argv0 is the program name with which the binary runs as the gateway.
const Argv0 = "patchbay-gateway"

// User is the gateway account, which only forwards connections to nodes.
const User = "gateway"

// Account is a login at a node with its keys, which are lines of authorized_keys.
// Invalid lines are ignored.
type Account struct {
	Login string
	Keys  []string
}

// Endpoint describes one node to the gateway: its accounts, keys and listeners.
type Endpoint struct {
	// Node is the node's id.
	Node string
	// Slice is the node's slice. At port 22, a node reaches only nodes of its own slice.
	Slice string
	// Names are further names under which the gateway account finds the node.
	Names    []string
	Accounts []Account
	// InsideKeys are valid for every account, but only at port 22 inside nodes of the slice.
	InsideKeys []string
	// HostKey holds the node's private host keys, one or more, in OpenSSH PEM.
	HostKey []byte
	// Address is host:port of the SSH server of another provider's node. Connections are
	// then forwarded there, and HostKey is empty. Without Address, connections go to the
	// node's agent.
	Address string
}

// Options configure a Manager.
type Options struct {
	// Program is the path of this binary, which is run as the gateway process.
	Program  string
	UID, GID int
	// Gateway is the listener of the gateway account, and HostKey its private host keys
	// as in Endpoint. Without Gateway there is no gateway account.
	Gateway net.Listener
	HostKey []byte
	// DialAgent connects to the agent of a node.
	DialAgent func(ctx context.Context, node string) (*fdsocket.Conn, error)
	// SetLimits, if not nil, applies resource limits to each new gateway process before
	// it serves.
	SetLimits func(pid int) error
	Log       *slog.Logger
}

// ErrClosed is the error of calls after Close.
var ErrClosed = errors.New("the gateway was closed")

// patience is how long a change of endpoints waits for the gateway to reply, and then for
// its successor.
const patience = 10 * time.Second

// endTime is how long Close waits for the gateway process. A process without sessions
// ends at once, so that the next clean-up does not find it.
const endTime = time.Second

// Manager runs the gateway process. It stores all endpoints, and sends them to the
// successor of a process that died.
type Manager struct {
	options Options
	closing chan struct{} // closed by Close
	stopped chan struct{} // closed when no further gateway process will be started

	patience time.Duration

	warnings rateLimit

	mu        sync.Mutex // guards the fields below, and the order of sent messages
	endpoints map[string]*servedEndpoint
	peers     map[string]map[netip.Addr]string
	current   *process
	closed    bool
}

// servedEndpoint is an endpoint with its listeners.
type servedEndpoint struct {
	endpoint       Endpoint
	public, inside net.Listener
}

// Start starts the gateway process and waits until it serves. When ctx ends, the
// Manager closes. The Manager owns o.Gateway; Start closes it after an error.
func Start(ctx context.Context, o Options) (*Manager, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	k := &Manager{
		options:   o,
		closing:   make(chan struct{}),
		stopped:   make(chan struct{}),
		endpoints: make(map[string]*servedEndpoint),
		peers:     make(map[string]map[netip.Addr]string),
		current:   newProcess(),

		patience: patience,
	}
	if o.Gateway != nil {
		if _, err := parseHostKeys(o.HostKey); err != nil {
			o.Gateway.Close()
			return nil, fmt.Errorf("cannot read the gateway's host key: %w", err)
		}
	}
	first := k.current
	go k.run()
	select {
	case <-first.ready:
	case <-first.dead:
		err := first.err
		k.end(true)
		return nil, fmt.Errorf("the gateway does not start: %w", err)
	case <-ctx.Done():
		k.end(true)
		return nil, ctx.Err()
	}
	context.AfterFunc(ctx, func() { k.end(false) })
	return k, nil
}

// SetEndpoint adds or replaces the endpoint of a node. The listener public is at the
// node's own port, inside at port 22 in the node; either may be nil. The Manager owns the
// listeners and closes those that are replaced; the same listener may be passed again.
// Sessions whose key was removed are ended. After an error, the previous endpoint and its
// listeners remain, and new listeners belong to the caller. Calls for the same node must
// not overlap.
func (k *Manager) SetEndpoint(d Endpoint, public, inside net.Listener) error {
	if err := checkEndpoint(d, public, inside); err != nil {
		return err
	}
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return ErrClosed
	}
	old := k.endpoints[d.Node]
	entry := &servedEndpoint{d, public, inside}
	k.endpoints[d.Node] = entry
	wait := k.current.sendEndpoint(entry, old)
	k.mu.Unlock()
	err := k.waitForReply(wait)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err != nil && !k.closed:
		k.restoreEndpoint(d.Node, old)
	case old != nil:
		old.closeListenersExcept(entry)
	}
	return err
}

// restoreEndpoint sets the endpoint of a node back to old after a failed change. It also
// sends old to the gateway, since a gateway that did not reply may have made the change.
// The lock is held.
func (k *Manager) restoreEndpoint(node string, old *servedEndpoint) {
	if old == nil {
		delete(k.endpoints, node)
		k.current.sendOrder(order{Kind: orderRemove, Node: node})
		return
	}
	k.endpoints[node] = old
	k.current.sendEndpoint(old, nil)
}

// checkEndpoint returns an error if an endpoint is invalid.
func checkEndpoint(d Endpoint, listeners ...net.Listener) error {
	if d.Node == "" {
		return errors.New("the endpoint has no node")
	}
	if d.Address == "" {
		if _, err := parseHostKeys(d.HostKey); err != nil {
			return fmt.Errorf("cannot read the host key of node %s: %w", d.Node, err)
		}
	} else if _, _, err := net.SplitHostPort(d.Address); err != nil {
		return fmt.Errorf("the address of node %s is not host:port: %w", d.Node, err)
	}
	for _, l := range listeners {
		if _, ok := l.(filer); l != nil && !ok {
			return fmt.Errorf("a %T cannot be sent to the gateway", l)
		}
	}
	return nil
}

// closeListenersExcept closes the listeners that next does not use.
func (d *servedEndpoint) closeListenersExcept(next *servedEndpoint) {
	for _, l := range []net.Listener{d.public, d.inside} {
		if l != nil && (next == nil || l != next.public && l != next.inside) {
			l.Close()
		}
	}
}

// SetPeers sets the addresses under which the nodes of a slice reach each other. at
// maps each address to the id of its node. An empty map removes the slice.
func (k *Manager) SetPeers(slice string, at map[netip.Addr]string) error {
	at = maps.Clone(at)
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return ErrClosed
	}
	if len(at) == 0 {
		delete(k.peers, slice)
	} else {
		k.peers[slice] = at
	}
	wait := k.current.sendOrder(order{Kind: orderPeers, Slice: slice, Peers: at})
	k.mu.Unlock()
	return k.waitForReply(wait)
}

// RemoveEndpoint removes the endpoint of a node and ends its sessions. An unknown node is
// no error.
func (k *Manager) RemoveEndpoint(node string) error {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return ErrClosed
	}
	old := k.endpoints[node]
	delete(k.endpoints, node)
	wait := k.current.sendOrder(order{Kind: orderRemove, Node: node})
	k.mu.Unlock()
	if old != nil {
		old.closeListenersExcept(nil)
	}
	return k.waitForReply(wait)
}

// waitForReply waits until the gateway has replied to a change of endpoints. It kills a
// gateway that does not reply, because it would still accept removed keys. The next
// gateway process receives all endpoints, so its start counts as the reply.
func (k *Manager) waitForReply(a *pendingReply) error {
	select {
	case <-a.done:
		return a.err
	case <-a.from.dead:
	case <-time.After(k.patience):
		a.from.fail(errSilent)
	}
	ctx, cancel := context.WithTimeout(context.Background(), k.patience)
	defer cancel()
	select {
	case <-a.done:
		return a.err
	case <-a.from.dead:
	case <-ctx.Done():
		return errSilent
	}
	if _, err := k.waitForReady(ctx); err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	return errors.New("the gateway died and could not be started again")
}

// waitForReady waits until a running gateway process has received all endpoints, and
// returns it.
func (k *Manager) waitForReady(ctx context.Context) (*process, error) {
	for {
		k.mu.Lock()
		p := k.current
		k.mu.Unlock()
		ready := p.ready
		select {
		case <-p.dead:
			ready = nil
		default:
		}
		select {
		case <-ready:
			return p, nil
		case <-p.replaced:
		case <-k.closing:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// VerifyLogin tests the logins of a node: it logs in at the node's endpoint as a client
// would, with a temporary key, as each account. Root is tested only if there is no other
// account. In each login the account's shell runs an empty command. For an endpoint with
// an Address, VerifyLogin checks that an SSH server answers there.
func (k *Manager) VerifyLogin(ctx context.Context, node string) error {
	p, err := k.waitForReady(ctx)
	if err != nil {
		return err
	}
	a := p.sendOrder(order{Kind: orderVerify, Node: node})
	select {
	case <-a.done:
		return a.err
	case <-p.dead:
		return errors.New("the gateway died during a test login")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close closes all listeners and stops new logins. Open sessions continue, and the
// gateway process ends with the last of them; Close does not wait for that.
func (k *Manager) Close() error {
	k.end(false)
	return nil
}

// end stops the Manager. If kill is true, it kills the gateway process with all its
// sessions. Otherwise it waits at most endTime for the end of that process. It may be
// called again.
func (k *Manager) end(kill bool) {
	k.mu.Lock()
	if !k.closed {
		k.closed = true
		k.current.keepSessions.Store(true)
		close(k.closing)
		for _, d := range k.endpoints {
			d.closeListenersExcept(nil)
		}
		if k.options.Gateway != nil {
			k.options.Gateway.Close()
		}
	}
	p := k.current
	k.mu.Unlock()
	<-k.stopped
	child := p.started()
	switch {
	case child == nil:
	case kill:
		child.Kill()
		<-child.Exited()
	default:
		select {
		case <-child.Exited():
		case <-time.After(endTime):
		}
	}
}
