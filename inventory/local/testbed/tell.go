package testbed

import (
	"context"
	"errors"
	"slices"
	"strings"

	"patchbay/inventory/local"
	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/claim"
	"patchbay/inventory/local/gateway"
)

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
		l.proven = false
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
		same = l.setRoot(!facts.Sudo) && same
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
	if l.asRoot() {
		d.Accounts = append(d.Accounts, rootAccount(users)...)
	}
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

// doorName is what the gateway account calls a node, and no other.
func doorName(hostname, id string) string {
	hostname, _, _ = strings.Cut(hostname, ".")
	id = id[:min(len(id), 8)]
	if hostname == "" {
		return id
	}
	return strings.ToLower(hostname) + "-" + id
}
