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
	phasesOn      = []phase{(*nodeController).allocate, (*nodeController).shutDownToRestart, (*nodeController).saveRestart, (*nodeController).startNode, (*nodeController).connectEgress, (*nodeController).connectLinks, (*nodeController).revokeAccess, (*nodeController).readPeers, (*nodeController).setUpLogins, (*nodeController).waitForSteps, (*nodeController).reportReady}
	phasesOff     = []phase{(*nodeController).allocate, (*nodeController).shutDownForOff, (*nodeController).saveRestart, (*nodeController).closeLogins, (*nodeController).reportReady}
	phasesRemoval = []phase{(*nodeController).reportRemoval, (*nodeController).closeLogins, (*nodeController).removeFiles, (*nodeController).releaseClaims}
	phasesBroken  = []phase{(*nodeController).stayBroken}
	phasesFailed  = []phase{(*nodeController).stayFailed}
)

func (nc *nodeController) phases(rec record) []phase {
	switch {
	case rec.Desired.Removing:
		return phasesRemoval
	case nc.broken != "":
		return phasesBroken
	case rec.Failed != "" && rec.FailedAt == rec.Change && !nc.earlier.failed:
		return phasesFailed
	case rec.Desired.Power == provider.On:
		return phasesOn
	}
	return phasesOff
}

// allocate settles the image, user ids and port that the node keeps as long as it
// exists.
func (nc *nodeController) allocate(r *round) result {
	rec := &r.rec
	if rec.ImageKey != "" && rec.Base != 0 && (rec.Port != 0 || nc.t.settings.Publish == local.Gateway) {
		return result{}
	}
	if err := nc.t.heavyWork.acquire(r.ctx); err != nil {
		return resultOf(err)
	}
	defer nc.t.heavyWork.release()
	if rec.ImageKey == "" {
		nc.reportProgress(findingImage)
		nc.t.findingImages.RLock()
		defer nc.t.findingImages.RUnlock()
		key, _, err := nc.t.images.Find(r.ctx, rec.Desired.imageName())
		if errors.Is(err, fs.ErrNotExist) {
			return resultOf(&userError{fmt.Sprintf("there is no image %s any more", rec.Desired.imageName()), err, true})
		}
		if err != nil {
			return resultOf(asUserError("its image cannot be prepared", err))
		}
		rec.ImageKey = key
	}
	if rec.Base == 0 {
		base, err := nc.t.userIDs.Take(nc.holder(), nil)
		if errors.Is(err, hostalloc.ErrNone) {
			return resultOf(&userError{"this host has no user ids left for nodes; remove some nodes first", err, true})
		}
		if err != nil {
			return resultOf(asUserError("no user ids can be claimed for it", err))
		}
		rec.Base = base
		if err := nc.updateRecord(func(next *record) { next.ImageKey, next.Base = rec.ImageKey, base }); err != nil {
			return resultOf(asUserError("it cannot be noted on the disk of the host", errors.Join(err, nc.t.userIDs.Release(base, nc.holder()))))
		}
	}
	return resultOf(nc.openPort(rec))
}

// shutDownToRestart shuts the node down if a restart is asked.
func (nc *nodeController) shutDownToRestart(r *round) result {
	if r.rec.Desired.RestartSerial == r.rec.Restarted {
		return result{}
	}
	return nc.shutDown(r.ctx, "restarting", byRestart)
}

func (nc *nodeController) shutDownForOff(r *round) result {
	if end := nc.shutDown(r.ctx, "shutting down", byPowerOff); end.outcome != done {
		return end
	}
	return resultOf(nc.clearIncidents())
}

// saveRestart notes that the restart that was asked for is done.
func (nc *nodeController) saveRestart(r *round) result {
	serial := r.rec.Desired.RestartSerial
	if serial == r.rec.Restarted {
		return result{}
	}
	nc.deaths = nil
	return resultOf(asUserError("its restart cannot be noted on the disk of the host", nc.updateRecord(func(next *record) { next.Restarted, next.incidents = serial, incidents{} })))
}

// startNode makes the node run, from its disk if it has one.
func (nc *nodeController) startNode(r *round) result {
	if nc.run != nil {
		return result{}
	}
	if len(nc.deaths) > maxDeaths {
		return resultOf(errors.Join(nc.closeLogins(r).err, &userError{deathsMessage, errors.New("PID 1 has ended too often"), true}))
	}
	if err := nc.t.heavyWork.acquire(r.ctx); err != nil {
		return resultOf(err)
	}
	defer nc.t.heavyWork.release()
	if nc.snapshot().Change != r.rec.Change {
		return resultOf(errors.New("something else is asked by now"))
	}
	ctx, cancel := context.WithTimeout(r.ctx, startTime)
	defer cancel()
	i, err := nc.t.images.Key(r.rec.ImageKey)
	if errors.Is(err, fs.ErrNotExist) {
		return resultOf(&userError{"the image that it was made of is gone; remove the node and make it anew", err, true})
	}
	if err != nil {
		return resultOf(asUserError("its image cannot be used", err))
	}
	spec := node.Spec{ID: nc.id, Hostname: r.rec.Desired.hostname(nc.id), Base: r.rec.Base, Image: i, Limits: r.rec.Limits}
	if err := nc.t.userIDs.Hold(r.rec.Base, nc.holder()); errors.Is(err, hostalloc.ErrTaken) {
		return resultOf(&userError{takenMessage, err, true})
	} else if err != nil {
		return resultOf(asUserError("its user ids cannot be claimed", err))
	}
	nc.reportProgress("making its disk")
	if nc.started { // the run that ended may have left processes
		if err := nc.t.runtime.Kill(ctx, nc.id); err != nil {
			return resultOf(asUserError("what is left of its last run cannot be ended", err))
		}
	}
	if err := nc.t.runtime.Prepare(ctx, spec); err != nil {
		return resultOf(asUserError("its disk cannot be made", err))
	}
	nc.reportProgress("starting")
	running, err := nc.t.runtime.Start(ctx, spec)
	if err != nil {
		return resultOf(errors.Join(asUserError("it does not start", err), nc.kill()))
	}
	nc.trackRun(running)
	return result{}
}

