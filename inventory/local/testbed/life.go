package testbed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/inventory/local"
	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/claim"
	"patchbay/inventory/local/gateway"
	"patchbay/inventory/local/node"
	"patchbay/inventory/provider"
)

// How long a step may take, and what is done when it fails.
const (
	startTime     = time.Minute
	talkTime      = 30 * time.Second
	removeTime    = 2 * time.Minute
	maxAttempts   = 3           // of what was asked, before the node is failed
	pause         = time.Second // after the first, and so much more after each
	maxPause      = 30          // of these, between attempts to remove a node
	maxDeaths     = 3           // of PID 1 within deathsWithin
	deathsWithin  = 5 * time.Minute
	deathsMessage = "its system has ended again and again; restart it, or look what ends it"
)

// life is one node. Its goroutine alone does anything about the node; others
// write down what is asked and poke it.
type life struct {
	t  *Testbed
	id string
	// slice is nil for a node without; never changed.
	slice *slice
	once  sync.Once // starts the goroutine
	pokes chan struct{}
	died  chan uint64 // the run that ended

	mu             sync.Mutex // guards what follows; held while the record is written
	rec            record
	gone           bool // nothing is left
	state, message string
	open           bool // the doors can be used
	pid            int  // 0 when it is not running
	manifest       []byte

	// The goroutine's own.
	runs     uint64 // counts starts, and adoptions
	up       bool
	deaths   []time.Time
	attempts int // of change
	change   uint64
	// What the running node was told last.
	told      bool
	toldUsers []user
	toldHost  string
	toldPeers uint64
	proven    bool
	// Listeners; public and inside are the gateway's to close.
	port           int
	public, inside net.Listener
	geni           net.Listener
}

// begin writes a new node down and lets it live.
func (t *Testbed) begin(id string, rec record) error {
	l := t.newLife(id)
	l.mu.Lock()
	defer l.mu.Unlock()
	t.mu.Lock()
	switch {
	case t.lives[id] != nil:
		t.mu.Unlock()
		return refused(provider.Failed, "node %s is just being made; ask again", id)
	case len(t.lives) >= maxNodes:
		t.mu.Unlock()
		return errFull
	case t.closing:
		t.mu.Unlock()
		return refused(provider.Failed, "the testbed is just being stopped; ask again")
	}
	t.lives[id] = l
	err := t.join(l, &rec)
	t.mu.Unlock()
	if err == nil {
		err = l.writeNew(&rec)
	}
	if err != nil {
		l.gone = true
		t.mu.Lock()
		t.leave(l)
		t.mu.Unlock()
		return err
	}
	l.say(provider.StatePending, "waiting for its turn")
	if l.slice != nil {
		l.slice.change()
	}
	l.live()
	return nil
}

// live starts the goroutine.
func (l *life) live() { l.once.Do(func() { l.t.work.Go(l.run) }) }

func (t *Testbed) newLife(id string) *life {
	return &life{t: t, id: id, pokes: make(chan struct{}, 1), died: make(chan uint64, 1)}
}

// writeNew makes the node's folder with host key and record.
func (l *life) writeNew(rec *record) error {
	private, public, err := newHostKey()
	if err != nil {
		return err
	}
	rec.HostKey = public
	if err := folder(l.dir()); err != nil {
		return err
	}
	if err := writeDurably(l.dir(), hostKeyFile, private); err != nil {
		return err
	}
	if err := l.save(*rec); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(l.dir()))
}

func (l *life) dir() string { return filepath.Join(l.t.nodes, l.id) }

// save makes rec the record, with l.mu held.
func (l *life) save(rec record) error {
	if err := l.t.write(l.dir(), recordFile, rec); err != nil {
		return err
	}
	l.rec = rec
	return nil
}

// settle changes the record.
func (l *life) settle(f func(*record)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	rec := l.rec
	f(&rec)
	return l.save(rec)
}

// say tells get what the node does, with l.mu held.
func (l *life) say(state, message string) { l.state, l.message = state, message }

// doing says so unless the node is ready and shall look so.
func (l *life) doing(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.rec.Asked.Removing || message == removing {
		l.say(provider.StateChanging, message)
	}
}

func (l *life) poke() {
	select {
	case l.pokes <- struct{}{}:
	default:
	}
}

// snapshot is the record as it is now.
func (l *life) snapshot() record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rec
}

