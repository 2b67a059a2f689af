package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"

	"patchbay/inventory/local/wire"
)

// Argv0 is the name under which the program runs as the gateway.
const Argv0 = "patchbay-gateway"

// User is the account of the gateway that only forwards to nodes.
const User = "gateway"

// Account is a login at a node and the keys that open it: lines as in
// authorized_keys.
type Account struct {
	Login string
	Keys  []string
}

// Door is what the gateway knows of one node.
type Door struct {
	// Node is the node's id.
	Node string
	// Slice tells whose peers it has.
	Slice string
	// Names are what the gateway account may call it, beside its id.
	Names    []string
	Accounts []Account
	// InsideKeys open every account, but only at port 22 inside nodes of its slice.
	InsideKeys []string
	// HostKey is its private key, OpenSSH PEM.
	HostKey []byte
	// Address is host:port of the SSH server of another provider's node, to
	// which its doors lead; then HostKey is empty. Empty: the node's agent.
	Address string
}

// Options of a Keeper.
type Options struct {
	// Program is the path of this program, which runs again as the gateway.
	Program  string
	UID, GID int
	// Gateway listens for the gateway account; HostKey is its private key.
	Gateway net.Listener
	HostKey []byte
	// Agent connects to the agent of a node.
	Agent func(ctx context.Context, node string) (*wire.Conn, error)
	// Place is called with each new gateway process before it serves, to put
	// it under limits.
	Place func(pid int) error
	Log   *slog.Logger
}

var errNotBuilt = errors.New("not built yet")

// Keeper runs the gateway process and knows all its doors, so that one that died is
// replaced by an equal one.
type Keeper struct{}

// Start starts the gateway; it ends with ctx.
func Start(ctx context.Context, o Options) (*Keeper, error) { return nil, errNotBuilt }

// Put sets a door: public listens at its port (nil: it has none), inside at port 22 in the node (nil:
// not there). The listeners belong to the Keeper, which closes those that they replace; passing the
// same again keeps them. Sessions of keys that are no longer its are ended.
func (k *Keeper) Put(d Door, public, inside net.Listener) error { return errNotBuilt }

// Peers says which node answers at which address inside the nodes of a slice.
func (k *Keeper) Peers(slice string, at map[netip.Addr]string) error { return errNotBuilt }

// Remove closes a door and ends its sessions.
func (k *Keeper) Remove(node string) error { return errNotBuilt }

// Prove logs in at the door, as a client would, with a key made for the purpose, as each account, and runs nothing.
func (k *Keeper) Prove(ctx context.Context, node string) error { return errNotBuilt }

// Close ends the gateway and closes all listeners.
func (k *Keeper) Close() error { return errNotBuilt }

// Main is the gateway process. It does not return.
func Main() {}