// connectEgress gives a node that runs its way outside, once in each run. A node
// that an earlier program left running is to be reached without it, too.
func (nc *nodeController) connectEgress(r *round) result {
	err := asUserError("it cannot get its way to the network outside", nc.attachEgress(r.ctx, &r.rec))
	if err != nil && nc.earlier.ran {
		return r.postpone(err)
	}
	return resultOf(err)
}

// connectLinks gives the running node its links.
func (nc *nodeController) connectLinks(r *round) result {
	if nc.network == nil || nc.run.hasLinks {
		return result{}
	}
	nc.reportProgress("connecting its links")
	ctx, cancel := context.WithTimeout(r.ctx, linkTime)
	defer cancel()
	err := nc.network.connect(ctx, nc)
	if err == nil {
		nc.run.hasLinks = true
		return result{}
	}
	end := result{failed, 0, err}
	if _, ok := errors.AsType[*userError](err); !ok {
		end.err = asUserError("its links cannot be made", err)
	}
	if nc.earlier.ranWell() || ctx.Err() != nil || errors.Is(err, errLeaving) {
		end.outcome = retry
	}
	return end
}

// revokeAccess takes access from users who have lost it. It comes before anything
// that is done inside the node, which these users may control.
func (nc *nodeController) revokeAccess(r *round) result {
	users, err := parseUsers(r.rec.Desired.Users)
	if err != nil {
		return resultOf(&userError{err.Error(), err, true})
	}
	r.users = users
	if nc.slice != nil {
		if r.key, err = nc.slice.experimentKey(); err != nil {
			return resultOf(asUserError("the key of the experiment cannot be made", err))
		}
	}
	sent := nc.run.configured
	r.accountsCurrent = sent != nil && sameUsers(users, sent.users) && sent.hostname == r.rec.Desired.Hostname
	r.loginsReady = r.accountsCurrent && nc.run.proven && nc.currentStatus().loginsOpen
	return resultOf(nc.restrictEndpoint(r.rec, users, nc.insideKeys(r.key)))
}

// readPeers finds out which peers the node has, and sends them to the gateway.
func (nc *nodeController) readPeers(r *round) result {
	if nc.slice != nil {
		var err error
		if r.peers, err = nc.slice.refreshPeers(); err != nil {
			r.configured = r.loginsReady
			return nc.notConfigured(r, false, asUserError("its peers cannot be told to the gateway", err))
		}
	}
	r.configured = r.loginsReady && nc.run.configured.peers == r.peers.version
	return result{}
}

// notConfigured is the result of a phase in which a node could not be configured. A node
// that is ready stays ready, for its disk may just be full. With slow, attempts
// go on without end.
func (nc *nodeController) notConfigured(r *round, slow bool, err error) result {
	switch {
	case r.loginsReady:
		return r.postpone(err)
	case slow:
		return result{retry, 0, err}
	}
	return resultOf(err)
}

// noPeers is no version of peers.
const noPeers = math.MaxUint64

// setUpLogins configures the running node, opens its doors and proves that its users can
// log in.
func (nc *nodeController) setUpLogins(r *round) result {
	if r.configured {
		return result{}
	}
	turns, within := nc.t.agentCalls, nc.t.agentTime
	if nc.slowAgent {
		turns, within = nc.t.slowAgentCalls, nc.t.slowAgentTime
	}
	if err := nc.t.pingAgent(r.ctx, nc.id, within); err != nil {
		nc.slowAgent = true
		return nc.notConfigured(r, true, asUserError("its system does not answer", err))
	}
	if err := turns.acquire(r.ctx); err != nil {
		return resultOf(err)
	}
	defer turns.release()
	ctx, cancel := context.WithTimeout(r.ctx, within)
	defer cancel()
	err := nc.configureAndProve(ctx, r)
	nc.slowAgent = err != nil && ctx.Err() != nil
	if err == nil {
		return result{}
	}
	return nc.notConfigured(r, nc.slowAgent || nc.earlier.ranWell(), err)
}

