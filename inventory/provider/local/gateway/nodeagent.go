package gateway

import (
	"context"
	"net"
	"os"

	"patchbay/inventory/node/agent"
	"patchbay/inventory/provider/fdsocket"
)

// nodeAgents are the calls to a node's agent. Each call consumes its connection.
type nodeAgents interface {
	exec(ctx context.Context, c *fdsocket.Conn, cmd agent.Command, stdio []*os.File) (command, error)
	dial(ctx context.Context, c *fdsocket.Conn, network, address, user string) (net.Conn, error)
	listen(ctx context.Context, c *fdsocket.Conn, network, address, owner string) (net.Listener, error)
}

type command interface {
	terminal() *os.File
	Signal(number int) error
	Wait() (agent.Exit, error)
	Close() error
}

type localAgents struct{}

func (localAgents) exec(ctx context.Context, c *fdsocket.Conn, cmd agent.Command, stdio []*os.File) (command, error) {
	p, err := agent.Exec(ctx, c, cmd, stdio)
	if err != nil {
		return nil, err
	}
	return started{p}, nil
}

func (localAgents) dial(ctx context.Context, c *fdsocket.Conn, network, address, user string) (net.Conn, error) {
	return agent.Dial(ctx, c, network, address, user)
}

func (localAgents) listen(ctx context.Context, c *fdsocket.Conn, network, address, owner string) (net.Listener, error) {
	return agent.Listen(ctx, c, network, address, owner)
}

type started struct{ *agent.Process }

func (s started) terminal() *os.File { return s.Terminal }
