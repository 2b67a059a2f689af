package testbed

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"patchbay/inventory/node/agent"
	"patchbay/inventory/node/setup"
)

// pingAgent fails only if no answer comes within timeout. It ignores other errors, since the
// next call of the agent returns them, too. It does not use the slots of agentCalls, so that
// frozen nodes do not block other nodes.
func (t *Testbed) pingAgent(ctx context.Context, id string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := t.runtime.Agent(ctx, id)
	if err == nil {
		_, err = agent.Ping(ctx, c)
	}
	if err != nil {
		return ctx.Err()
	}
	return nil
}

func (nc *nodeController) listenInside(ctx context.Context, network, address, owner string) (net.Listener, error) {
	c, err := nc.t.runtime.Agent(ctx, nc.id)
	if err != nil {
		return nil, err
	}
	return agent.Listen(ctx, c, network, address, owner)
}

// runSetup runs the setup program inside the node. It passes input to the program, and calls
// handle with each report. It returns when the program or ctx ends.
func (t *Testbed) runSetup(ctx context.Context, id string, args []string, input io.Reader, handle func(setup.Report)) error {
	c, err := t.runtime.Agent(ctx, id)
	if err != nil {
		return err
	}
	defer c.Close()
	inside, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	out, insideOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, inside.Close())
	}
	defer out.Close()
	p, err := agent.Exec(ctx, c, agent.Command{User: "root", Self: args}, []*os.File{inside, insideOut, insideOut})
	err = errors.Join(err, inside.Close(), insideOut.Close())
	if err != nil {
		return err
	}
	defer p.Close()
	defer context.AfterFunc(ctx, func() {
		_ = in.SetDeadline(time.Unix(1, 0))
		_ = out.SetDeadline(time.Unix(1, 0))
	})()
	written := make(chan struct{})
	go func() {
		defer close(written)
		if input != nil {
			_, _ = io.Copy(in, input) // fails only if the program ends before it has read the input
			in.Close()
		}
	}()
	err = setup.ReadReports(out, handle)
	_ = in.SetDeadline(time.Unix(1, 0))
	<-written
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
