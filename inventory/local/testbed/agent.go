package testbed

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"time"

	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/setup"
)

// pingAgent pings the node's agent. It fails if no answer comes within the given time. It ignores
// other errors, since the next call of the agent fails with them too. It does not use
// agentCalls, so that frozen nodes do not block others.
func (t *Testbed) pingAgent(ctx context.Context, id string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
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

// listenInside opens a listener inside the node.
func (nc *nodeController) listenInside(ctx context.Context, network, address, owner string) (net.Listener, error) {
	c, err := nc.t.runtime.Agent(ctx, nc.id)
	if err != nil {
		return nil, err
	}
	return agent.Listen(ctx, c, network, address, owner)
}

// runSetup runs the setup program inside the node with the arguments words, to start a step
// or to wait for its end. It writes input to the program, and passes every report to each. It
// returns when the program or ctx ends.
func (t *Testbed) runSetup(ctx context.Context, id string, words []string, input []byte, each func(setup.Report)) error {
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
	p, err := agent.Exec(ctx, c, agent.Command{User: "root", Self: words}, []*os.File{inside, insideOut, insideOut})
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
			_, _ = bytes.NewReader(input).WriteTo(in) // a program that does not read it has failed
			in.Close()
		}
	}()
	err = setup.ReadReports(out, each)
	_ = in.SetDeadline(time.Unix(1, 0))
	<-written
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
