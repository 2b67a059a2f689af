package testbed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"patchbay/inventory/local"
	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/hostalloc"
	"patchbay/inventory/local/node"
	"patchbay/inventory/provider"
)

// The phases of a node, by what is asked of it. A phase that finds its part of the
// node as asked does nothing.
var (
	phasesOn      = []phase{(*life).reserve, (*life).stopToRestart, (*life).noteRestart, (*life).start, (*life).connectOutside, (*life).connectLinks, (*life).narrowAccess, (*life).readPeers, (*life).talk, (*life).waitForSteps, (*life).reportReady}
	phasesOff     = []phase{(*life).reserve, (*life).stopForOff, (*life).noteRestart, (*life).shut, (*life).reportReady}
	phasesRemoval = []phase{(*life).hide, (*life).shut, (*life).removeFiles, (*life).release}
	phasesBroken  = []phase{(*life).stayDown}
	phasesFailed  = []phase{(*life).stayFailed}
)

func (l *life) phases(rec record) []phase {
	switch {
	case rec.Asked.Removing:
		return phasesRemoval
	case l.broken != "":
		return phasesBroken
	case rec.Failed != "" && rec.FailedAt == rec.Change && !l.earlier.failed:
		return phasesFailed
	case rec.Asked.Power == provider.On:
		return phasesOn
	}
	return phasesOff
}

// reserve settles the image, user ids and port that the node keeps as long as it
// exists.
func (l *life) reserve(r *round) result {
	rec := &r.rec
	if rec.ImageKey != "" && rec.Base != 0 && (rec.Port != 0 || l.t.settings.Publish == local.Gateway) {
		return result{}
	}
	if err := l.t.heavy.take(r.ctx); err != nil {
		return failure(err)
	}
	defer l.t.heavy.give()
	if rec.ImageKey == "" {
		l.doing(findingImage)
		l.t.finding.RLock()
		defer l.t.finding.RUnlock()
		key, _, err := l.t.images.Find(r.ctx, rec.Asked.imageName())
		if errors.Is(err, fs.ErrNotExist) {
			return failure(&wordsError{fmt.Sprintf("there is no image %s any more", rec.Asked.imageName()), err, true})
		}
		if err != nil {
			return failure(inWords("its image cannot be prepared", err))
		}
		rec.ImageKey = key
	}
	if rec.Base == 0 {
		base, err := l.t.ids.Take(l.holder(), nil)
		if errors.Is(err, hostalloc.ErrNone) {
			return failure(&wordsError{"this host has no user ids left for nodes; remove some nodes first", err, true})
		}
		if err != nil {
			return failure(inWords("no user ids can be claimed for it", err))
		}
		rec.Base = base
		if err := l.settle(func(next *record) { next.ImageKey, next.Base = rec.ImageKey, base }); err != nil {
			return failure(inWords("it cannot be noted on the disk of the host", errors.Join(err, l.t.ids.Release(base, l.holder()))))
		}
	}
	return failure(l.listen(rec))
}

// stopToRestart shuts the node down if a restart is asked.
func (l *life) stopToRestart(r *round) result {
	if r.rec.Asked.RestartSerial == r.rec.Restarted {
		return result{}
	}
	return l.stop(r.ctx, "restarting", cutRestart)
}

func (l *life) stopForOff(r *round) result {
	if end := l.stop(r.ctx, "shutting down", cutOff); end.outcome != done {
		return end
	}
	return failure(l.forgetMishaps())
}

// noteRestart notes that the restart that was asked for is done.
func (l *life) noteRestart(r *round) result {
	serial := r.rec.Asked.RestartSerial
	if serial == r.rec.Restarted {
		return result{}
	}
	l.deaths = nil
	return failure(inWords("its restart cannot be noted on the disk of the host", l.settle(func(next *record) { next.Restarted, next.mishaps = serial, mishaps{} })))
}

