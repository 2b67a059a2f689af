package gateway

import (
	"context"
	"net"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"
)

// tcpOpen is the payload of direct-tcpip and forwarded-tcpip (RFC 4254, 7.2).
type tcpOpen struct {
	Host       string
	Port       uint32
	Origin     string
	OriginPort uint32
}

// unixOpen is the payload of direct-streamlocal@openssh.com. The payload of
// forwarded-streamlocal@openssh.com has only the first two fields.
type unixOpen struct {
	Path   string
	Spare  string
	Spare2 uint32
}

const (
	maxForwards = 32 // listening ports and sockets of a connection
	maxHost     = 255
)

// listenTime limits the total time that a connection waits for its node to open
// listeners. A connection's requests are handled in order, so a slow request delays the
// others. Calls shorter than quickTime do not count.
const (
	listenTime = agentTime
	quickTime  = 100 * time.Millisecond
)

// directTCP serves ssh -L, -D and -W.
func (c *login) directTCP(n ssh.NewChannel) {
	var to tcpOpen
	if ssh.Unmarshal(n.ExtraData(), &to) != nil || len(to.Host) > maxHost || to.Port > 65535 {
		n.Reject(ssh.ConnectionFailed, "the request cannot be read")
		return
	}
	c.direct(n, "tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
}

func (c *login) directUnix(n ssh.NewChannel) {
	var to unixOpen
	if ssh.Unmarshal(n.ExtraData(), &to) != nil {
		n.Reject(ssh.ConnectionFailed, "the request cannot be read")
		return
	}
	c.direct(n, "unix", to.Path)
}

func (c *login) direct(n ssh.NewChannel, network, address string) {
	nc, err := c.dial(network, address)
	if err != nil {
		n.Reject(ssh.ConnectionFailed, printable(err.Error()))
		return
	}
	ch, requests, err := n.Accept()
	if err != nil {
		nc.Close()
		return
	}
	c.joinChannel(ch, requests, nc)
}

func (c *login) dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), agentTime)
	defer cancel()
	a, err := c.dialAgent(ctx)
	if err != nil {
		return nil, errNoAgent
	}
	return c.g.agents.dial(ctx, a, network, address, c.user)
}

// listen applies ctx only to the time to open the listener.
func (c *login) listen(ctx context.Context, network, address string) (net.Listener, error) {
	a, err := c.dialAgent(ctx)
	if err != nil {
		return nil, errNoAgent
	}
	return c.g.agents.listen(ctx, a, network, address, c.user)
}

// serveRequests handles the global requests: remote forwarding (ssh -R) and keepalives.
func (c *login) serveRequests(all <-chan *ssh.Request) {
	f := forwards{listeners: make(map[string]net.Listener), left: listenTime}
	defer func() {
		for _, l := range f.listeners {
			l.Close()
		}
	}()
	for r := range all {
		c.transport.charge()
		ok, answer := false, []byte(nil)
		switch {
		case r.Type == "keepalive@openssh.com":
			ok = true
		case c.kind == jump:
		case r.Type == "tcpip-forward":
			ok, answer = c.forwardTCP(r.Payload, &f)
		case r.Type == "streamlocal-forward@openssh.com":
			ok = c.forwardUnix(r.Payload, &f)
		case r.Type == "cancel-tcpip-forward":
			var at tcpForward
			ok = ssh.Unmarshal(r.Payload, &at) == nil && f.cancel(at.key())
		case r.Type == "cancel-streamlocal-forward@openssh.com":
			var at unixForward
			ok = ssh.Unmarshal(r.Payload, &at) == nil && f.cancel(at.Path)
		}
		r.Reply(ok, answer)
	}
}

// tcpForward is the payload of tcpip-forward (RFC 4254, 7.1).
type tcpForward struct {
	Host string
	Port uint32
}

func (f tcpForward) key() string { return net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))) }

// unixForward is the payload of streamlocal-forward@openssh.com.
type unixForward struct{ Path string }

type forwards struct {
	listeners map[string]net.Listener // by host:port, or by path
	left      time.Duration           // remaining time, see listenTime
}

// cancel reports whether there was a listener.
func (f *forwards) cancel(key string) bool {
	l := f.listeners[key]
	if l == nil {
		return false
	}
	delete(f.listeners, key)
	l.Close()
	return true
}

// listen calls c.listen for at most the remaining time.
func (f *forwards) listen(c *login, network, address string) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(context.Background(), f.left)
	defer cancel()
	start := time.Now()
	l, err := c.listen(ctx, network, address)
	if took := time.Since(start); took > quickTime {
		f.left -= took
	}
	return l, err
}

// forwardTCP opens the listener in the node that a client requests (ssh -R), and forwards its connections to
// the client. It returns success, and the answer with the chosen port if the client requested port 0. The
// agent checks which addresses exist and which ports the account may use.
func (c *login) forwardTCP(payload []byte, f *forwards) (bool, []byte) {
	var at tcpForward
	if ssh.Unmarshal(payload, &at) != nil || len(at.Host) > maxHost || at.Port > 65535 {
		return false, nil
	}
	if len(f.listeners) >= maxForwards || at.Port != 0 && f.listeners[at.key()] != nil {
		return false, nil
	}
	// As OpenSSH with "GatewayPorts clientspecified": the client chooses the address.
	host := at.Host
	if host == "*" {
		host = ""
	}
	l, err := f.listen(c, "tcp", net.JoinHostPort(host, strconv.Itoa(int(at.Port))))
	if err != nil {
		return false, nil
	}
	bound, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		l.Close()
		return false, nil
	}
	var answer []byte
	if at.Port == 0 {
		at.Port = uint32(bound.Port)
		answer = ssh.Marshal(struct{ Port uint32 }{at.Port})
	}
	f.listeners[at.key()] = l
	c.working.Go(func() {
		c.acceptForward(l, "forwarded-tcpip", func(nc net.Conn) []byte {
			open := tcpOpen{Host: at.Host, Port: at.Port}
			if from, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
				open.Origin, open.OriginPort = from.IP.String(), uint32(from.Port)
			}
			return ssh.Marshal(open)
		})
	})
	return true, answer
}

func (c *login) forwardUnix(payload []byte, f *forwards) bool {
	var at unixForward
	if ssh.Unmarshal(payload, &at) != nil || len(f.listeners) >= maxForwards || f.listeners[at.Path] != nil {
		return false
	}
	l, err := f.listen(c, "unix", at.Path)
	if err != nil {
		return false
	}
	f.listeners[at.Path] = l
	c.working.Go(func() {
		c.acceptForward(l, "forwarded-streamlocal@openssh.com", func(net.Conn) []byte {
			return ssh.Marshal(struct{ Path, Spare string }{at.Path, ""})
		})
	})
	return true
}

// acceptForward forwards connections until l is closed, and closes l when the login ends. The
// parameter name is the type of the channels, and payload returns the extra data of a channel. While
// the login has maxChannels channels, acceptForward waits.
func (c *login) acceptForward(l net.Listener, name string, payload func(net.Conn) []byte) {
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-c.closed:
		case <-ended:
		}
		l.Close()
	}()
	for {
		nc, err := l.Accept()
		if err != nil {
			// A failed listener of a node is not retried.
			return
		}
		select {
		case c.slots <- struct{}{}:
		case <-c.closed:
			nc.Close()
			return
		}
		c.working.Go(func() {
			defer c.releaseSlot()
			ch, requests, err := c.conn.OpenChannel(name, payload(nc))
			if err != nil {
				nc.Close()
				return
			}
			c.joinChannel(ch, requests, nc)
		})
	}
}
