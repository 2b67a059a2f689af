package testbed

import (
	"context"
	"net"
	"net/netip"
	"os"

	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/fabric"
	"patchbay/inventory/local/gateway"
	"patchbay/inventory/local/node"
	"patchbay/inventory/local/setup"
	"patchbay/inventory/local/wire"
)

// machines makes nodes and speaks with their agents.
type machines interface {
	Format(ctx context.Context, size int64) error
	Prepare(ctx context.Context, s node.Spec) error
	Start(ctx context.Context, s node.Spec) (node.Running, error)
	Find(ctx context.Context, id string) (node.Running, bool)
	Reap(r node.Running) bool
	Kill(ctx context.Context, id string) error
	Remove(ctx context.Context, id string) error
	IDs() ([]string, error)
	Usage(id string) (node.Usage, error)
	Relieve(ctx context.Context)
	PlaceGateway(pid int, l node.Limits) error
	PlaceRelay(slice string, pid int, l node.Limits) error
	LeaveRelay(slice string) error
	Network(id string) (*os.File, error)
	Close() error

	Agent(ctx context.Context, id string) (*wire.Conn, error)
	Answers(ctx context.Context, id string) error
	Configure(ctx context.Context, id string, c agent.Configuration) (agent.Facts, error)
	Halt(ctx context.Context, id string) error
	Hold(ctx context.Context, id string) error
	Listen(ctx context.Context, id, network, address, owner string) (net.Listener, error)
	Setup(ctx context.Context, id string, words []string, input []byte, each func(setup.Report)) error
}

// doorkeeper is the gateway.
type doorkeeper interface {
	Put(d gateway.Door, public, inside net.Listener) error
	Peers(slice string, at map[netip.Addr]string) error
	Remove(node string) error
	Prove(ctx context.Context, node string) error
	Close() error
}

// fabrics are the networks of slices.
type fabrics interface {
	Check(l fabric.Link) error
	Put(ctx context.Context, l fabric.Link) (emulator string, err error)
	Plug(ctx context.Context, slice, link, end string, node fabric.Namespace) error
	Remove(ctx context.Context, slice, link string) error
	Links(ctx context.Context, slice string) ([]string, error)
	Drop(ctx context.Context, slice string) error
	Slices() ([]string, error)
	Counters(ctx context.Context, slice string) (map[string]fabric.Counters, error)
	Close() error
}

// images are root file systems.
type images interface {
	Find(ctx context.Context, name string) (key string, i node.Image, err error)
	Key(key string) (node.Image, error)
	Names() ([]string, error)
	Sweep(used func(key string) bool) error
}

// numbers are claims of one kind.
type numbers interface {
	Take(holder string, fits func(uint32) bool) (uint32, error)
	Hold(n uint32, holder string) error
	Release(n uint32, holder string) error
	Sweep(instance string, keep func(holder string, n uint32) bool) (problems []error, err error)
	Close() error
}

// host is a node.Host with its agents.
type host struct{ *node.Host }

func (h host) Configure(ctx context.Context, id string, cfg agent.Configuration) (agent.Facts, error) {
	c, err := h.Agent(ctx, id)
	if err != nil {
		return agent.Facts{}, err
	}
	defer c.Close()
	return agent.Configure(ctx, c, cfg)
}

func (h host) Halt(ctx context.Context, id string) error {
	c, err := h.Agent(ctx, id)
	if err != nil {
		return err
	}
	defer c.Close()
	return agent.Halt(ctx, c)
}

func (h host) Hold(ctx context.Context, id string) error {
	c, err := h.Agent(ctx, id)
	if err != nil {
		return err
	}
	defer c.Close()
	return agent.Hold(ctx, c)
}

func (h host) Listen(ctx context.Context, id, network, address, owner string) (net.Listener, error) {
	c, err := h.Agent(ctx, id)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return agent.Listen(ctx, c, network, address, owner)
}