// start makes the node run, from its disk if it has one.
func (l *life) start(r *round) result {
	if l.run != nil {
		return result{}
	}
	if len(l.deaths) > maxDeaths {
		return failure(errors.Join(l.shut(r).err, &wordsError{deathsMessage, errors.New("PID 1 has ended too often"), true}))
	}
	if err := l.t.heavy.take(r.ctx); err != nil {
		return failure(err)
	}
	defer l.t.heavy.give()
	if l.snapshot().Change != r.rec.Change {
		return failure(errors.New("something else is asked by now"))
	}
	ctx, cancel := context.WithTimeout(r.ctx, startTime)
	defer cancel()
	i, err := l.t.images.Key(r.rec.ImageKey)
	if errors.Is(err, fs.ErrNotExist) {
		return failure(&wordsError{"the image that it was made of is gone; remove the node and make it anew", err, true})
	}
	if err != nil {
		return failure(inWords("its image cannot be used", err))
	}
	spec := node.Spec{ID: l.id, Hostname: r.rec.Asked.hostname(l.id), Base: r.rec.Base, Image: i, Limits: r.rec.Limits}
	if err := l.t.ids.Hold(r.rec.Base, l.holder()); errors.Is(err, hostalloc.ErrTaken) {
		return failure(&wordsError{takenMessage, err, true})
	} else if err != nil {
		return failure(inWords("its user ids cannot be claimed", err))
	}
	l.doing("making its disk")
	if l.started { // the run that ended may have left processes
		if err := l.t.machines.Kill(ctx, l.id); err != nil {
			return failure(inWords("what is left of its last run cannot be ended", err))
		}
	}
	if err := l.t.machines.Prepare(ctx, spec); err != nil {
		return failure(inWords("its disk cannot be made", err))
	}
	l.doing("starting")
	running, err := l.t.machines.Start(ctx, spec)
	if err != nil {
		return failure(errors.Join(inWords("it does not start", err), l.kill()))
	}
	l.began(running)
	return result{}
}

// connectOutside gives a node that runs its way outside, once in each run. A node
// that an earlier program left running is to be reached without it, too.
func (l *life) connectOutside(r *round) result {
	err := inWords("it cannot get its way to the network outside", l.goOutside(r.ctx, &r.rec))
	if err != nil && l.earlier.ran {
		return r.postpone(err)
	}
	return failure(err)
}

// connectLinks gives the running node its links.
func (l *life) connectLinks(r *round) result {
	if l.network == nil || l.run.linked {
		return result{}
	}
	l.doing("connecting its links")
	ctx, cancel := context.WithTimeout(r.ctx, linkTime)
	defer cancel()
	err := l.network.connect(ctx, l)
	if err == nil {
		l.run.linked = true
		return result{}
	}
	end := result{failed, 0, err}
	if _, ok := errors.AsType[*wordsError](err); !ok {
		end.err = inWords("its links cannot be made", err)
	}
	if l.earlier.ranWell() || ctx.Err() != nil || errors.Is(err, errLeaving) {
		end.outcome = retry
	}
	return end
}

// narrowAccess takes access from users who have lost it. It comes before anything
// that is done inside the node, which these users may control.
func (l *life) narrowAccess(r *round) result {
	users, err := parseUsers(r.rec.Asked.Users)
	if err != nil {
		return failure(&wordsError{err.Error(), err, true})
	}
	r.users = users
	if l.slice != nil {
		if r.key, err = l.slice.experimentKey(); err != nil {
			return failure(inWords("the key of the experiment cannot be made", err))
		}
	}
	sent := l.run.configured
	r.same = sent != nil && sameUsers(users, sent.users) && sent.hostname == r.rec.Asked.Hostname
	r.ready = r.same && l.run.proven && l.reported().open
	return failure(l.narrow(r.rec, users, l.insideKeys(r.key)))
}

// readPeers finds out which peers the node has, and sends them to the gateway.
func (l *life) readPeers(r *round) result {
	if l.slice != nil {
		var err error
		if r.peers, err = l.slice.current(); err != nil {
			r.current = r.ready
			return l.notConfigured(r, false, inWords("its peers cannot be told to the gateway", err))
		}
	}
	r.current = r.ready && l.run.configured.peers == r.peers.version
	return result{}
}

// notConfigured is the result of a phase in which a node could not be configured. A node
// that is ready stays ready, for its disk may just be full. With slow, attempts
// go on without end.
func (l *life) notConfigured(r *round, slow bool, err error) result {
	switch {
	case r.ready:
		return r.postpone(err)
	case slow:
		return result{retry, 0, err}
	}
	return failure(err)
}

// noPeers is no version of peers.
const noPeers = math.MaxUint64

// talk configures the running node, opens its doors and proves that its users can
// log in.
func (l *life) talk(r *round) result {
	if r.current {
		return result{}
	}
	turns, within := l.t.talk, l.t.quickTime
	if l.slow {
		turns, within = l.t.slow, l.t.talkTime
	}
	if err := l.t.hello(r.ctx, l.id, within); err != nil {
		l.slow = true
		return l.notConfigured(r, true, inWords("its system does not answer", err))
	}
	if err := turns.take(r.ctx); err != nil {
		return failure(err)
	}
	defer turns.give()
	ctx, cancel := context.WithTimeout(r.ctx, within)
	defer cancel()
	err := l.configureAndProve(ctx, r)
	l.slow = err != nil && ctx.Err() != nil
	if err == nil {
		return result{}
	}
	return l.notConfigured(r, l.slow || l.earlier.ranWell(), err)
}

