package testbed

import (
	"context"
	"net"
	"net/netip"
	"os"

	"patchbay/inventory/provider/fdsocket"
	"patchbay/inventory/provider/local/fabric"
	"patchbay/inventory/provider/local/gateway"
	"patchbay/inventory/provider/local/node"
)

// nodeRuntime is node.Host, or a double in tests. Agent returns a connection to a node's agent;
// everything inside the node is done through the agent.
type nodeRuntime interface {
	IDs() ([]string, error)
	Prepare(ctx context.Context, s node.Spec) error
	Start(ctx context.Context, s node.Spec) (node.Running, error)
	Find(ctx context.Context, id string) (node.Running, bool)
	Died(id string) (died, boot bool)
	Reap(r node.Running) bool
	Kill(ctx context.Context, id string) error
	Remove(ctx context.Context, id string) error
	Usage(id string) (node.Usage, error)
	OOMKills(id string) (int64, error)
	Network(id string) (*os.File, error)
	Agent(ctx context.Context, id string) (*fdsocket.Conn, error)
}

// sshGateway is the SSH gateway, package gateway.
type sshGateway interface {
	SetEndpoint(d gateway.Endpoint, public, inside net.Listener) error
	SetPeers(slice string, at map[netip.Addr]string) error
	RemoveEndpoint(node string) error
	VerifyLogin(ctx context.Context, node string) error
	Close() error
}

// linkFabric holds the networks of slices, package fabric.
type linkFabric interface {
	CheckLink(l fabric.Link) error
	SetLink(ctx context.Context, l fabric.Link) (emulator string, err error)
	AttachEnd(ctx context.Context, slice, link, end string, node fabric.Namespace) error
	RemoveLinks(ctx context.Context, slice string, links ...string) error
	Links(ctx context.Context, slice string) ([]string, error)
	RemoveNetwork(ctx context.Context, slice string) error
	Slices() ([]string, error)
	Counters(ctx context.Context, slice string) (map[string]fabric.Counters, error)
	Close() error
}

// images are the root file systems, package image.
type images interface {
	Find(ctx context.Context, name string) (key string, i node.Image, err error)
	Key(key string) (node.Image, error)
	Names() ([]string, error)
	Sweep(used func(key string) bool) error
}

// allocator allocates numbers of one kind that are unique on this host, package hostalloc.
type allocator interface {
	Allocate(holder string, fits func(uint32) bool) (uint32, error)
	Claim(n uint32, holder string) error
	Release(n uint32, holder string) error
	Free() (int, error)
	Sweep(instance string, keep func(holder string, n uint32) bool) (problems []error, err error)
	Close() error
}

// egressNetwork is the nodes' outside network, package egress.
type egressNetwork interface {
	Attach(ctx context.Context, number int, node *os.File) error
	Detach(number int) error
	SetOwner(number int, owner string)
	SourceAddresses(number int) []string
	Sweep(keep func(number int) bool) error
	Close() error
}