// wordsError is what goes wrong in words for experimenters; Err is for the log.
type wordsError struct {
	words string
	err   error
	final bool // trying again is of no use
}

func (e *wordsError) Error() string { return fmt.Sprintf("%s: %v", e.words, e.err) }
func (e *wordsError) Unwrap() error { return e.err }

func inWords(words string, err error) error {
	if err == nil {
		return nil
	}
	return &wordsError{words: words, err: err}
}

// run is the goroutine.
func (l *life) run() {
	ctx := l.t.ctx
	l.adopt(ctx)
	var again <-chan time.Time
	for {
		wait, over := l.round(ctx)
		if over {
			return
		}
		if wait > 0 {
			again = time.After(wait)
		} else {
			again = nil
		}
		select {
		case <-l.pokes:
		case run := <-l.died:
			l.death(run)
		case <-again:
		case <-ctx.Done():
			for _, listener := range []net.Listener{l.geni, l.public, l.inside} {
				if listener != nil {
					listener.Close()
				}
			}
			return
		}
	}
}

// adopt finds the node that an earlier program left running, or makes sure that
// nothing runs.
func (l *life) adopt(ctx context.Context) {
	find, cancel := context.WithTimeout(ctx, talkTime)
	defer cancel()
	if l.snapshot().Base == 0 {
		return // it never began
	}
	if r, ok := l.t.machines.Find(find, l.id); ok {
		l.began(r)
		return
	}
	if err := l.t.machines.Kill(find, l.id); err != nil && ctx.Err() == nil {
		l.t.log.Error("cannot end what is left of a node", "node", l.id, "error", err)
	}
}

// began notes that the node runs, and watches it.
func (l *life) began(r node.Running) {
	l.up, l.told, l.proven = true, false, false
	l.setPID(r.PID)
	l.runs++
	run := l.runs
	l.t.work.Go(func() {
		for l.t.ctx.Err() == nil {
			err := l.t.machines.Hold(l.t.ctx, l.id)
			if err == nil {
				break
			}
			find, cancel := context.WithTimeout(l.t.ctx, talkTime)
			_, ok := l.t.machines.Find(find, l.id)
			cancel()
			if !ok {
				break
			}
			sleep(l.t.ctx, time.Second)
		}
		l.t.machines.Reap(r)
		select {
		case l.died <- run:
		case <-l.t.ctx.Done():
		}
	})
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// death notes that PID 1 has ended by itself.
func (l *life) death(run uint64) {
	if run != l.runs || !l.up {
		return // we ended it
	}
	l.ended()
	now := time.Now()
	l.deaths = append(slices.DeleteFunc(l.deaths, func(t time.Time) bool { return now.Sub(t) > deathsWithin }), now)
	l.t.log.Warn("the system of a node has ended by itself; it is started again", "node", l.id, "times", len(l.deaths))
}

// round does what is to be done, and says when to try again, or that nothing of
// the node is left.
func (l *life) round(ctx context.Context) (wait time.Duration, over bool) {
	for ctx.Err() == nil {
		rec := l.snapshot()
		if rec.Change != l.change {
			l.change, l.attempts, l.deaths = rec.Change, 0, nil
		}
		var err error
		switch {
		case rec.Asked.Removing:
			if err = l.remove(ctx); err == nil {
				return 0, true
			}
		case rec.Failed != "" && rec.FailedAt == rec.Change:
			l.finish(rec.Change, provider.StateFailed, rec.Failed)
			return 0, false
		default:
			err = l.bring(ctx, rec)
		}
		switch {
		case ctx.Err() != nil:
			return 0, false
		case err == nil && l.finish(rec.Change, provider.StateReady, ""):
			return 0, false
		case err == nil || l.snapshot().Change != rec.Change:
			continue // something else is asked by now
		}
		l.attempts++
		l.t.log.Warn("a node is not as asked yet", "node", l.id, "attempt", l.attempts, "error", err)
		if rec.Asked.Removing {
			if l.attempts >= maxAttempts {
				l.trouble()
			}
			return time.Duration(min(l.attempts, maxPause)) * l.t.pause, false
		}
		words, isWords := errors.AsType[*wordsError](err)
		if l.attempts < maxAttempts && !(isWords && words.final) {
			return time.Duration(l.attempts) * l.t.pause, false
		}
		l.fail(rec.Change, err)
	}
	return 0, false
}

// finish says that the node is as it was asked at change, unless more was asked.
func (l *life) finish(change uint64, state, message string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rec.Change != change {
		return false
	}
	l.say(state, message)
	return true
}

// fail gives the node up until something else is asked.
func (l *life) fail(change uint64, err error) {
	message := "the testbed could not make it so; its operators can see why in the log"
	if words, ok := errors.AsType[*wordsError](err); ok {
		message = words.words
	}
	err = l.settle(func(r *record) { r.Failed, r.FailedAt = message, change })
	if err != nil {
		l.t.log.Error("cannot write down that a node has failed", "node", l.id, "error", err)
		l.mu.Lock()
		l.rec.Failed, l.rec.FailedAt = message, change
		l.mu.Unlock()
	}
}

// trouble tells of a node that cannot be removed, which is tried for ever.
func (l *life) trouble() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.say(provider.StateFailed, "it cannot be removed yet; that is tried again and again, and the testbed's operators can see why in the log")
}

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
	return l.tell(ctx, rec)
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
		key, _, err := l.t.images.Find(ctx, rec.Asked.imageName())
		if errors.Is(err, fs.ErrNotExist) {
			return &wordsError{fmt.Sprintf("there is no image %s any more", rec.Asked.imageName()), err, true}
		}
		if err != nil {
			return inWords("its image cannot be prepared", err)
		}
		rec.ImageKey = key
	}
	if rec.Base == 0 {
		base, err := l.t.ids.Take(l.holder(), nil)
		if errors.Is(err, claim.ErrNone) {
			return &wordsError{"this host has no user ids left for nodes; remove some nodes first", err, true}
		}
		if err != nil {
			return inWords("no user ids can be claimed for it", err)
		}
		rec.Base = base
	}
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
	halt, cancel := context.WithTimeout(ctx, talkTime)
	defer cancel()
	if err := l.t.machines.Halt(halt, l.id); err != nil && ctx.Err() == nil {
		l.t.log.Info("a node does not shut down by itself", "node", l.id, "error", err)
	}
	return inWords("it cannot be shut down", l.kill())
}