// configureAndProve sends the agent what has changed, and proves the logins again if need be.
func (l *life) configureAndProve(ctx context.Context, r *round) error {
	if !r.same {
		l.doing("setting up accounts")
		l.run.proven = false
	}
	var err error
	if !r.same || l.run.configured.peers != r.peers.version {
		err = l.configure(ctx, r)
		r.ready = r.ready && l.run.proven
	}
	// A node that an earlier program left running may be in order although it
	// cannot be configured: the proof of the logins decides.
	if r.ready || err != nil && (!l.earlier.ran || ctx.Err() != nil) {
		return err
	}
	if open := l.openAndProve(ctx, r); open != nil {
		return errors.Join(err, open)
	}
	if err != nil {
		l.run.configured = &configured{r.users, r.rec.Asked.Hostname, noPeers}
	}
	r.ready = true
	return err
}

// configure sends the agent accounts, keys, peers and the name server.
func (l *life) configure(ctx context.Context, r *round) error {
	if l.run.configured != nil {
		l.run.configured.peers = noPeers
	}
	c, err := l.t.machines.Agent(ctx, l.id)
	var facts agent.Facts
	if err == nil {
		facts, err = agent.Configure(ctx, c, agent.Configuration{
			Hostname: r.rec.Asked.hostname(l.id), Accounts: agentAccounts(r.users), Key: r.key.private, PublicKey: r.key.public,
			Motd:  motd(r.rec, l.id, l.t.settings.Outbound),
			Hosts: r.peers.hostsFor(l), KnownHosts: r.peers.known, NameServer: l.t.nameServer(),
		})
	}
	if err != nil {
		return inWords("its accounts cannot be set up", err)
	}
	for _, p := range facts.Problems {
		l.t.log.Info("something in a home could not be done", "node", l.id, "problem", p)
	}
	l.run.configured = &configured{r.users, r.rec.Asked.Hostname, r.peers.version}
	return nil
}

// openAndProve opens the doors, and tries whether all accounts can come in.
func (l *life) openAndProve(ctx context.Context, r *round) error {
	if err := l.openDoors(ctx, &r.rec, r.users, l.insideKeys(r.key)); err != nil {
		return err
	}
	if len(r.users) > 0 {
		l.doing("trying the logins")
		if err := l.t.doors.Prove(ctx, l.id); err != nil {
			return inWords("the logins do not work: "+err.Error(), err)
		}
	}
	l.run.proven = true
	l.update(func(s *status) { s.open = true })
	return nil
}

// waitForSteps lets the steps of the node's setup go on, and waits for those that
// keep it from being ready.
func (l *life) waitForSteps(r *round) result {
	held, wait := l.runSteps(r.rec)
	if !held {
		return result{}
	}
	l.reportSteps(r.rec.Change)
	return result{outcome: retry, after: wait}
}

// reportReady says that the node is as asked.
func (l *life) reportReady(r *round) result {
	if l.earlier.failed {
		l.earlier.failed = false
		l.note(r.rec.Change, "")
	}
	l.finish(r.rec.Change, provider.StateReady, "")
	return result{}
}

// stayFailed leaves a failed node as it is.
func (l *life) stayFailed(r *round) result {
	l.finish(r.rec.Change, provider.StateFailed, r.rec.Failed)
	return result{}
}

// stayDown makes sure that a broken node does nothing more.
func (l *life) stayDown(r *round) result {
	err := l.kill()
	l.finish(r.rec.Change, provider.StateFailed, l.broken)
	if err != nil {
		return result{retry, 0, fmt.Errorf("cannot end a broken node: %w", err)}
	}
	return result{}
}

// began notes that the node runs, and watches it.
func (l *life) began(r node.Running) {
	run := new(run)
	l.run, l.started = run, true
	l.update(func(s *status) { s.pid = r.PID })
	ended := make(chan struct{})
	l.t.work.Go(func() { l.watchAgent(ended) })
	l.t.work.Go(func() {
		for l.t.ctx.Err() == nil && !l.hasEnded(l.t.ctx) {
			sleep(l.t.ctx, time.Second)
		}
		close(ended)
		if l.t.ctx.Err() != nil {
			return // the node goes on without this program
		}
		l.t.machines.Reap(r)
		select {
		case l.died <- run:
		case <-l.t.ctx.Done():
		}
	})
}

// hasEnded waits until the agent is gone or cannot be asked, and tells whether
// the node runs no more.
func (l *life) hasEnded(ctx context.Context) bool {
	c, err := l.t.machines.Agent(ctx, l.id)
	if err == nil {
		err = agent.Hold(ctx, c)
	}
	if err == nil {
		return true
	}
	find, cancel := context.WithTimeout(ctx, talkTime)
	defer cancel()
	_, ok := l.t.machines.Find(find, l.id)
	return !ok
}
