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

// explain serves a session at the gateway account: it prints what the account is for.
func (c *login) explain(n ssh.NewChannel) {
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	go io.Copy(io.Discard, ch)
	go io.Copy(io.Discard, ch.Stderr())
	told := false
	for r := range requests {
		c.line.charge()
		switch r.Type {
		case "pty-req", "env":
			r.Reply(true, nil)
		case "shell", "exec", "subsystem":
			r.Reply(!told, nil)
			if told {
				continue
			}
			told = true
			io.WriteString(ch.Stderr(), c.explanation())
			ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{1}))
			ch.Close()
		default:
			r.Reply(false, nil)
		}
	}
}

// maxListed is how many nodes the explanation lists.
const maxTold = 40

func (c *login) explanation() string {
	c.g.mu.Lock()
	var names []string
	for _, d := range c.g.nodesOf(c.key) {
		names = append(names, plain(d.title()))
	}
	c.g.mu.Unlock()
	slices.Sort(names)
	port := ""
	if t, ok := c.local.(*net.TCPAddr); ok && t.Port != 22 {
		port = fmt.Sprintf(":%d", t.Port)
	}
	more := ""
	if len(names) > maxTold {
		more = fmt.Sprintf(" and %d more", len(names)-maxTold)
		names = names[:maxTold]
	}
	return fmt.Sprintf("This account only leads to nodes. Use: ssh -J %s@THIS-HOST%s LOGIN@NODE\r\nYour nodes: %s%s\r\n",
		User, port, strings.Join(names, " "), more)
}

// printable returns s without control characters, which a terminal might execute.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// jump serves a connection through the gateway account to port 22 of a node.
func (c *login) jump(n ssh.NewChannel) {
	var to tcpOpen
	if ssh.Unmarshal(n.ExtraData(), &to) != nil {
		n.Reject(ssh.ConnectionFailed, "the request cannot be read")
		return
	}
	d, err := c.find(to.Host)
	if err == nil && to.Port != 22 {
		err = errors.New("only port 22 of nodes is reached by this account: forward ports by a login at the node")
	}
	if err != nil {
		n.Reject(ssh.Prohibited, err.Error())
		return
	}
	if d.address != "" {
		c.pass(n, d)
		return
	}
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	nc := &channelConn{Channel: ch, carrier: c, flow: c.flow()}
	guest := c.g.waiting.enter("key "+string(c.key), nc)
	c.working.Go(func() {
		c.g.receive(guest, entrance{kind: public, node: d.node})
		nc.flow.close()
		io.Copy(io.Discard, ch) // discard what follows the end
	})
	c.refuse(ch, requests)
}

// findEndpoint returns the endpoint that has the name, among those that the peer's key
// opens.
func (c *login) find(name string) (*endpoint, error) {
	c.g.mu.Lock()
	mine := c.g.nodesOf(c.key)
	c.g.mu.Unlock()
	for _, called := range []func(*endpoint) bool{
		func(d *endpoint) bool { return d.node == name },
		func(d *endpoint) bool { return d.called(name) },
		func(d *endpoint) bool { return d.calledBriefly(name) },
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
				ids = append(ids, plain(d.title())+" ("+d.node+")")
			}
			slices.Sort(ids)
			return nil, fmt.Errorf("%d of your nodes are called so: %s; use the whole name or the id", len(found), strings.Join(ids, ", "))
		}
	}
	return nil, errors.New("your key opens no node of that name: log in at this account without a command for a list")
}

// forwardChannel connects a channel of the gateway account to the Address of a node.
func (c *login) pass(n ssh.NewChannel, d *endpoint) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l := &login{g: c.g, kind: relayed, node: d.node, slice: d.slice, user: c.user, key: c.key, to: d.address}
	l.stop = func() error { cancel(); return nil }
	if err := c.g.admit(l); err != nil {
		n.Reject(ssh.ResourceShortage, err.Error())
		return
	}
	defer c.g.dismiss(l)
	nc, err := c.g.dial(d.node)
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
	c.join(ch, requests, nc)
}

// channelConn is a net.Conn over a channel. It has no deadlines, so its user must close
// it in time. Its user must also read it continuously: data that is not read counts as
// backlog of the carrier.
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
