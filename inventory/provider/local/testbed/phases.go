package testbed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"patchbay/inventory/node/agent"
	"patchbay/inventory/node/steprunner"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/hostalloc"
	"patchbay/inventory/provider/local/node"
)

// The phases of a node, by its desired state. A phase that finds its part of the node in
// the desired state does nothing.
var (
	phasesOn = []phase{
		(*nodeController).allocate,          // its image, user ids and port
		(*nodeController).shutDownToRestart, // if a restart is requested
		(*nodeController).saveRestart,       // in its record
		(*nodeController).repeatStartSteps,  // if it was off
		(*nodeController).startNode,         // creates its disk, starts PID 1
		(*nodeController).connectEgress,     // to the outside network
		(*nodeController).connectLinks,      // its interfaces
		(*nodeController).revokeAccess,      // of users that have lost it
		(*nodeController).readPeers,         // their names, for the hosts file
		(*nodeController).setUpLogins,       // configures the node, tests a login
		(*nodeController).awaitPeers,        // until they know its name
		(*nodeController).waitForSteps,      // starts the steps of its setup
		(*nodeController).reportReady,       // to the runner
	}
	phasesOff     = []phase{(*nodeController).allocate, (*nodeController).runStopSteps, (*nodeController).shutDownForOff, (*nodeController).saveRestart, (*nodeController).closeLogins, (*nodeController).replaceLostKey, (*nodeController).reportReady}
	phasesRemoval = []phase{(*nodeController).reportRemoval, (*nodeController).closeLogins, (*nodeController).replaceKeyOfRemoved, (*nodeController).runUninstallSteps, (*nodeController).removeFiles, (*nodeController).releaseClaims}
	phasesBroken  = []phase{(*nodeController).stayBroken}
	phasesFailed  = []phase{(*nodeController).replaceLostKey, (*nodeController).stayFailed}
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

// allocate reserves the image, user ids and port that the node keeps as long as it
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
			return resultOf(&userError{fmt.Sprintf("the image %s no longer exists", rec.Desired.imageName()), err, true})
		}
		if err != nil {
			return resultOf(asUserError("its image cannot be prepared", err))
		}
		rec.ImageKey = key
	}
	if rec.Base == 0 { // so the image's key is not saved either: both are saved together
		base, err := nc.t.userIDs.Allocate(nc.holder(), nil)
		if errors.Is(err, hostalloc.ErrNone) {
			return resultOf(&userError{"this host has no user ids left for nodes; remove some nodes first", err, true})
		}
		if err != nil {
			return resultOf(asUserError("no user ids can be allocated for it", err))
		}
		rec.Base = base
		if err := nc.updateRecord(func(next *record) { next.ImageKey, next.Base = rec.ImageKey, base }); err != nil {
			return resultOf(asUserError("its state cannot be saved on the disk of the host", errors.Join(err, nc.t.userIDs.Release(base, nc.holder()))))
		}
	}
	return resultOf(nc.openPort(rec))
}

func (nc *nodeController) shutDownToRestart(r *round) result {
	if r.rec.Desired.RestartSerial == r.rec.Restarted {
		return result{}
	}
	return nc.shutDown(r.ctx, "restarting", steprunner.ByRestart)
}

func (nc *nodeController) shutDownForOff(r *round) result {
	nc.changeSteps((*steprunner.Journal).SwitchOff)
	if end := nc.shutDown(r.ctx, "shutting down", steprunner.ByPowerOff); end.outcome != done {
		return end
	}
	return resultOf(nc.clearIncidents())
}

// saveRestart also clears the incidents and the deaths from before the restart.
func (nc *nodeController) saveRestart(r *round) result {
	serial := r.rec.Desired.RestartSerial
	if serial == r.rec.Restarted {
		return result{}
	}
	nc.deaths = nil
	return resultOf(asUserError("its restart cannot be saved on the disk of the host", nc.updateRecord(func(next *record) { next.Restarted, next.incidents = serial, incidents{} })))
}