// tell makes the running node know its experiment, opens its doors and proves
// that they can be used.
func (l *life) tell(ctx context.Context, rec record) error {
	users, err := parseUsers(rec.Asked.Users)
	if err != nil {
		return &wordsError{err.Error(), err, true}
	}
	var peers peerLines
	var key experimentKey
	if l.slice != nil {
		if key, err = l.slice.wait(ctx); err != nil {
			return inWords("the key of the experiment cannot be made", err)
		}
		if peers, err = l.slice.current(); err != nil {
			return inWords("its peers cannot be told to the gateway", err)
		}
	}
	same := l.told && sameUsers(users, l.toldUsers) && l.toldHost == rec.Asked.Hostname
	if same && l.toldPeers == peers.version && l.proven && l.isOpen() {
		return nil
	}
	if err := l.t.talk.take(ctx, false); err != nil {
		return err
	}
	defer l.t.talk.give()
	ctx, cancel := context.WithTimeout(ctx, talkTime)
	defer cancel()
	if !same {
		l.doing("setting up accounts")
	}
	if !same || l.toldPeers != peers.version {
		l.told = false
		facts, err := l.t.machines.Configure(ctx, l.id, agent.Configuration{
			Hostname: rec.Asked.hostname(l.id), Accounts: agentAccounts(users), Key: key.private, PublicKey: key.public,
			Hosts: peers.hosts, KnownHosts: peers.known,
		})
		if err != nil {
			return inWords("its accounts cannot be set up", err)
		}
		for _, p := range facts.Problems {
			l.t.log.Info("something in a home could not be done", "node", l.id, "problem", p)
		}
		l.told, l.toldUsers, l.toldHost, l.toldPeers = true, users, rec.Asked.Hostname, peers.version
	}
	if same && l.proven && l.isOpen() {
		return nil // only its peers are others
	}
	if err := l.openDoors(ctx, &rec, users, key); err != nil {
		return err
	}
	if len(users) > 0 {
		l.doing("trying the logins")
		if err := l.t.doors.Prove(ctx, l.id); err != nil {
			return inWords("the logins do not work", err)
		}
	}
	l.proven = true
	l.setOpen(true)
	return nil
}

