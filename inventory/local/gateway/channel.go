package gateway

import (
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/inventory/local/fdsocket"
)

// maxChannels is how many channels a connection has at most, open or not yet
// closed by the peer.
const maxChannels = 128

// maxExtra is the longest text that comes with the opening of a channel, bytes.
const maxExtra = 8 << 10

// agentTime bounds what an agent does for a channel before it is open.
const agentTime = 10 * time.Second

// channels serves the channels that the peer opens.
func (c *login) channels(all <-chan ssh.NewChannel) {
	for n := range all {
		c.line.charge()
		if len(n.ExtraData()) > maxExtra {
			n.Reject(ssh.ConnectionFailed, "the request is too long")
			continue
		}
		if !c.take() {
			n.Reject(ssh.ResourceShortage, fmt.Sprintf("at most %d channels are open at the same time", maxChannels))
			continue
		}
		c.working.Go(func() {
			defer c.give()
			c.channel(n)
		})
	}
}

// take takes the place of a channel, give gives it back.
func (c *login) take() bool {
	select {
	case c.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (c *login) give() { <-c.slots }

// channel serves a channel until the peer has closed it.
func (c *login) channel(n ssh.NewChannel) {
	switch name := n.ChannelType(); {
	case name == "session" && c.kind == jump:
		c.explain(n)
	case name == "session":
		c.session(n)
	case name == "direct-tcpip" && c.kind == jump:
		c.jump(n)
	case name == "direct-tcpip":
		c.directTCP(n)
	case name == "direct-streamlocal@openssh.com" && c.kind != jump:
		c.directUnix(n)
	default:
		n.Reject(ssh.UnknownChannelType, "this kind of channel is not served")
	}
}

// agent connects to the node's agent.
func (c *login) agent(ctx context.Context) (*fdsocket.Conn, error) {
	f, err := c.g.ask(ctx, wordAgent, c.node)
	if err != nil {
		return nil, err
	}
	return fdsocket.FromFile(f)
}

// refuse answers the requests of a channel that has none, until the peer has
// closed it. What the peer sends as extended data is thrown away.
func (c *login) refuse(ch ssh.Channel, requests <-chan *ssh.Request) {
	go io.Copy(io.Discard, ch.Stderr())
	for r := range requests {
		c.line.charge()
		r.Reply(false, nil)
	}
}
