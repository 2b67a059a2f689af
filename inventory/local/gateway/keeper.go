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

// Argv0 is the name under which the program runs as the gateway.
const Argv0 = "patchbay-gateway"

// User is the account of the gateway that only forwards to nodes.
const User = "gateway"

// Account is a login at a node and the keys that open it: lines as in
// authorized_keys. A line that cannot be read opens nothing.
type Account struct {
	Login string
	Keys  []string
}

// Endpoint is what the gateway knows of one node.
type Endpoint struct {
	// Node is the node's id.
	Node string
	// Slice tells whose peers it has.
	Slice string
	// Names are what the gateway account may call it, beside its id.
	Names    []string
	Accounts []Account
	// InsideKeys open every account, but only at port 22 inside nodes of its slice.
	InsideKeys []string
	// HostKey holds its private keys, OpenSSH PEM, one after the other.
	HostKey []byte
	// Address is host:port of the SSH server of another provider's node, to
	// which its endpoints lead; then HostKey is empty. Empty: the node's agent.
	Address string
}

// Options of a Manager.
type Options struct {
	// Program is the path of this program, which runs again as the gateway.
	Program  string
	UID, GID int
	// Gateway listens for the gateway account; HostKey holds its private keys as
	// in Endpoint. Nil: there is no gateway account.
	Gateway net.Listener
	HostKey []byte
	// DialAgent connects to the agent of a node.
	DialAgent func(ctx context.Context, node string) (*fdsocket.Conn, error)
	// SetLimits is called with each new gateway process before it serves, to put
	// it under limits. Nil: nothing is called.
	SetLimits func(pid int) error
	Log       *slog.Logger
}

// ErrClosed says that the Manager was closed.
var ErrClosed = errors.New("the gateway was closed")

// patience is how long a change of the endpoints waits for the gateway, and then for
// the next one.
const patience = 10 * time.Second

// endTime is how long Close waits for a gateway without sessions, which ends at
// once, so that whoever tidies up after it finds nothing of it.
const endTime = time.Second

// Manager runs the gateway process and knows all its endpoints, so that one that died is
// replaced by an equal one.
type Manager struct {
	o       Options
	closing chan struct{} // closed when the Manager is
	stopped chan struct{} // closed when no gateway will be started any more

	patience time.Duration

	warnings seldom

	mu        sync.Mutex // guards all below, and the order in which orders are sent
	endpoints map[string]*servedEndpoint
	peers     map[string]map[netip.Addr]string
	now       *process
	closed    bool
}

// servedEndpoint is an endpoint with its listeners.
type servedEndpoint struct {
	endpoint       Endpoint
	public, inside net.Listener
}