// startNode starts the node if it does not run. It creates the disk of a new node, and kills what an earlier
// run has left. It fails if PID 1 has ended too often.
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
		return resultOf(errors.New("the desired state has changed"))
	}
	ctx, cancel := context.WithTimeout(r.ctx, startTime)
	defer cancel()
	i, err := nc.t.images.Key(r.rec.ImageKey)
	if errors.Is(err, fs.ErrNotExist) {
		return resultOf(&userError{"its image was removed; remove the node and create it again", err, true})
	}
	if err != nil {
		return resultOf(asUserError("its image cannot be used", err))
	}
	spec := node.Spec{ID: nc.id, Hostname: r.rec.Desired.hostname(nc.id), Base: r.rec.Base, Image: i, Limits: r.rec.Limits, Disks: r.rec.Disks}
	if err := nc.t.userIDs.Claim(r.rec.Base, nc.holder()); errors.Is(err, hostalloc.ErrTaken) {
		return resultOf(&userError{takenMessage, err, true})
	} else if err != nil {
		return resultOf(asUserError("its user ids cannot be allocated", err))
	}
	nc.reportProgress("creating its disk")
	if nc.started { // the last run may have left processes
		if err := nc.t.runtime.Kill(ctx, nc.id); err != nil {
			return resultOf(asUserError("processes of its last run cannot be ended", err))
		}
	}
	if err := nc.t.runtime.Prepare(ctx, spec); err != nil {
		return resultOf(asUserError("its disk cannot be created", err))
	}
	nc.reportProgress("starting")
	running, err := nc.t.runtime.Start(ctx, spec)
	if err != nil {
		return resultOf(errors.Join(asUserError("it does not start", err), nc.kill()))
	}
	nc.trackRun(running)
	return result{}
}

// connectEgress attaches a running node once per run. If that fails for a node that an earlier
// program left running, the node's users can still log in.
func (nc *nodeController) connectEgress(r *round) result {
	err := asUserError("it cannot be connected to the outside network", nc.attachEgress(r.ctx, &r.rec))
	if err != nil && nc.earlier.ran {
		return r.postpone(err)
	}
	return resultOf(err)
}

// connectLinks repeats attempts without limit if the time ran out, if a node that is being
// removed blocks a link, or if the node was already running when this program started.
func (nc *nodeController) connectLinks(r *round) result {
	wanted := nc.ifaces.Load()
	if nc.network() == nil || nc.run.links == wanted {
		return result{}
	}
	nc.reportProgress("connecting its links")
	ctx, cancel := context.WithTimeout(r.ctx, linkTime)
	defer cancel()
	err := nc.network().connect(ctx, nc)
	if err == nil {
		nc.run.links = wanted
		return result{}
	}
	end := result{failed, 0, err}
	if _, ok := errors.AsType[*userError](err); !ok {
		end.err = asUserError("its links cannot be created", err)
	}
	if nc.earlier.ranWell() || ctx.Err() != nil || errors.Is(err, errLeaving) {
		end.outcome = retry
	}
	return end
}

// revokeAccess withdraws access from users that have lost it. It runs before all work inside
// the node, since these users may control the node.
func (nc *nodeController) revokeAccess(r *round) result {
	users, err := parseUsers(r.rec.Desired.Users)
	if err != nil {
		return resultOf(&userError{err.Error(), err, true})
	}
	r.users = users
	if r.rec.KeyLost != 0 {
		// No login of a removed user may be left that could read the new key.
		if err := nc.restrictEndpoint(r.rec, users, nil); err != nil {
			return resultOf(err)
		}
		if end := nc.replaceLostKey(r); end.outcome != done {
			return end
		}
	}
	if nc.slice != nil {
		if r.key, err = nc.slice.experimentKey(); err != nil {
			return resultOf(asUserError("the key of the experiment cannot be created", err))
		}
	}
	sent := nc.run.configured
	r.accountsCurrent = sent != nil && sameUsers(users, sent.users) && sent.hostname == r.rec.Desired.Hostname
	r.loginsReady = r.accountsCurrent && nc.run.proven && nc.currentStatus().loginsOpen
	return resultOf(nc.restrictEndpoint(r.rec, users, nc.insideKeys(r.key)))
}

