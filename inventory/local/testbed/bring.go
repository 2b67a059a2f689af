package testbed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"patchbay/inventory/local"
	"patchbay/inventory/local/claim"
	"patchbay/inventory/local/node"
	"patchbay/inventory/provider"
)

// bring does what is left to make the node as asked.
func (l *life) bring(ctx context.Context, rec record) error {
	if err := l.settleNumbers(ctx, &rec); err != nil {
		return err
	}
	on := rec.Asked.Power == provider.On
	if l.up && (!on || rec.Asked.RestartSerial != rec.Restarted) {
		if err := l.stop(ctx, on); err != nil {
			return err
		}
	}
	if rec.Asked.RestartSerial != rec.Restarted {
		serial := rec.Asked.RestartSerial
		if err := l.settle(func(r *record) { r.Restarted = serial }); err != nil {
			return inWords("its restart cannot be noted on the disk of the host", err)
		}
		l.deaths = nil
	}
	if !on {
		return l.shut()
	}
	if !l.up {
		if len(l.deaths) > maxDeaths {
			return errors.Join(l.shut(), &wordsError{deathsMessage, errors.New("PID 1 has ended too often"), true})
		}
		if err := l.start(ctx, rec); err != nil {
			return err
		}
	}
	later, err := l.bringOutside(ctx, &rec)
	if err != nil {
		return err
	}
	if err := l.connect(ctx, rec); err != nil {
		return err
	}
	if err := l.tell(ctx, rec); err != nil {
		return err
	}
	return later
}

// settleNumbers claims what the node keeps for its life.
func (l *life) settleNumbers(ctx context.Context, rec *record) error {
	if rec.ImageKey != "" && rec.Base != 0 && (rec.Port != 0 || l.t.settings.Publish == local.Gateway) {
		return nil
	}
	if err := l.t.heavy.take(ctx, false); err != nil {
		return err
	}
	defer l.t.heavy.give()
	if rec.ImageKey == "" {
		l.doing("preparing its image")
		l.t.finding.RLock()
		defer l.t.finding.RUnlock()
		key, _, err := l.t.images.Find(ctx, rec.Asked.imageName())
		if errors.Is(err, fs.ErrNotExist) {
			return &wordsError{fmt.Sprintf("there is no image %s any more", rec.Asked.imageName()), err, true}
		}
		if err != nil {
			return inWords("its image cannot be prepared", err)
		}
		rec.ImageKey = key
	}
	if l.base == 0 {
		l.base = rec.Base
	}
	if l.base == 0 {
		base, err := l.t.ids.Take(l.holder(), nil)
		if errors.Is(err, claim.ErrNone) {
			return &wordsError{"this host has no user ids left for nodes; remove some nodes first", err, true}
		}
		if err != nil {
			return inWords("no user ids can be claimed for it", err)
		}
		l.base = base
	}
	rec.Base = l.base
	if err := l.listen(rec); err != nil {
		return err
	}
	return inWords("it cannot be noted on the disk of the host", l.settle(func(r *record) {
		r.ImageKey, r.Base, r.Port = rec.ImageKey, rec.Base, rec.Port
	}))
}

func (l *life) holder() string { return l.t.settings.Instance + "/" + l.id }