func sameUsers(a, b []user) bool {
	return slices.EqualFunc(a, b, func(a, b user) bool { return a.Login == b.Login && slices.Equal(a.Keys, b.Keys) })
}

func (l *life) isOpen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

func (l *life) setOpen(open bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = open
}

// openDoors hands the node's listeners to the gateway, with who may come in.
func (l *life) openDoors(ctx context.Context, rec *record, users []user, key experimentKey) error {
	if err := l.listen(rec); err != nil {
		return err
	}
	hostKey, _, err := keptKey(l.dir(), hostKeyFile, func() ([]byte, error) { return nil, errors.New("it is gone") })
	if err != nil {
		return inWords("its host key cannot be read", err)
	}
	if l.inside == nil {
		if l.inside, err = l.t.machines.Listen(ctx, l.id, "tcp", "0.0.0.0:22", ""); err != nil {
			// Somebody may run an SSH server of his own in the node.
			l.t.log.Info("port 22 inside a node is not ours", "node", l.id, "error", err)
			l.inside = nil
		}
	}
	if l.geni == nil {
		if l.geni, err = l.t.machines.Listen(ctx, l.id, "unix", agent.GeniSocket, "root"); err != nil {
			return inWords("the socket of geni-get cannot be made", err)
		}
		listener := l.geni
		l.t.work.Go(func() { l.serveGeni(listener) })
	}
	d := gateway.Door{Node: l.id, Names: []string{doorName(rec.Asked.Hostname, l.id)}, Accounts: gatewayAccounts(users), HostKey: hostKey}
	if l.slice != nil {
		d.Slice, d.InsideKeys = l.slice.id, []string{key.public}
	}
	return inWords("its door cannot be opened", l.t.doors.Put(d, l.public, l.inside))
}

// listen opens the node's port: the one that it has, or another if somebody else
// took that.
func (l *life) listen(rec *record) error {
	if l.t.settings.Publish == local.Gateway || l.public != nil && l.port == rec.Port {
		return nil
	}
	listener, port, err := l.t.listen(rec.Port, l.holder())
	if errors.Is(err, claim.ErrNone) {
		return &wordsError{"all ports for logins are taken; remove some nodes first, or wait until their ports have rested", err, true}
	}
	if err != nil {
		return inWords("no port can be opened for its logins", err)
	}
	if port != rec.Port && rec.Port != 0 {
		l.t.log.Warn("the port of a node was taken by another program; it has another one now", "node", l.id, "was", rec.Port, "is", port)
	}
	l.public, l.port = listener, port
	if rec.Port != port {
		rec.Port = port
		err = l.settle(func(r *record) { r.Port = port })
	}
	return inWords("its port cannot be noted on the disk of the host", err)
}

func (l *life) setPID(pid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pid = pid
}

// ended lets go of what ends with a run.
func (l *life) ended() {
	l.up, l.told, l.proven = false, false, false
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
	err := l.t.doors.Remove(l.id)
	for _, listener := range []net.Listener{l.public, l.inside} {
		if listener != nil {
			listener.Close() // if the gateway never had it
		}
	}
	if !l.up {
		l.ended()
	}
	l.public = nil
	return inWords("its doors cannot be closed", err)
}

const removing = "being removed"

// remove leaves nothing of the node.
func (l *life) remove(ctx context.Context) error {
	l.doing(removing)
	if err := l.t.heavy.take(ctx, true); err != nil {
		return err
	}
	defer l.t.heavy.give()
	if err := l.shut(); err != nil {
		return err
	}
	rec := l.snapshot()
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	l.ended()
	if err := l.t.machines.Remove(ctx, l.id); err != nil {
		return err
	}
	if rec.Base != 0 {
		if err := l.t.ids.Release(rec.Base, l.holder()); err != nil {
			return err
		}
	}
	if rec.Port != 0 {
		if err := l.t.ports.Release(uint32(rec.Port), l.holder()); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.gone = true
	l.mu.Unlock()
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	l.t.leave(l)
	return nil
}

// doorName is what the gateway account calls a node, and no other.
func doorName(hostname, id string) string {
	hostname, _, _ = strings.Cut(hostname, ".")
	id = id[:min(len(id), 8)]
	if hostname == "" {
		return id
	}
	return strings.ToLower(hostname) + "-" + id
}
