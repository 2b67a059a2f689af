package testbed

import (
	"context"

	"patchbay/inventory/local/agent"
)

// shutDown asks a running node to shut down, and then kills its remaining processes. doing is
// the reported progress. cut is recorded as the interruption of the step that runs in the node.
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
		nc.t.log.Info("a node did not shut down on request; killing it", "node", nc.id, "error", err)
	}
	return resultOf(asUserError("it cannot be shut down", nc.kill()))
}

// kill ends all processes of the node, also while the program is ending.
func (nc *nodeController) kill() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(nc.t.ctx), startTime)
	defer cancel()
	nc.clearRun()
	return nc.t.runtime.Kill(ctx, nc.id)
}

// clearRun stops everything in this program that belongs to the run, and reports that the
// node does not run. It does not end the node's processes.
func (nc *nodeController) clearRun() {
	nc.stopSteps()
	nc.updateStatus(func(s *status) { s.pid, s.loginsOpen, s.hangs = 0, false, false })
	if nc.run != nil && nc.run.geni != nil {
		nc.run.geni.Close()
	}
	nc.run = nil
	nc.endpoint.inside = nil // the gateway closes it when it is replaced
}

// closeLogins closes the endpoint of a node that is off or being removed.
func (nc *nodeController) closeLogins(*round) result {
	err := nc.closeEndpoints()
	if nc.run == nil {
		nc.clearRun()
	}
	return resultOf(asUserError("its endpoint at the gateway cannot be closed", err))
}
