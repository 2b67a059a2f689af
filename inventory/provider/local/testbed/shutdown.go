package testbed

import (
	"context"

	"patchbay/inventory/node/agent"
)

// shutDown asks the node to shut down, and then kills its remaining processes. The parameter
// progress becomes the node's message. The parameter interruption is recorded for the running
// step.
func (nc *nodeController) shutDown(ctx context.Context, progress, interruption string) result {
	if nc.run == nil {
		return result{}
	}
	nc.reportProgress(progress)
	nc.updateStatus(func(s *status) { s.loginsOpen = false })
	nc.stopSteps()
	nc.interruptSteps(interruption)
	halt, cancel := context.WithTimeout(ctx, slowAgentTime)
	defer cancel()
	c, err := nc.t.runtime.Agent(halt, nc.id)
	if err == nil {
		err = agent.Halt(halt, c)
	}
	if err != nil && ctx.Err() == nil {
		nc.t.log.Info("a node did not shut down on request; killing it", "node", nc.id, "error", err)
	}
	return resultOf(asUserError("it cannot be shut down", nc.kill()))
}

// kill works also while the program is ending.
func (nc *nodeController) kill() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(nc.t.ctx), startTime)
	defer cancel()
	nc.clearRun()
	return nc.t.runtime.Kill(ctx, nc.id)
}

// clearRun stops everything in this program that serves the current run. The processes of the
// node continue.
func (nc *nodeController) clearRun() {
	nc.stopSteps()
	nc.updateStatus(func(s *status) { s.pid, s.loginsOpen, s.hangs = 0, false, false })
	if nc.run != nil && nc.run.geni != nil {
		nc.run.geni.Close()
	}
	nc.hosts.Store(0)
	nc.run = nil
	nc.endpoint.inside = nil // the gateway closes this listener when it gets the next one
}

func (nc *nodeController) closeLogins(*round) result {
	err := nc.closeEndpoints()
	if nc.run == nil {
		nc.clearRun()
	}
	return resultOf(asUserError("its endpoint at the gateway cannot be closed", err))
}
