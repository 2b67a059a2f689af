package testbed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"patchbay/inventory/provider"
	"patchbay/inventory/provider/fdsocket"
	"patchbay/inventory/provider/local"
)

// Bounds on the socket's clients, separately for root and for others.
const (
	maxClients  = 32               // answered at the same time
	maxWaiting  = 256              // waiting to be answered; further clients are disconnected
	requestTime = 30 * time.Second // a client's time to send a request, and to read the answer
)

func (t *Testbed) openSocket() (net.Listener, error) {
	l, err := fdsocket.Listen(t.o.Socket, 0o660)
	if err != nil {
		return nil, err
	}
	if err := os.Lchown(t.o.Socket, t.o.SettingsOwner, -1); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// clientLimit bounds the clients of root, or those of all other users.
type clientLimit struct{ admitted, active chan struct{} }

func newClientLimit() clientLimit {
	return clientLimit{make(chan struct{}, maxClients+maxWaiting), make(chan struct{}, maxClients)}
}

// serveClients answers the clients of the socket until ctx ends and the listener is closed. Root and other
// users have separate limits, so that silent clients of other users do not block root.
func (t *Testbed) serveClients(ctx context.Context, l net.Listener) {
	root, others := newClientLimit(), newClientLimit()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			t.log.Error("cannot accept a connection at the socket", "error", err)
			sleep(ctx, 100*time.Millisecond) // perhaps out of descriptors
			continue
		}
		conn := fdsocket.New(c.(*net.UnixConn))
		peer, err := conn.Peer()
		if err != nil {
			t.log.Error("cannot identify the client of the socket", "error", err)
			conn.Close()
			continue
		}
		limit := others
		if peer.Uid == 0 {
			limit = root
		}
		select {
		case limit.admitted <- struct{}{}:
		default:
			t.log.Warn("too many clients of the socket; one is disconnected", "user", peer.Uid)
			conn.Close()
			continue
		}
		t.work.Go(func() {
			defer func() { <-limit.admitted }()
			defer conn.Close()
			select {
			case limit.active <- struct{}{}:
				defer func() { <-limit.active }()
			case <-t.ctx.Done():
				return
			}
			defer context.AfterFunc(t.ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
			t.serveClient(conn, peer.Uid)
		})
	}
}

// serveClient answers one request of the user uid. Only root and the owner of the settings may send one.
func (t *Testbed) serveClient(c *fdsocket.Conn, uid uint32) {
	if err := c.SetDeadline(time.Now().Add(requestTime)); err != nil {
		return
	}
	var a local.Answer
	if uid != 0 && int(uid) != t.o.SettingsOwner {
		a.Error = fmt.Sprintf("user %d may not use the testbed; only root and the owner of its settings, user %d, may", uid, t.o.SettingsOwner)
	} else {
		var r local.Request
		if _, err := c.Receive(&r, local.MaxRequest, 0); err != nil {
			t.log.Info("cannot read a request at the socket", "user", uid, "error", err)
			return
		}
		a = t.handle(r, uid == 0)
	}
	for _, f := range a.Files {
		defer f.Close()
	}
	if err := c.SetDeadline(time.Now().Add(requestTime)); err != nil {
		return
	}
	if err := c.Send(a, a.Files...); err != nil {
		t.log.Info("cannot send an answer", "user", uid, "error", err)
	}
}

// handle returns the answer to a request. Only root may connect to nodes.
func (t *Testbed) handle(r local.Request, root bool) local.Answer {
	var output any
	var err error
	switch r.Action {
	case local.ActionGet:
		if err = t.checkSite(r.Settings); err == nil {
			output, err = t.get(r.Input)
		}
	case local.ActionSet:
		if err = t.checkSite(r.Settings); err == nil {
			output, err = t.set(r.Input)
		}
	case local.ActionList:
		output = t.list()
	case local.ActionLinks:
		output = t.listLinks()
	case local.ActionEndpoints:
		output, err = t.handleEndpoints(r.Input)
	case local.ActionAgent, local.ActionNetwork:
		if !root {
			return local.Answer{Error: "only root may connect to nodes"}
		}
		connect := t.connectAgent
		if r.Action == local.ActionNetwork {
			connect = t.openNetwork
		}
		a, err := connect(r.Name)
		if err != nil {
			return local.Answer{Error: err.Error()}
		}
		return a
	default:
		err = fmt.Errorf("unknown action %.40q", r.Action)
	}
	if err != nil {
		return local.Answer{Error: err.Error()}
	}
	b, err := json.Marshal(output)
	switch {
	case err != nil:
		return local.Answer{Error: err.Error()}
	case len(b) > maxAnswer:
		return local.Answer{Error: fmt.Sprintf("the answer has %d bytes, at most %d are allowed; request fewer at once", len(b), maxAnswer)}
	}
	return local.Answer{Output: b}
}