// Start starts the gateway. It ends with ctx as if it was closed. The listener
// of the gateway account belongs to the Manager from now on, also after an error.
func Start(ctx context.Context, o Options) (*Manager, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	k := &Manager{
		o:         o,
		closing:   make(chan struct{}),
		stopped:   make(chan struct{}),
		endpoints: make(map[string]*servedEndpoint),
		peers:     make(map[string]map[netip.Addr]string),
		now:       newProcess(),

		patience: patience,
	}
	if o.Gateway != nil {
		if _, err := hostKeys(o.HostKey); err != nil {
			o.Gateway.Close()
			return nil, fmt.Errorf("the gateway's host key cannot be read: %w", err)
		}
	}
	first := k.now
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

// SetEndpoint sets an endpoint: public listens at its port (nil: it has none), inside at
// port 22 in the node (nil: not there). The listeners belong to the Manager, which
// closes those that they replace; passing the same again keeps them. Sessions of
// keys that are no longer its are ended. After an error the endpoint is as before,
// or there is none as before; listeners that it had are the Manager's still, and
// others the caller's. Calls for the same node must not overlap.
func (k *Manager) SetEndpoint(d Endpoint, public, inside net.Listener) error {
	if err := check(d, public, inside); err != nil {
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
	wait := k.now.put(entry, old)
	k.mu.Unlock()
	err := k.await(wait)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err != nil && !k.closed:
		k.putBack(d.Node, old)
	case old != nil:
		old.closeBut(entry)
	}
	return err
}

// putBack makes the endpoint of a node what it was. The gateway is told again:
// whether it did what it gave no answer to is not known. The lock is held.
func (k *Manager) putBack(node string, old *servedEndpoint) {
	if old == nil {
		delete(k.endpoints, node)
		k.now.order(order{Kind: orderRemove, Node: node})
		return
	}
	k.endpoints[node] = old
	k.now.put(old, nil)
}

// check is what is wrong with an endpoint.
func check(d Endpoint, listeners ...net.Listener) error {
	if d.Node == "" {
		return errors.New("the endpoint has no node")
	}
	if d.Address == "" {
		if _, err := hostKeys(d.HostKey); err != nil {
			return fmt.Errorf("the host key of node %s cannot be read: %w", d.Node, err)
		}
	} else if _, _, err := net.SplitHostPort(d.Address); err != nil {
		return fmt.Errorf("the address of node %s is not host:port: %w", d.Node, err)
	}
	for _, l := range listeners {
		if _, ok := l.(filer); l != nil && !ok {
			return fmt.Errorf("a %T cannot be given to the gateway", l)
		}
	}
	return nil
}

// closeBut closes the listeners that next does not have, too.
func (d *servedEndpoint) closeBut(next *servedEndpoint) {
	for _, l := range []net.Listener{d.public, d.inside} {
		if l != nil && (next == nil || l != next.public && l != next.inside) {
			l.Close()
		}
	}
}

// SetPeers says which node answers at which address inside the nodes of a slice.
// No addresses: the slice is forgotten.
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
	wait := k.now.order(order{Kind: orderPeers, Slice: slice, Peers: at})
	k.mu.Unlock()
	return k.await(wait)
}

// RemoveEndpoint closes an endpoint and ends its sessions. It is no error when there is none.
func (k *Manager) RemoveEndpoint(node string) error {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return ErrClosed
	}
	old := k.endpoints[node]
	delete(k.endpoints, node)
	wait := k.now.order(order{Kind: orderRemove, Node: node})
	k.mu.Unlock()
	if old != nil {
		old.closeBut(nil)
	}
	return k.await(wait)
}

// await waits for the answer to a change of the endpoints. A gateway that gives none
// is killed: it would let in whom the change keeps out. The next one is told of
// all endpoints, so its start is an answer, too.
func (k *Manager) await(a *answer) error {
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
	if _, err := k.serving(ctx); err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	return errors.New("the gateway died and does not come back")
}

// serving waits for a gateway that has all endpoints.
func (k *Manager) serving(ctx context.Context) (*process, error) {
	for {
		k.mu.Lock()
		p := k.now
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

// VerifyLogin logs in at the endpoint, as a client would, with a key made for the purpose,
// as each account, and lets the node start a program of ours as that user. It
// runs no file of the user's.
// Of an endpoint with an Address it proves that an SSH server answers there.
func (k *Manager) VerifyLogin(ctx context.Context, node string) error {
	p, err := k.serving(ctx)
	if err != nil {
		return err
	}
	a := p.order(order{Kind: orderProve, Node: node})
	select {
	case <-a.done:
		return a.err
	case <-p.dead:
		return errors.New("the gateway died while a login was tried")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the gateway and closes all listeners. Nobody can log in any more;
// sessions go on, and the process ends with the last of them. Nobody needs to
// wait for that.
func (k *Manager) Close() error {
	k.end(false)
	return nil
}

// end stops the Manager, and with kill all sessions, too. It may be called again.
func (k *Manager) end(kill bool) {
	k.mu.Lock()
	if !k.closed {
		k.closed = true
		k.now.spared.Store(true)
		close(k.closing)
		for _, d := range k.endpoints {
			d.closeBut(nil)
		}
		if k.o.Gateway != nil {
			k.o.Gateway.Close()
		}
	}
	p := k.now
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
