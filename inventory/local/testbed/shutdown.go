package testbed

import (
	"context"

	"patchbay/inventory/local/agent"
)

// shutDown shuts the node down if it runs; cut is what that means to its steps.
func (nc *nodeController) shutDown(ctx context.Context, doing, cut string) result {
	if nc.run == nil {
		return result{}
	}
	nc.reportProgress(doing)
	nc.updateStatus(func(s *status) { s.loginsOpen = false })
	nc.stopSteps()
	nc.steps.recordInterruption(cut)
	halt, cancel := context.WithTimeout(ctx, slowAgentTime)
	defer cancel()
	c, err := nc.t.runtime.Agent(halt, nc.id)
	if err == nil {
		err = agent.Halt(halt, c)
	}
	if err != nil && ctx.Err() == nil {
		nc.t.log.Info("a node does not shut down by itself", "node", nc.id, "error", err)
	}
	return resultOf(asUserError("it cannot be shut down", nc.kill()))
}

// kill ends everything of the node, also when the program is ending.
func (nc *nodeController) kill() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(nc.t.ctx), startTime)
	defer cancel()
	nc.clearRun()
	return nc.t.runtime.Kill(ctx, nc.id)
}

// clearRun lets go of what ends with a run.
func (nc *nodeController) clearRun() {
	nc.stopSteps()
	nc.updateStatus(func(s *status) { s.pid, s.loginsOpen, s.hangs = 0, false, false })
	if nc.run != nil && nc.run.geni != nil {
		nc.run.geni.Close()
	}
	nc.run = nil
	nc.endpoint.inside = nil // the gateway closes it when it is replaced
}

// closeLogins closes the doors of a node that is off, or is being removed.
func (nc *nodeController) closeLogins(*round) result {
	err := nc.closeEndpoints()
	if nc.run == nil {
		nc.clearRun()
	}
	return resultOf(asUserError("its doors cannot be closed", err))
}
