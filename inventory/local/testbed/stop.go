package testbed

import (
	"context"

	"patchbay/inventory/local/agent"
)

// stop shuts the node down if it runs; cut is what that means to its steps.
func (l *life) stop(ctx context.Context, doing, cut string) result {
	if l.run == nil {
		return result{}
	}
	l.doing(doing)
	l.update(func(s *status) { s.open = false })
	l.pauseServices()
	l.services.cut(cut)
	halt, cancel := context.WithTimeout(ctx, talkTime)
	defer cancel()
	c, err := l.t.machines.Agent(halt, l.id)
	if err == nil {
		err = agent.Halt(halt, c)
	}
	if err != nil && ctx.Err() == nil {
		l.t.log.Info("a node does not shut down by itself", "node", l.id, "error", err)
	}
	return failure(inWords("it cannot be shut down", l.kill()))
}

// kill ends everything of the node, also when the program is ending.
func (l *life) kill() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.ctx), startTime)
	defer cancel()
	l.ended()
	return l.t.machines.Kill(ctx, l.id)
}

// ended lets go of what ends with a run.
func (l *life) ended() {
	l.pauseServices()
	l.update(func(s *status) { s.pid, s.open, s.hangs = 0, false, false })
	if l.run != nil && l.run.geni != nil {
		l.run.geni.Close()
	}
	l.run = nil
	l.door.inside = nil // the gateway closes it when it is replaced
}

// shut closes the doors of a node that is off, or is being removed.
func (l *life) shut(*round) result {
	err := l.closeDoors()
	if l.run == nil {
		l.ended()
	}
	return failure(inWords("its doors cannot be closed", err))
}