// replaceLostKey replaces the key of the slice if users have lost access to the node, since they
// may have a copy of the key.
func (nc *nodeController) replaceLostKey(r *round) result {
	lost := r.rec.KeyLost
	if lost == 0 {
		return result{}
	}
	if nc.slice != nil {
		if err := nc.slice.replaceKey(); err != nil {
			return resultOf(asUserError("the key of the experiment cannot be replaced", err))
		}
	}
	return resultOf(nc.updateRecord(func(next *record) {
		if next.KeyLost == lost {
			next.KeyLost = 0
		}
	}))
}

// replaceKeyOfRemoved replaces the key of the slice when a node is removed, if a user of the node has no
// other node of the slice. Without other nodes, the key is removed later.
func (nc *nodeController) replaceKeyOfRemoved(r *round) result {
	if nc.slice == nil || nc.keyReplaced {
		return result{}
	}
	gone, _ := parseUsers(r.rec.Desired.Users)
	others := nc.slice.others(nc)
	for _, other := range others {
		left, _ := parseUsers(other.Desired.Users)
		gone = slices.DeleteFunc(gone, func(u user) bool { return sameUsers(intersectUsers([]user{u}, left), []user{u}) })
	}
	if len(others) == 0 || len(gone) == 0 && r.rec.KeyLost == 0 {
		return result{}
	}
	if err := nc.slice.replaceKey(); err != nil {
		return resultOf(err)
	}
	nc.keyReplaced = true
	return result{}
}

// readPeers reads the peers after the gateway has received them. It sets r.configured if the
// node is up to date.
func (nc *nodeController) readPeers(r *round) result {
	if nc.slice != nil {
		var err error
		if r.peers, err = nc.slice.refreshPeers(); err != nil {
			r.configured = r.loginsReady
			return nc.notConfigured(r, false, asUserError("its peers cannot be sent to the gateway", err))
		}
	}
	r.configured = r.loginsReady && nc.isConfigured(r)
	return result{}
}

// isConfigured reports whether the agent has the peers and the key of r. The agent of the run must
// have been configured before.
func (nc *nodeController) isConfigured(r *round) bool {
	return nc.run.configured.peers == r.peers.version && nc.run.configured.key == r.key.public
}

// notConfigured handles a node that could not be configured. A node whose logins work stays
// ready, since perhaps only its disk is full. For a slow node, attempts are repeated without
// limit.
func (nc *nodeController) notConfigured(r *round, slow bool, err error) result {
	switch {
	case r.loginsReady:
		return r.postpone(err)
	case slow:
		return result{retry, 0, err}
	}
	return resultOf(err)
}

// noPeers is a version that peer files never have.
const noPeers = math.MaxUint64

// setUpLogins configures the running node, opens its endpoint and proves that its users
// can log in.
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

// configureAndProve sets up the accounts of the running node if they have changed, opens its endpoint, and
// proves that its users can log in. It stores what holds now in r and nc.run.
func (nc *nodeController) configureAndProve(ctx context.Context, r *round) error {
	if !r.accountsCurrent {
		nc.reportProgress("setting up accounts")
		nc.run.proven = false
	}
	var err error
	if !r.accountsCurrent || !nc.isConfigured(r) {
		err = nc.configure(ctx, r)
		r.loginsReady = r.loginsReady && nc.run.proven
	}
	// A node that an earlier program left running may work although it cannot be
	// configured: the proof of the logins decides.
	if r.loginsReady || err != nil && (!nc.earlier.ran || ctx.Err() != nil) {
		return err
	}
	if open := nc.openAndProve(ctx, r); open != nil {
		return errors.Join(err, open)
	}
	if err != nil {
		nc.run.configured = &configured{r.users, r.rec.Desired.Hostname, noPeers, ""}
	}
	r.loginsReady = true
	return err
}

