package testbed

import (
	"context"
	"errors"
)

// hide says that the node is being removed.
func (l *life) hide(*round) result {
	l.doing(removing)
	return result{}
}

// removeFiles ends the node, and removes its files and links.
func (l *life) removeFiles(r *round) result {
	ctx, cancel := context.WithTimeout(r.ctx, removeTime)
	defer cancel()
	if l.attempts == 0 { // further attempts mostly wait for what cannot be removed
		if err := l.t.removals.take(ctx); err != nil {
			return failure(err)
		}
		defer l.t.removals.give()
	}
	l.ended()
	if err := l.t.machines.Remove(ctx, l.id); err != nil {
		return failure(err)
	}
	l.leaveNetwork()
	return result{}
}

// release gives back everything that the node has claimed, and forgets it.
func (l *life) release(r *round) result {
	if err := l.giveBack(l.snapshot()); err != nil {
		return failure(err)
	}
	if err := l.leaveOutside(l.snapshot()); err != nil {
		return failure(err)
	}
	l.leaveSlice()
	l.mu.Lock() // it is reported as gone only after it has left everything
	defer l.mu.Unlock()
	l.gone = true
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	delete(l.t.lives, l.id)
	return result{}
}

// giveBack ends the claims of the node.
func (l *life) giveBack(rec record) error {
	if rec.Base == 0 { // not known, so everything that is claimed in its name
		keep := func(holder string, _ uint32) bool { return holder != l.holder() }
		_, err := l.t.ids.Sweep(l.t.settings.Instance, keep)
		_, ports := l.t.ports.Sweep(l.t.settings.Instance, keep)
		return errors.Join(err, ports)
	}
	err := l.t.ids.Release(rec.Base, l.holder())
	if rec.Port != 0 {
		err = errors.Join(err, l.t.ports.Release(uint32(rec.Port), l.holder()))
	}
	return err
}