// configureAndProve sends the agent what has changed, and proves the logins again if need be.
func (nc *nodeController) configureAndProve(ctx context.Context, r *round) error {
	if !r.accountsCurrent {
		nc.reportProgress("setting up accounts")
		nc.run.proven = false
	}
	var err error
	if !r.accountsCurrent || nc.run.configured.peers != r.peers.version {
		err = nc.configure(ctx, r)
		r.loginsReady = r.loginsReady && nc.run.proven
	}
	// A node that an earlier program left running may be in order although it
	// cannot be configured: the proof of the logins decides.
	if r.loginsReady || err != nil && (!nc.earlier.ran || ctx.Err() != nil) {
		return err
	}
	if open := nc.openAndProve(ctx, r); open != nil {
		return errors.Join(err, open)
	}
	if err != nil {
		nc.run.configured = &configured{r.users, r.rec.Desired.Hostname, noPeers}
	}
	r.loginsReady = true
	return err
}

// configure sends the agent accounts, keys, peers and the name server.
func (nc *nodeController) configure(ctx context.Context, r *round) error {
	if nc.run.configured != nil {
		nc.run.configured.peers = noPeers
	}
	c, err := nc.t.runtime.Agent(ctx, nc.id)
	var facts agent.Facts
	if err == nil {
		facts, err = agent.Configure(ctx, c, agent.Configuration{
			Hostname: r.rec.Desired.hostname(nc.id), Accounts: agentAccounts(r.users), Key: r.key.private, PublicKey: r.key.public,
			Motd:  motd(r.rec, nc.id, nc.t.settings.Outbound),
			Hosts: r.peers.hostsLines(nc), KnownHosts: r.peers.knownHosts, NameServer: nc.t.nameServer(),
		})
	}
	if err != nil {
		return asUserError("its accounts cannot be set up", err)
	}
	for _, p := range facts.Problems {
		nc.t.log.Info("something in a home could not be done", "node", nc.id, "problem", p)
	}
	nc.run.configured = &configured{r.users, r.rec.Desired.Hostname, r.peers.version}
	return nil
}

// openAndProve opens the doors, and tries whether all accounts can come in.
func (nc *nodeController) openAndProve(ctx context.Context, r *round) error {
	if err := nc.openEndpoints(ctx, &r.rec, r.users, nc.insideKeys(r.key)); err != nil {
		return err
	}
	if len(r.users) > 0 {
		nc.reportProgress("trying the logins")
		if err := nc.t.gateway.Prove(ctx, nc.id); err != nil {
			return asUserError("the logins do not work: "+err.Error(), err)
		}
	}
	nc.run.proven = true
	nc.updateStatus(func(s *status) { s.loginsOpen = true })
	return nil
}

// waitForSteps lets the steps of the node's setup go on, and waits for those that
// keep it from being ready.
func (nc *nodeController) waitForSteps(r *round) result {
	held, wait := nc.startSteps(r.rec)
	if !held {
		return result{}
	}
	nc.reportSteps(r.rec.Change)
	return result{outcome: retry, retryAfter: wait}
}

// reportReady says that the node is as asked.
func (nc *nodeController) reportReady(r *round) result {
	if nc.earlier.failed {
		nc.earlier.failed = false
		nc.saveFailure(r.rec.Change, "")
	}
	nc.reportResult(r.rec.Change, provider.StateReady, "")
	return result{}
}

// stayFailed leaves a failed node as it is.
func (nc *nodeController) stayFailed(r *round) result {
	nc.reportResult(r.rec.Change, provider.StateFailed, r.rec.Failed)
	return result{}
}

// stayBroken makes sure that a broken node does nothing more.
func (nc *nodeController) stayBroken(r *round) result {
	err := nc.kill()
	nc.reportResult(r.rec.Change, provider.StateFailed, nc.broken)
	if err != nil {
		return result{retry, 0, fmt.Errorf("cannot end a broken node: %w", err)}
	}
	return result{}
}

// trackRun notes that the node runs, and watches it.
func (nc *nodeController) trackRun(r node.Running) {
	run := new(run)
	nc.run, nc.started = run, true
	nc.updateStatus(func(s *status) { s.pid = r.PID })
	ended := make(chan struct{})
	nc.t.work.Go(func() { nc.watchAgent(ended) })
	nc.t.work.Go(func() {
		for nc.t.ctx.Err() == nil && !nc.waitForEnd(nc.t.ctx) {
			sleep(nc.t.ctx, time.Second)
		}
		close(ended)
		if nc.t.ctx.Err() != nil {
			return // the node goes on without this program
		}
		nc.t.runtime.Reap(r)
		select {
		case nc.died <- run:
		case <-nc.t.ctx.Done():
		}
	})
}

// waitForEnd waits until the agent is gone or cannot be asked, and tells whether
// the node runs no more.
func (nc *nodeController) waitForEnd(ctx context.Context) bool {
	c, err := nc.t.runtime.Agent(ctx, nc.id)
	if err == nil {
		err = agent.Hold(ctx, c)
	}
	if err == nil {
		return true
	}
	find, cancel := context.WithTimeout(ctx, slowAgentTime)
	defer cancel()
	_, ok := nc.t.runtime.Find(find, nc.id)
	return !ok
}
