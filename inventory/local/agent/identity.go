package agent

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/fdsocket"
)

// Argv0 is the name under which the program runs as PID 1 of a node, and as
// what PID 1 starts of itself.
const Argv0 = "patchbay-agent"

// Identity is what an agent says of itself.
type Identity struct {
	Node string // the node's id, as it was told when it was started
}

// Each of the following is one operation: it uses the connection up and closes
// it, Exec when its Process is closed.

// Ping asks who the agent is.
func Ping(ctx context.Context, c *fdsocket.Conn) (Identity, error) {
	defer c.Close()
	a, _, err := call(ctx, c, request{Op: opPing}, nil, 0)
	return Identity{a.Node}, err
}

// WaitUntilGone waits until the agent is gone (nil) or ctx is done.
func WaitUntilGone(ctx context.Context, c *fdsocket.Conn) error {
	defer c.Close()
	a, _, err := call(ctx, c, request{Op: opWait}, nil, 0)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("the agent answered %q where it should have waited", a.Node)
}

// Halt asks all processes of the node to end, and waits up to two seconds.
func Halt(ctx context.Context, c *fdsocket.Conn) error {
	defer c.Close()
	_, _, err := call(ctx, c, request{Op: opHalt}, nil, 0)
	return err
}
