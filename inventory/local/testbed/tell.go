package testbed

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"patchbay/inventory/local"
	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/claim"
	"patchbay/inventory/local/gateway"
	"patchbay/inventory/provider"
)

// untold is no version of peers.
const untold = math.MaxUint64

// tell makes the running node know its experiment, opens its doors and proves
// that they can be used. A node that is slow is not given up, nor is a ready one
// that cannot be told of its peers: its disk may be full, say.
func (l *life) tell(ctx context.Context, rec record) error {
	users, err := parseUsers(rec.Asked.Users)
	if err != nil {
		return &wordsError{err.Error(), err, true}
	}
	same := l.told && sameUsers(users, l.toldUsers) && l.toldHost == rec.Asked.Hostname
	ready := same && l.proven && l.isOpen()
	var peers peerLines
	var key experimentKey
	if l.slice != nil {
		if key, err = l.slice.wait(ctx); err != nil {
			return inWords("the key of the experiment cannot be made", err)
		}
	}
	// Whoever may not come in any more is kept out first, whatever becomes of the
	// rest: it is done inside a node that may be his.
	if err := l.narrow(rec, users, key); err != nil {
		return err
	}
	if l.slice != nil {
		if peers, err = l.slice.current(); err != nil {
			err = inWords("its peers cannot be told to the gateway", err)
			if ready {
				err = &laterError{err, true}
			}
			return err
		}
	}
	if ready && l.toldPeers == peers.version {
		return nil
	}
	turns, within := l.t.talk, l.t.quickTime
	if l.slow {
		turns, within = l.t.slow, l.t.talkTime
	}
	if err := l.hello(ctx, within); err != nil {
		l.slow = true
		return &laterError{inWords("its system does not answer", err), ready}
	}
	if err := turns.take(ctx, false); err != nil {
		return err
	}
	defer turns.give()
	talk, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if !same {
		l.doing("setting up accounts")
		l.proven = false
	}
	if !same || l.toldPeers != peers.version {
		err = l.configure(talk, rec, users, key, peers)
		ready = ready && l.proven
	}
	if !ready && (err == nil || l.found == rec.Change && talk.Err() == nil) {
		// What has been running from before may be in order though it cannot be told
		// anything: that is for the logins to say.
		if open := l.openAndProve(talk, rec, users, key); open != nil {
			err = errors.Join(err, open)
		} else {
			l.told, l.toldUsers, l.toldHost, ready = true, users, rec.Asked.Hostname, true
		}
	}
	l.slow = err != nil && talk.Err() != nil
	if err != nil && (ready || l.slow || l.adopted == rec.Change) {
		err = &laterError{err, ready}
	}
	return err
}

// hello fails when the agent does not answer in time. It needs no turn: frozen
// nodes take none from others. Other errors are for those to tell who need more.
func (l *life) hello(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := l.t.machines.Answers(ctx, l.id); err != nil {
		return ctx.Err()
	}
	return nil
}

// configure tells the agent everything.
func (l *life) configure(ctx context.Context, rec record, users []user, key experimentKey, peers peerLines) error {
	l.toldPeers = untold
	facts, err := l.t.machines.Configure(ctx, l.id, agent.Configuration{
		Hostname: rec.Asked.hostname(l.id), Accounts: agentAccounts(users), Key: key.private, PublicKey: key.public,
		Hosts: peers.hostsFor(l), KnownHosts: peers.known, NameServer: l.t.nameServer(),
	})
	if err != nil {
		return inWords("its accounts cannot be set up", err)
	}
	if !l.setRoot(!facts.Sudo) {
		l.proven = false
	}
	for _, p := range facts.Problems {
		l.t.log.Info("something in a home could not be done", "node", l.id, "problem", p)
	}
	l.told, l.toldUsers, l.toldHost, l.toldPeers = true, users, rec.Asked.Hostname, peers.version
	return nil
}

// openAndProve opens the doors, and tries whether all accounts can come in.
func (l *life) openAndProve(ctx context.Context, rec record, users []user, key experimentKey) error {
	if err := l.openDoors(ctx, &rec, users, key); err != nil {
		return err
	}
	if len(users) > 0 {
		l.doing("trying the logins")
		if err := l.t.doors.Prove(ctx, l.id); err != nil {
			return inWords("the logins do not work: "+err.Error(), err)
		}
	}
	l.proven = true
	l.setOpen(true)
	return nil
}

func sameUsers(a, b []user) bool {
	return slices.EqualFunc(a, b, func(a, b user) bool { return a.Login == b.Login && slices.Equal(a.Keys, b.Keys) })
}

