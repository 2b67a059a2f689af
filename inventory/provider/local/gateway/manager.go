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

	"patchbay/inventory/node/agent"
	"patchbay/inventory/provider/fdsocket"
)

// Argv0 is the program name with which the binary runs as the gateway.
const Argv0 = "patchbay-gateway"

// User is the gateway account, which only forwards connections to nodes.
const User = "gateway"

// Account is a login at a node. Keys are lines of authorized_keys; invalid lines are
// ignored.
type Account = agent.Account

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
	// Address is host:port of the SSH server of another provider's node. The gateway
	// forwards connections to Address, and HostKey is empty. If Address is empty, the
	// gateway itself is the node's SSH server.
	Address string
}

// Options configure a Manager.
type Options struct {
	// Program is the path of this binary. The Manager runs it as the gateway process.
	Program  string
	UID, GID int
	// Gateway is the listener of the gateway account; nil means no gateway account.
	// HostKey holds its private host keys, as in Endpoint.
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

// patience is how long a change of endpoints waits for the gateway's reply. Without a
// reply, it waits as long again for the next gateway process.
const patience = 10 * time.Second

// endTime is how long Close waits for the end of the gateway process. A process without
// sessions ends at once.
const endTime = time.Second

// Manager runs the gateway process. It stores all endpoints, and sends them to the
// successor of a process that died.
type Manager struct {
	options Options
	closing chan struct{} // closed when the Manager closes
	stopped chan struct{} // closed when no further gateway process will be started

	patience time.Duration

	warnings rateLimit

	mu        sync.Mutex // guards the fields below, and the order of sent messages
	endpoints map[string]*servedEndpoint
	peers     map[string]map[netip.Addr]string
	current   *process
	closed    bool
}

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

// SetEndpoint adds or replaces the endpoint of a node. publicListener listens at the
// node's own port, insideListener at port 22 in the node; either may be nil. The Manager
// then owns both, and closes the replaced listeners unless they are passed again. The
// gateway ends sessions whose key was removed. After an error, the previous endpoint and
// its listeners remain, and the caller keeps the new listeners. Calls for the same node
// must not overlap.
func (k *Manager) SetEndpoint(d Endpoint, publicListener, insideListener net.Listener) error {
	if err := checkEndpoint(d, publicListener, insideListener); err != nil {
		return err
	}
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return ErrClosed
	}
	old := k.endpoints[d.Node]
	entry := &servedEndpoint{d, publicListener, insideListener}
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

// restoreEndpoint undoes a failed change; a nil previous means that the node had no
// endpoint. It also sends the previous endpoint to the gateway, which may have made the
// change without a reply. The lock is held.
func (k *Manager) restoreEndpoint(node string, previous *servedEndpoint) {
	if previous == nil {
		delete(k.endpoints, node)
		k.current.sendOrder(order{Kind: orderRemove, Node: node})
		return
	}
	k.endpoints[node] = previous
	k.current.sendEndpoint(previous, nil)
}

// checkEndpoint checks what the gateway would refuse, and that the listeners can be sent.
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

// closeListenersExcept closes the listeners that successor does not use. A nil successor
// uses none.
func (d *servedEndpoint) closeListenersExcept(successor *servedEndpoint) {
	for _, l := range []net.Listener{d.public, d.inside} {
		if l != nil && (successor == nil || l != successor.public && l != successor.inside) {
			l.Close()
		}
	}
}

// SetPeers sets the addresses under which the nodes of a slice reach each other. The map
// nodes gives the node's id for each address. An empty map removes the slice.
func (k *Manager) SetPeers(slice string, nodes map[netip.Addr]string) error {
	nodes = maps.Clone(nodes)
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return ErrClosed
	}
	if len(nodes) == 0 {
		delete(k.peers, slice)
	} else {
		k.peers[slice] = nodes
	}
	wait := k.current.sendOrder(order{Kind: orderPeers, Slice: slice, Peers: nodes})
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

// waitForReply waits for the reply to an order, and returns its error. It kills a gateway that does not
// reply, because that gateway may still accept removed keys. The next gateway process receives all
// endpoints, so waitForReply succeeds when that process is ready.
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

// VerifyLogin tests each account of a node. It connects to the node's endpoint like a
// client, logs in with a temporary key, and lets the account's shell run an empty command.
// It skips Root unless Root is the only account. If the endpoint has an Address,
// VerifyLogin only checks that an SSH server answers there.
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

// Close closes all listeners and stops new logins. Open sessions continue, and Close does
// not wait for their end. The gateway process ends with the last session.
func (k *Manager) Close() error {
	k.end(false)
	return nil
}

// end kills the gateway process with all its sessions if kill is true. Otherwise it waits
// at most endTime until the process ends. end may be called more than once.
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