// checkSite fails if settings is the settings file of another site than this testbed's. Two
// sites must not act on the same nodes. If the testbed's own file is gone, its site has
// moved, and checkSite allows the other file.
func (t *Testbed) checkSite(settings string) error {
	if settings == "" || t.o.SettingsFile == "" || settings == t.o.SettingsFile {
		return nil
	}
	mine, err := os.Stat(t.o.SettingsFile)
	if err != nil {
		return nil
	}
	if other, err := os.Stat(settings); err == nil && os.SameFile(mine, other) {
		return nil
	}
	return fmt.Errorf("another site, with the settings %s, acts on the nodes of the local testbed %s; give the site of %s another instance in its settings, or restart the testbed with them: patchbay-local up %[3]s",
		t.o.SettingsFile, t.settings.Instance, settings)
}

// openNetwork answers with the network namespace of a running node.
func (t *Testbed) openNetwork(name string) (a local.Answer, err error) {
	nc, err := t.findNode(name)
	if err != nil {
		return a, err
	}
	if nc.snapshot().Desired.Power == provider.Off {
		return a, fmt.Errorf("node %s is switched off", nc.id)
	}
	f, err := t.runtime.Network(nc.id)
	if err != nil {
		return a, fmt.Errorf("node %s has no network; see its state with patchbay-local list: %w", nc.id, err)
	}
	a.Files = []*os.File{f}
	a.Output, err = json.Marshal(local.NodeNetwork{Node: nc.id, Base: nc.snapshot().Base})
	return a, err
}

// connectAgent answers with a connection to the agent of a running node.
func (t *Testbed) connectAgent(name string) (a local.Answer, err error) {
	nc, err := t.findNode(name)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(t.ctx, slowAgentTime)
	defer cancel()
	if nc.snapshot().Desired.Power == provider.Off {
		return a, fmt.Errorf("node %s is switched off", nc.id)
	}
	c, err := t.runtime.Agent(ctx, nc.id)
	if err != nil {
		return a, fmt.Errorf("node %s does not answer; see its state with patchbay-local list: %w", nc.id, err)
	}
	defer c.Close()
	f, err := c.File()
	if err != nil {
		return a, err
	}
	return local.Answer{Files: []*os.File{f}}, nil
}

// findNode returns the node whose id is name. Otherwise it returns the only node whose client_id is
// name, or whose hostname begins with the labels of name, or else whose id begins with name.
func (t *Testbed) findNode(name string) (*nodeController, error) {
	if nc := t.node(name); nc != nil {
		return nc, nil
	}
	var found, byID []*nodeController
	for _, nc := range t.sortedNodes() {
		d := nc.snapshot().Desired
		switch {
		case name == "":
		case name == d.ClientID || strings.HasPrefix(d.Hostname+".", name+"."):
			found = append(found, nc)
		case strings.HasPrefix(nc.id, name):
			byID = append(byID, nc)
		}
	}
	if len(found) == 0 {
		found = byID
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("there is no node %.80s; patchbay-local list shows all", name)
	case 1:
		return found[0], nil
	}
	label := func(nc *nodeController) string { return cmp.Or(nc.snapshot().Desired.Hostname, nc.id) }
	return nil, fmt.Errorf("%d nodes match %.80s, such as %s and %s; give more of the name, or of the id that patchbay-local list shows", len(found), name, label(found[0]), label(found[1]))
}

// list describes all nodes, and the endpoints of other providers' nodes.
func (t *Testbed) list() local.List {
	out := local.List{Instance: t.settings.Instance, Nodes: []local.Listed{}, Endpoints: t.listForeignEndpoints()}
	if t.settings.Publish != local.Direct {
		out.Gateway = t.gatewayAddress()
	}
	var err error
	if out.Images, err = t.images.Names(); err != nil {
		t.log.Error("cannot list the images", "error", err)
	}
	for _, nc := range t.sortedNodes() {
		rec := nc.snapshot()
		n := local.Listed{
			Name: nc.id, ClientID: rec.Desired.ClientID, SliceURN: rec.Desired.SliceURN, Hostname: rec.Desired.Hostname,
			SliverType: rec.Desired.SliverType, Image: rec.Desired.imageName(), Power: rec.Desired.Power, Base: rec.Base,
		}
		nc.mu.Lock()
		n.State, n.Message, n.PID = nc.state, nc.statusMessage(), nc.pid
		if nc.loginsOpen {
			n.Login, _ = t.published(endpointName(rec.Desired.Hostname, nc.id), rec.Port)
		}
		nc.mu.Unlock()
		users, _ := parseUsers(rec.Desired.Users)
		for _, u := range users {
			n.Users = append(n.Users, u.Login)
		}
		if u, err := t.runtime.Usage(nc.id); err == nil {
			n.Memory, n.Disk, n.PIDs = u.Memory, u.Disk, u.PIDs
		}
		out.Nodes = append(out.Nodes, n)
	}
	return out
}
