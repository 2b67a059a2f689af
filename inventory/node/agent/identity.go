package agent

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/fdsocket"
)

// Argv0 is the name of the process as PID 1 of a node, and of the helpers that PID 1 starts.
const Argv0 = "patchbay-agent"

// Identity is the agent's answer to Ping.
type Identity struct {
	Node string // the node's id, from the agent's environment
}

// Each function below is one operation, and closes the connection. Only Exec does not:
// Process.Close closes its connection.

// Ping returns the agent's identity.
func Ping(ctx context.Context, c *fdsocket.Conn) (Identity, error) {
	defer c.Close()
	a, _, err := call(ctx, c, request{Op: opPing}, nil, 0)
	return Identity{a.Node}, err
}

// WaitForEnd waits until the agent has ended, and then returns nil. If ctx ends
// earlier, it returns an error.
func WaitForEnd(ctx context.Context, c *fdsocket.Conn) error {
	defer c.Close()
	a, _, err := call(ctx, c, request{Op: opWait}, nil, 0)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("the agent answered %q instead of waiting", a.Node)
}

// Halt asks all processes of the node to end, and waits for them for up to two seconds.
func Halt(ctx context.Context, c *fdsocket.Conn) error {
	defer c.Close()
	_, _, err := call(ctx, c, request{Op: opHalt}, nil, 0)
	return err
}