// start makes the node run, from its disk if it has one.
func (l *life) start(ctx context.Context, rec record) error {
	if err := l.t.heavy.take(ctx, false); err != nil {
		return err
	}
	defer l.t.heavy.give()
	if l.snapshot().Change != rec.Change {
		return errors.New("something else is asked by now")
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	i, err := l.t.images.Key(rec.ImageKey)
	if errors.Is(err, fs.ErrNotExist) {
		return &wordsError{"the image that it was made of is gone; remove the node and make it anew", err, true}
	}
	if err != nil {
		return inWords("its image cannot be used", err)
	}
	spec := node.Spec{ID: l.id, Hostname: rec.Asked.hostname(l.id), Base: rec.Base, Image: i, Limits: rec.Limits}
	if err := l.t.ids.Hold(rec.Base, l.holder()); errors.Is(err, claim.ErrTaken) {
		return &wordsError{takenMessage, err, true}
	} else if err != nil {
		return inWords("its user ids cannot be claimed", err)
	}
	l.doing("making its disk")
	if l.runs > 0 { // what has ended may have left something
		if err := l.t.machines.Kill(ctx, l.id); err != nil {
			return inWords("what is left of its last run cannot be ended", err)
		}
	}
	if err := l.t.machines.Prepare(ctx, spec); err != nil {
		return inWords("its disk cannot be made", err)
	}
	l.doing("starting")
	r, err := l.t.machines.Start(ctx, spec)
	if err != nil {
		err = inWords("it does not start", err)
		if kill := l.kill(); kill != nil {
			err = errors.Join(err, kill)
		}
		return err
	}
	l.began(r)
	return nil
}

// kill ends everything of the node, also when nobody waits for it any more.
func (l *life) kill() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.ctx), startTime)
	defer cancel()
	l.ended()
	return l.t.machines.Kill(ctx, l.id)
}

// stop shuts the node down.
func (l *life) stop(ctx context.Context, restarts bool) error {
	l.doing(map[bool]string{true: "restarting", false: "shutting down"}[restarts])
	l.setOpen(false)
	l.pauseServices()
	l.services.cut(map[bool]string{true: cutRestart, false: cutOff}[restarts])
	halt, cancel := context.WithTimeout(ctx, talkTime)
	defer cancel()
	if err := l.t.machines.Halt(halt, l.id); err != nil && ctx.Err() == nil {
		l.t.log.Info("a node does not shut down by itself", "node", l.id, "error", err)
	}
	return inWords("it cannot be shut down", l.kill())
}

func (l *life) setPID(pid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pid = pid
}

// ended lets go of what ends with a run.
func (l *life) ended() {
	l.up, l.linked, l.told, l.proven = false, false, false, false
	l.pauseServices()
	l.setPID(0)
	l.setOpen(false)
	if l.geni != nil {
		l.geni.Close()
		l.geni = nil
	}
	l.inside = nil // the gateway closes it when it is replaced
}

// shut closes the doors of a node that is off.
func (l *life) shut() error {
	err := l.closeDoors()
	if !l.up {
		l.ended()
	}
	return inWords("its doors cannot be closed", err)
}

const removing = "being removed"

// remove leaves nothing of the node.
func (l *life) remove(ctx context.Context) error {
	l.doing(removing)
	if err := l.shut(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	if err := l.removeMachine(ctx); err != nil {
		return err
	}
	l.leaveNetwork()
	rec := l.snapshot()
	if err := l.giveBack(rec); err != nil {
		return err
	}
	if err := l.leaveOutside(rec); err != nil {
		return err
	}
	l.leaveSlice()
	l.mu.Lock() // nobody hears that it is gone before it has left everything
	defer l.mu.Unlock()
	l.gone = true
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	delete(l.t.lives, l.id)
	return nil
}

func (l *life) removeMachine(ctx context.Context) error {
	if l.attempts == 0 { // later ones mostly wait for what cannot be removed
		if err := l.t.heavy.take(ctx, true); err != nil {
			return err
		}
		defer l.t.heavy.give()
	}
	l.ended()
	return l.t.machines.Remove(ctx, l.id)
}

// giveBack ends the claims of the node.
func (l *life) giveBack(rec record) error {
	base, port := cmp.Or(rec.Base, l.base), cmp.Or(l.port, rec.Port)
	if base == 0 { // not known, so whatever is its own
		keep := func(holder string, _ uint32) bool { return holder != l.holder() }
		_, err := l.t.ids.Sweep(l.t.settings.Instance, keep)
		_, ports := l.t.ports.Sweep(l.t.settings.Instance, keep)
		return errors.Join(err, ports)
	}
	err := l.t.ids.Release(base, l.holder())
	if port != 0 {
		err = errors.Join(err, l.t.ports.Release(uint32(port), l.holder()))
	}
	return err
}
