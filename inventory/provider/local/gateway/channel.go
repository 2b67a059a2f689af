package gateway

import (
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/inventory/provider/fdsocket"
)

// maxChannels is the most channels of a connection. A channel counts until the peer has
// closed it.
const maxChannels = 128

// maxExtra is the most bytes of extra data with which a channel may be opened.
const maxExtra = 8 << 10

// agentTime limits each call of a node's agent.
const agentTime = 10 * time.Second

// serveChannels serves all channels of a connection, at most maxChannels at a time, until it ends.
func (c *login) serveChannels(all <-chan ssh.NewChannel) {
	for n := range all {
		c.transport.charge()
		if len(n.ExtraData()) > maxExtra {
			n.Reject(ssh.ConnectionFailed, "the request is too long")
			continue
		}
		if !c.acquireSlot() {
			n.Reject(ssh.ResourceShortage, fmt.Sprintf("at most %d channels are open at the same time", maxChannels))
			continue
		}
		c.working.Go(func() {
			defer c.releaseSlot()
			c.serveChannel(n)
		})
	}
}

// acquireSlot reports whether it reserved a slot. releaseSlot releases the slot.
func (c *login) acquireSlot() bool {
	select {
	case c.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (c *login) releaseSlot() { <-c.slots }

// serveChannel serves a channel by its type, until the peer has closed it.
func (c *login) serveChannel(n ssh.NewChannel) {
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

func (c *login) dialAgent(ctx context.Context) (*fdsocket.Conn, error) {
	f, err := c.g.request(ctx, askAgent, c.node)
	if err != nil {
		return nil, err
	}
	return fdsocket.FromFile(f)
}

// refuseRequests returns when the peer has closed the channel. It discards extended data.
func (c *login) refuseRequests(ch ssh.Channel, requests <-chan *ssh.Request) {
	go io.Copy(io.Discard, ch.Stderr())
	for r := range requests {
		c.transport.charge()
		r.Reply(false, nil)
	}
}
