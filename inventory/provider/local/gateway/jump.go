package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// explain serves a session at the gateway account: it prints how to use the account.
func (c *login) explain(n ssh.NewChannel) {
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	go io.Copy(io.Discard, ch)
	go io.Copy(io.Discard, ch.Stderr())
	explained := false
	for r := range requests {
		c.transport.charge()
		switch r.Type {
		case "pty-req", "env":
			r.Reply(true, nil)
		case "shell", "exec", "subsystem":
			r.Reply(!explained, nil)
			if explained {
				continue
			}
			explained = true
			io.WriteString(ch.Stderr(), c.explanation())
			ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{1}))
			ch.Close()
		default:
			r.Reply(false, nil)
		}
	}
}

const maxListed = 40

// explanation returns how to use the gateway account, with the names of the nodes that the key opens.
func (c *login) explanation() string {
	c.g.mu.Lock()
	var names []string
	for _, d := range c.g.endpointsFor(c.key) {
		names = append(names, printable(d.displayName()))
	}
	c.g.mu.Unlock()
	slices.Sort(names)
	port := ""
	if t, ok := c.local.(*net.TCPAddr); ok && t.Port != 22 {
		port = fmt.Sprintf(":%d", t.Port)
	}
	more := ""
	if len(names) > maxListed {
		more = fmt.Sprintf(" and %d more", len(names)-maxListed)
		names = names[:maxListed]
	}
	return fmt.Sprintf("This account only forwards connections to nodes. Use: ssh -J %s@THIS-HOST%s LOGIN@NODE\r\nYour nodes: %s%s\r\n",
		User, port, strings.Join(names, " "), more)
}

// printable removes control characters, which a terminal might execute.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// jump serves a channel of the gateway account that leads to port 22 of a node.
func (c *login) jump(n ssh.NewChannel) {
	var to tcpOpen
	if ssh.Unmarshal(n.ExtraData(), &to) != nil {
		n.Reject(ssh.ConnectionFailed, "the request cannot be read")
		return
	}
	d, err := c.findEndpoint(to.Host)
	if err == nil && to.Port != 22 {
		err = errors.New("this account reaches only port 22 of nodes; to forward other ports, log in to the node")
	}
	if err != nil {
		n.Reject(ssh.Prohibited, err.Error())
		return
	}
	if d.address != "" {
		c.forwardChannel(n, d)
		return
	}
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	nc := &channelConn{Channel: ch, carrier: c, flow: c.flow()}
	guest := c.g.pending.add("key "+string(c.key), nc)
	c.working.Go(func() {
		c.g.handleConnection(guest, origin{kind: public, node: d.node})
		nc.flow.close()
		io.Copy(io.Discard, ch) // discard data that arrives after the end
	})
	c.refuseRequests(ch, requests)
}

// findEndpoint searches the endpoints that the peer may reach. An id takes precedence over
// a full name, and a full name over a short one. If several endpoints have the name,
// findEndpoint returns an error that lists them.
func (c *login) findEndpoint(name string) (*endpoint, error) {
	c.g.mu.Lock()
	mine := c.g.endpointsFor(c.key)
	c.g.mu.Unlock()
	for _, called := range []func(*endpoint) bool{
		func(d *endpoint) bool { return d.node == name },
		func(d *endpoint) bool { return d.hasName(name) },
		func(d *endpoint) bool { return d.hasShortName(name) },
	} {
		var found []*endpoint
		for _, d := range mine {
			if called(d) {
				found = append(found, d)
			}
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			var ids []string
			for _, d := range found[:min(len(found), 4)] {
				ids = append(ids, printable(d.displayName())+" ("+d.node+")")
			}
			slices.Sort(ids)
			return nil, fmt.Errorf("%d of your nodes have this name: %s; use the full name or the id", len(found), strings.Join(ids, ", "))
		}
	}
	return nil, errors.New("your key opens no node with that name; ssh to this account without a command lists your nodes")
}

// forwardChannel connects a channel of the gateway account to the Address of an endpoint, as a login of its
// own that limits and changes of endpoints apply to.
func (c *login) forwardChannel(n ssh.NewChannel, d *endpoint) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l := &login{g: c.g, kind: relayed, node: d.node, slice: d.slice, user: c.user, key: c.key, to: d.address}
	l.stop = func() error { cancel(); return nil }
	if err := c.g.admit(l); err != nil {
		n.Reject(ssh.ResourceShortage, err.Error())
		return
	}
	defer c.g.removeLogin(l)
	nc, err := c.g.dialNode(d.node)
	if err != nil {
		n.Reject(ssh.ConnectionFailed, "the node does not answer")
		return
	}
	defer nc.Close()
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	context.AfterFunc(ctx, func() {
		nc.Close()
		ch.Close()
	})
	c.joinChannel(ch, requests, nc)
}

// channelConn is a net.Conn over a channel of the connection carrier. It has no deadlines,
// so its user must close it in time. Unread data counts as backlog of the carrier, so its
// user must also read it continuously.
type channelConn struct {
	ssh.Channel
	carrier *login
	flow    *flow
}

func (c *channelConn) Read(b []byte) (int, error) {
	c.flow.end()
	n, err := c.Channel.Read(b)
	if err == nil {
		c.flow.begin(n, n < len(b))
	}
	return n, err
}

func (c *channelConn) LocalAddr() net.Addr              { return c.carrier.local }
func (c *channelConn) RemoteAddr() net.Addr             { return c.carrier.remote }
func (c *channelConn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (c *channelConn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (c *channelConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