// setRoot notes whether root logs in, because the image has no sudo; it tells
// whether that was so before.
func (l *life) setRoot(root bool) (same bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	same = l.root == root
	l.root = root
	return same
}

func (l *life) asRoot() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.root
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

// reopen opens the door of a node that was found running before its agent is
// told anything, which may take long: its users can come in and look why.
func (l *life) reopen(rec record) {
	if rec.Asked.Removing || rec.Asked.Power != provider.On {
		return
	}
	users, err := parseUsers(rec.Asked.Users)
	if err == nil {
		err = l.put(&rec, users, nil)
	}
	if err != nil && l.t.ctx.Err() == nil {
		l.t.log.Warn("the door of a node that runs cannot be opened yet", "node", l.id, "error", err)
	}
}

// openDoors hands the node's listeners to the gateway, with who may come in.
func (l *life) openDoors(ctx context.Context, rec *record, users []user, key experimentKey) (err error) {
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
	return l.put(rec, users, l.insideKeys(key))
}

func (l *life) insideKeys(key experimentKey) []string {
	if l.slice == nil {
		return nil
	}
	return []string{key.public}
}

// narrow leaves at an open door only those accounts and keys that users have, too.
func (l *life) narrow(rec record, users []user, key experimentKey) error {
	left := inBoth(l.doorUsers, users)
	if l.public == nil && l.inside == nil || sameUsers(left, l.doorUsers) {
		return nil
	}
	l.proven = false
	return l.put(&rec, left, l.insideKeys(key))
}

// inBoth are the users of a that b has, too, with the keys that both have.
func inBoth(a, b []user) []user {
	var both []user
	for _, u := range a {
		i := slices.IndexFunc(b, func(v user) bool { return v.Login == u.Login })
		if i < 0 {
			continue
		}
		u.Keys = slices.DeleteFunc(slices.Clone(u.Keys), func(k string) bool { return !slices.Contains(b[i].Keys, k) })
		both = append(both, u)
	}
	return both
}

// put makes the node's door at the gateway as it is to be.
func (l *life) put(rec *record, users []user, insideKeys []string) error {
	if err := l.listen(rec); err != nil {
		return err
	}
	hostKey, public, err := keptHostKey(l.dir(), hostKeyFile, func() ([]byte, error) { return nil, errors.New("it is gone") })
	if err != nil {
		return inWords("its host key cannot be read", err)
	}
	if rec.HostKey != public { // it got what it lacked
		if err := l.settle(func(r *record) { r.HostKey = public }); err != nil {
			return inWords("its host key cannot be noted on the disk of the host", err)
		}
	}
	d := gateway.Door{Node: l.id, Names: []string{doorName(rec.Asked.Hostname, l.id)}, Accounts: gatewayAccounts(users), HostKey: hostKey, InsideKeys: insideKeys}
	if l.asRoot() {
		d.Accounts = append(d.Accounts, rootAccount(users)...)
	}
	if l.slice != nil {
		d.Slice = l.slice.id
	}
	if err := l.t.doors.Put(d, l.public, l.inside); err != nil {
		// The gateway may come to have it all the same.
		return inWords("its door cannot be opened", errors.Join(err, l.closeDoors()))
	}
	l.doorUsers = users
	return nil
}

// closeDoors takes the node's listeners from the gateway and closes them.
func (l *life) closeDoors() error {
	err := l.t.doors.Remove(l.id)
	for _, listener := range []net.Listener{l.public, l.inside} {
		if listener != nil {
			listener.Close() // if the gateway never had it
		}
	}
	l.public, l.inside, l.doorUsers = nil, nil, nil
	return err
}

// listen opens the node's port: the one that it has, or another if somebody else
// took that. A port that could not be noted is kept for the next attempt.
func (l *life) listen(rec *record) error {
	if l.t.settings.Publish == local.Gateway {
		return nil
	}
	if l.public == nil {
		was := cmp.Or(l.port, rec.Port)
		listener, port, err := l.t.listen(was, l.holder())
		if errors.Is(err, claim.ErrNone) {
			return &wordsError{"all ports for logins are taken; remove some nodes first, or wait until their ports have rested", err, true}
		}
		if err != nil {
			return inWords("no port can be opened for its logins", err)
		}
		if port != was && was != 0 {
			l.t.log.Warn("the port of a node was taken by another program; it has another one now", "node", l.id, "was", was, "is", port)
		}
		l.public, l.port = listener, port
	}
	if rec.Port == l.port {
		return nil
	}
	rec.Port = l.port
	return inWords("its port cannot be noted on the disk of the host", l.settle(func(r *record) { r.Port = l.port }))
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