// configure sends the configuration to the node's agent, and records in nc.run what the node now has.
func (nc *nodeController) configure(ctx context.Context, r *round) error {
	if nc.run.configured != nil {
		nc.run.configured.peers = noPeers
	}
	c, err := nc.t.runtime.Agent(ctx, nc.id)
	var facts agent.Facts
	if err == nil {
		facts, err = agent.Configure(ctx, c, agent.Configuration{
			Hostname: r.rec.Desired.hostname(nc.id), Accounts: accountsOf(r.users), Key: r.key.private, PublicKey: r.key.public,
			Motd:  motd(r.rec, nc.id, nc.t.settings.Outbound),
			Hosts: r.peers.hostsLines(nc), KnownHosts: r.peers.knownHosts, NameServer: nc.t.nameServer(),
		})
	}
	if err != nil {
		return asUserError("its accounts cannot be set up", err)
	}
	for _, p := range facts.Problems {
		nc.t.log.Info("part of a home folder could not be set up", "node", nc.id, "problem", p)
	}
	nc.updateStatus(func(s *status) { s.userIDs = facts.UserIDs })
	nc.hosts.Store(r.peers.version)
	nc.run.configured = &configured{r.users, r.rec.Desired.Hostname, r.peers.version, r.key.public}
	return nil
}

// openAndProve opens the endpoint and tests the login of every account. It then publishes
// the logins.
func (nc *nodeController) openAndProve(ctx context.Context, r *round) error {
	if err := nc.openEndpoints(ctx, &r.rec, r.users, nc.insideKeys(r.key)); err != nil {
		return err
	}
	if len(r.users) > 0 {
		nc.reportProgress("trying the logins")
		if err := nc.t.gateway.VerifyLogin(ctx, nc.id); err != nil {
			return asUserError("the logins do not work: "+err.Error(), err)
		}
	}
	nc.run.proven = true
	nc.updateStatus(func(s *status) { s.loginsOpen = true })
	return nil
}

// awaitPeers waits until the running nodes of the slice know the names of the node, before its steps begin. It
// does not wait long: a slow node keeps no other from being set up.
func (nc *nodeController) awaitPeers(r *round) result {
	if nc.slice == nil || nc.steps == nil || nc.stepsRun != nil || !nc.steps.Journal().IsOpen() || !nc.slice.isBehind(nc, r.peers.version) {
		return result{}
	}
	if nc.run.peersUntil.IsZero() {
		nc.run.peersUntil = time.Now().Add(nc.t.agentTime)
		nc.slice.wakeNodes()
	}
	if time.Now().After(nc.run.peersUntil) {
		return result{}
	}
	nc.reportProgress("waiting until the other nodes know its name")
	return result{outcome: retry, retryAfter: peersPause}
}

// waitForSteps starts the steps of the node's setup, and waits for those that must end
// before the node is ready.
func (nc *nodeController) waitForSteps(r *round) result {
	mustWait, wait := nc.startSteps()
	if !mustWait {
		return result{}
	}
	nc.reportSteps(r.rec.Change)
	return result{outcome: retry, retryAfter: wait}
}

func (nc *nodeController) reportReady(r *round) result {
	if nc.earlier.failed {
		nc.earlier.failed = false
		nc.saveFailure(r.rec.Change, "")
	}
	nc.reportResult(r.rec.Change, provider.StateReady, "")
	return result{}
}

func (nc *nodeController) stayFailed(r *round) result {
	nc.reportResult(r.rec.Change, provider.StateFailed, r.rec.Failed)
	return result{}
}

func (nc *nodeController) stayBroken(r *round) result {
	err := nc.kill()
	nc.reportResult(r.rec.Change, provider.StateFailed, nc.broken)
	if err != nil {
		return result{retry, 0, fmt.Errorf("cannot end a broken node: %w", err)}
	}
	return result{}
}

// trackRun starts goroutines that watch the agent, and send the run to nc.died when PID 1 has
// ended.
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
			return // the node continues without this program
		}
		nc.t.runtime.Reap(r)
		select {
		case nc.died <- run:
		case <-nc.t.ctx.Done():
		}
	})
}

// waitForEnd waits until the connection to the agent ends. Then it reports whether the node
// has ended, too.
func (nc *nodeController) waitForEnd(ctx context.Context) bool {
	c, err := nc.t.runtime.Agent(ctx, nc.id)
	if err == nil {
		err = agent.WaitForEnd(ctx, c)
	}
	if err == nil {
		return true
	}
	find, cancel := context.WithTimeout(ctx, slowAgentTime)
	defer cancel()
	_, ok := nc.t.runtime.Find(find, nc.id)
	return !ok
}
